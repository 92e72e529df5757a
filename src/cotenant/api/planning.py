"""A fleet placed: once, again with more or less of something, and in several ways side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cotenant.api.measured import with_what_is_known
from cotenant.api.sources import Progress, load_fleet, running_plan, silent

if TYPE_CHECKING:
    from cotenant.api.sources import FleetSource, PlanSource
    from cotenant.domain.contender import Contender
    from cotenant.domain.fleet import Fleet, ModelRequest
    from cotenant.domain.plan import Plan
    from cotenant.domain.replay import Replay
    from cotenant.domain.what_if import Sweep, WhatIfPoint
    from cotenant.planning.scenes import Replayer


def plan(
    fleet: FleetSource,
    *,
    replay: bool = False,
    why: bool = False,
    seed: int = 0,
    previous: PlanSource | None = None,
    time_limit: str | None = None,
    workers: int | None = 1,
    calibration: bool = True,
    aiconfigurator: bool = True,
    progress: Progress | None = None,
) -> Plan:
    """Who runs where, in what precision, with which flags: placed, checked, with its cost, bound and gap.

    With `replay` its traffic is replayed (drawn from `seed`); where an SLO breaks, that model gets more room or
    less company and all is planned again, until every SLO holds or nothing does (`promises_held`). With
    `previous`, a plan that runs (a value, a path, a mapping), of the cheapest plans one near it is taken, and
    `migration` says what stays, what moves and in which order. With `why` each wish is dropped once to see what it
    costs (`relaxations`). After `time_limit` (``10s``) the best plan known by then is taken; `deterministic` is
    then false, since another machine may know another. Estimates follow what was measured, unless `calibration` is
    false, and step times are combined with AIConfigurator's where it is installed, unless `aiconfigurator` is
    false. Fleets of hundreds are sized and packed by `workers` processes (None: as many as cores), with the same
    plan; a script that asks for several needs ``if __name__ == "__main__"``. `progress` is told what is being
    done. Where nothing fits the nearest plan comes back, with `feasible` false and what each model without a
    place lacks.
    """
    from cotenant.edge.crews import crew_of
    from cotenant.errors import InputError
    from cotenant.planning.change import plan_change
    from cotenant.planning.crew import working
    from cotenant.planning.promise import keep_promises
    from cotenant.planning.solve import plan_fleet

    if previous is not None and replay:
        raise InputError("a change of plans is not replayed yet", hint="give one of previous and replay")
    tell = progress or silent
    tell("reading the fleet")
    question = load_fleet(fleet)

    def made() -> Plan:
        if previous is not None:
            return plan_change(question, running_plan(previous), progress=tell)
        if time_limit is not None:
            return _planned_within(question, time_limit, tell, (calibration, aiconfigurator))
        if not replay:
            return plan_fleet(question, priced=why, progress=tell)
        return keep_promises(question, _replayer(question, seed, tell), progress=tell)

    with crew_of(workers) as crew, working(crew):
        return with_what_is_known(made, calibration, aiconfigurator)


def what_if(
    fleet: FleetSource,
    sweep: str,
    *,
    points: int = 8,
    replay: bool = False,
    seed: int = 0,
    workers: int | None = None,
    calibration: bool = True,
    aiconfigurator: bool = True,
    progress: Progress | None = None,
) -> tuple[Sweep, tuple[WhatIfPoint, ...]]:
    """The fleet planned again with more or less of something: ``traffic=0.5..4``, ``slo=0.5..2``,
    ``price:L4=0.8..1.5``, at `points` equal ratios, each in a process of its own (`workers` at once). With
    `replay` the plan of each point is replayed (from `seed` on) and says who kept its SLO; what is missed is not
    mended.
    `calibration` and `aiconfigurator` are as in `plan`.
    """
    from functools import partial

    from cotenant.edge.apart import each_apart
    from cotenant.edge.known import with_known
    from cotenant.planning.what_if import read_sweep

    tell = progress or silent
    question = load_fleet(fleet)
    asked = read_sweep(sweep, question, points=points)
    function = partial(with_known, calibration, aiconfigurator, _point, question, asked, seed if replay else None)
    found = []
    for one in each_apart(function, asked.factors, workers=workers):
        found.append(one)
        tell(f"{len(found)} of {len(asked.factors)} planned")
    return asked, tuple(found)


def _point(fleet: Fleet, sweep: Sweep, seed: int | None, factor: float) -> WhatIfPoint:
    """One point of a sweep, replayed where there is a seed; a function by itself, for another process."""
    from functools import partial

    from cotenant.planning.what_if import point

    replayer = None if seed is None else partial(_replayer, seed=seed, tell=silent)
    return point(fleet, sweep, factor, replayer)


def compare_plans(
    fleet: FleetSource,
    strategies: Sequence[str] = ("naive", "greedy", "optimal"),
    *,
    seed: int = 0,
    calibration: bool = True,
    aiconfigurator: bool = True,
    progress: Progress | None = None,
) -> tuple[Contender, ...]:
    """Ways to place one fleet side by side: cards, cost, headroom, and what each attains when its traffic is
    replayed. ``naive``: each model alone, 16 bits, full context x 16 slots; ``greedy``: largest first, where it
    costs least; ``optimal``: as `plan`; ``promised``: as `plan` with `replay`; ``elastic``, ``spatial``: the
    optimal plan if engines lent each other KV cache, and multiprocessors too (simulated only: no engine is driven
    so). `calibration` and `aiconfigurator` are as in `plan`.
    """
    from cotenant.edge.known import known
    from cotenant.planning.compare import compare

    tell = progress or silent
    question = load_fleet(fleet)
    with known(calibration, aiconfigurator):
        return compare(question, strategies, _replayer(question, seed, tell), progress=tell)


def _planned_within(fleet: Fleet, time_limit: str, tell: Progress, wanted: tuple[bool, bool]) -> Plan:
    from dataclasses import replace
    from functools import partial

    from cotenant.edge.deadline import within
    from cotenant.edge.known import with_known
    from cotenant.errors import InputError
    from cotenant.planning.hurried import hurried_plan
    from cotenant.planning.solve import plan_fleet
    from cotenant.units import parse_seconds

    seconds = parse_seconds(time_limit)
    if seconds <= 0:
        raise InputError("a time limit above zero is needed", hint="10s")
    tell(f"packing, for {time_limit} at most")
    found = within(seconds, partial(with_known, *wanted, plan_fleet, fleet))
    return hurried_plan(fleet, tell) if found is None else replace(found, deterministic=False)


def _replayer(fleet: Fleet, seed: int, tell: Progress) -> Replayer:
    """The simulator as the planner may ask it; neither room knows the other."""
    from cotenant.planning.launch import reestimate
    from cotenant.simulation.hosting import hosting
    from cotenant.simulation.run import replay

    fresh = reestimate(fleet)

    def replayer(
        plan: Plan, models: Sequence[ModelRequest], seconds: float, /, *, policy: str = "static", draw: int = 0
    ) -> Replay:
        by_name = {model.name: model for model in models}
        hostings = [hosting(by_name[one.model], one, fresh(by_name[one.model], one)) for one in plan.replicas]
        return replay(plan, models, hostings, seed=seed + draw, policy=policy, duration_s=seconds, progress=tell)

    return replayer
