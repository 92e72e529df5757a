"""Simulations as they are asked for: one plan a family of policies, then each policy and seed by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING

from cotenant.domain.conditions import USUAL, Conditions
from cotenant.domain.fleet import Fleet, ModelRequest
from cotenant.domain.replay import Replay
from cotenant.domain.workload import Arrivals, Trace, Traffic

if TYPE_CHECKING:
    from cotenant.domain.plan import Plan
    from cotenant.simulation.hosting import Hosting

Traces = Sequence[str] | Mapping[str, str | PathLike[str] | Trace]
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A plan with the requests that are replayed on it and its replicas as the simulator sees them. Pickles."""

    plan: Plan
    models: tuple[ModelRequest, ...]
    hostings: tuple[Hosting, ...]
    cards: int = 0  # owned or to be had, of the types that the plan takes


@dataclass(frozen=True, slots=True)
class Run:
    """One replay: which policy, from which seed."""

    policy: str
    seed: int


def with_arrivals(question: Fleet, arrivals: Arrivals | None) -> Fleet:
    """Rates that come in another way; other traffic as it is. They are planned for it too."""
    if arrivals is None:
        return question
    models = tuple(
        replace(one, traffic=replace(one.traffic, arrivals=arrivals, by_hour=()))
        if one.traffic.requests_per_second is not None
        else one
        for one in question.models
    )
    return replace(question, models=models)


def prepare(question: Fleet, found: Plan | None, traces: Traces, *, apart: bool, progress: Progress) -> Prepared:
    """The plan (`found`, or a new one; `apart`: each model as if alone) and what is replayed on it."""
    from cotenant.edge.traces import named_traces
    from cotenant.planning.adopted import refuse_what_does_not_fit
    from cotenant.planning.apart import plan_apart
    from cotenant.planning.folding import folded_as
    from cotenant.planning.launch import reestimate
    from cotenant.planning.solve import plan_fleet
    from cotenant.simulation.hosting import hosting

    given = named_traces(traces, [request.name for request in question.models])
    models = tuple(
        replace(request, traffic=Traffic(trace=given[request.name])) if request.name in given else request
        for request in question.models
    )
    fresh = reestimate(question)
    if found is not None and not apart:
        refuse_what_does_not_fit(found, question, fresh)
        planned = found
    else:
        planned = (
            plan_apart(question, progress=progress) if apart
            else plan_fleet(question, fold=not given, progress=progress)  # a trace is of one model
        )  # fmt: skip
        models = folded_as(replace(question, models=models), planned).models
    by_name = {request.name: request for request in models}
    hostings = [hosting(by_name[one.model], one, fresh(by_name[one.model], one)) for one in planned.replicas]
    return Prepared(planned, models, tuple(hostings), _cards(question, planned))


def _cards(question: Fleet, planned: Plan) -> int:
    types = {gpu.device.type for gpu in planned.gpus}
    return sum(offer.count or offer.maximum or 0 for offer in question.gpus if offer.gpu.name in types)


def replays(
    prepared: Mapping[str, Prepared],
    runs: Sequence[Run],
    *,
    duration_s: float | None,
    patience_s: float,
    workers: int | None = 1,
    ray: str | None = None,
    conditions: Conditions = USUAL,
    progress: Progress = lambda _: None,
) -> Iterator[Replay]:
    """Each of `runs` on what was `prepared` for its policy, in order."""
    if ray is None and (workers == 1 or len(runs) == 1):
        for run in runs:
            yield replayed(prepared, duration_s, patience_s, run, conditions=conditions, progress=progress)
        return
    from cotenant.edge.workers import each

    progress(f"0 of {len(runs)} replays done")
    function = partial(replayed, dict(prepared), duration_s, patience_s, conditions=conditions)
    for number, one in enumerate(each(function, runs, workers=workers, ray=ray), start=1):
        progress(f"{number} of {len(runs)} replays done")
        yield one


def replayed(
    prepared: Mapping[str, Prepared],
    duration_s: float | None,
    patience_s: float,
    run: Run,
    conditions: Conditions = USUAL,
    progress: Progress = lambda _: None,
) -> Replay:
    """One replay; a function by itself, so that another process can be told of it."""
    from cotenant.simulation.run import replay

    one = prepared[run.policy]
    return replay(
        one.plan, one.models, one.hostings, seed=run.seed, policy=run.policy, duration_s=duration_s,
        patience_s=patience_s, cards=one.cards, conditions=conditions, progress=progress,
    )  # fmt: skip
