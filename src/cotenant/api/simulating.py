"""A plan replayed against its traffic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from cotenant.api.sources import Progress, load_fleet, silent

if TYPE_CHECKING:
    from os import PathLike

    from cotenant.api.sources import FleetSource, PlanSource
    from cotenant.domain.conditions import Conditions
    from cotenant.domain.replay import Replay
    from cotenant.domain.workload import Trace

_SHORTEST_S = 1.0  # of traffic


def simulate(
    fleet: FleetSource | PlanSource,
    *,
    traces: Sequence[str] | Mapping[str, str | PathLike[str] | Trace] = (),
    duration: str | None = None,
    arrivals: str | None = None,
    seed: int = 0,
    policy: str = "static",
    patience: str = "10s",
    conditions: Conditions | None = None,
    calibration: bool = True,
    aiconfigurator: bool = True,
    progress: Progress | None = None,
) -> Replay:
    """The plan of `fleet` replayed token by token against its traffic, the same for the same `seed`.

    `fleet` may be a plan too (itself or its JSON, which holds the fleet that it was made for). `traces` are
    replayed instead of the fleet's own traffic: a mapping from names, or ``NAME=FILE`` (``FILE`` where the fleet
    has one model). `duration` (``600s``) is how long requests come: by default the traces whole, else 300 s.
    `arrivals` says how rates come: ``poisson``, ``gamma:2`` (bursts), ``on-off:30s/90s``; the plan is made for it.
    `policy`: ``static`` is the plan as it stands, ``elastic`` lets its replicas lend each other KV cache,
    ``spatial`` multiprocessors too, ``disaggregated`` reads prompts on some of a model's replicas and writes on
    the others; with ``swap``, ``swap-2`` and ``restart`` each model is planned as if alone, and they take turns in
    the cards' memory (sleep level 1, level 2, a new process), a busy one only after `patience`. `conditions`
    (`cotenant.simulation.conditions.conditions_of`): clients that leave, replicas that fail, how long a model
    stays awake and an idle one is held, who takes a request, who gives way. Step times follow what was measured,
    unless `calibration` is false, and are combined with AIConfigurator's where it is installed, unless
    `aiconfigurator` is false. Raises InputErrors and its kin for bad input; a model without a place has all its
    requests unfinished.
    """
    (found,) = simulate_many(
        fleet, policies=(policy,), seeds=(seed,), traces=traces, duration=duration, arrivals=arrivals,
        patience=patience, conditions=conditions, workers=1, calibration=calibration,
        aiconfigurator=aiconfigurator, progress=progress,
    )  # fmt: skip
    return found


def simulate_many(
    fleet: FleetSource | PlanSource,
    *,
    policies: Sequence[str] = ("static",),
    seeds: Sequence[int] = (0,),
    traces: Sequence[str] | Mapping[str, str | PathLike[str] | Trace] = (),
    duration: str | None = None,
    arrivals: str | None = None,
    patience: str = "10s",
    conditions: Conditions | None = None,
    workers: int | None = None,
    ray: str | None = None,
    calibration: bool = True,
    aiconfigurator: bool = True,
    progress: Progress | None = None,
) -> tuple[Replay, ...]:
    """Every policy with every seed (`simulate` says what they are): policies in order, seeds within them.

    Replays run in `workers` processes (None: one a core) or on the Ray cluster at `ray`: the answers are the same.
    """
    from dataclasses import replace

    from cotenant.domain.conditions import USUAL
    from cotenant.edge.calibrations import notes_of, version_of
    from cotenant.edge.known import known
    from cotenant.edge.plans import plan_and_fleet
    from cotenant.edge.simulations import Prepared, Run, prepare, replays, with_arrivals
    from cotenant.errors import InputError
    from cotenant.estimation.options import arrivals_from
    from cotenant.simulation.policies import AS_PLANNED, check_planned, check_policies
    from cotenant.units import parse_seconds

    tell = progress or silent
    tell("reading the fleet")
    span, waits = None if duration is None else parse_seconds(duration), parse_seconds(patience)
    if span is not None and span < _SHORTEST_S:
        raise InputError(f"a duration of {duration} says nothing", hint=f"replay {_SHORTEST_S:g} s or more")
    if not seeds:
        raise InputError("a seed at least is needed")
    told = conditions or USUAL
    check_policies(policies, told)
    how = arrivals_from(arrivals)
    found, question = plan_and_fleet(fleet) or (None, load_fleet(fleet))  # type: ignore[arg-type]
    question = with_arrivals(question, how)
    kinds: dict[bool, Prepared] = {}
    prepared: dict[str, Prepared] = {}
    with known(calibration, aiconfigurator) as held:
        for policy in policies:
            apart = policy not in AS_PLANNED
            if apart not in kinds:
                kinds[apart] = prepare(question, found, traces, apart=apart, progress=tell)
            prepared[policy] = one = kinds[apart]
            check_planned(policy, one.plan, one.models, one.hostings, told, one.cards)
    runs = [Run(policy, seed) for policy in policies for seed in seeds]
    done = replays(
        prepared, runs, duration_s=span, patience_s=waits, workers=workers, ray=ray,
        conditions=told, progress=tell,
    )  # fmt: skip
    version, notes = version_of(held), notes_of(held)
    return tuple(replace(one, calibration=version, warnings=(*one.warnings, *notes)) for one in done)
