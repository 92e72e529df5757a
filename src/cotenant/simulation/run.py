"""A plan against its traffic: replicas on their cards, requests to replicas, and what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, nextafter

from cotenant.domain.conditions import USUAL, Conditions
from cotenant.domain.fleet import ModelRequest
from cotenant.domain.plan import Plan
from cotenant.domain.replay import Replay
from cotenant.errors import InputError
from cotenant.simulation import cores, figures
from cotenant.simulation.clock import DAY_S, shows_day, start_hour
from cotenant.simulation.conditions import outages
from cotenant.simulation.cores import Progress
from cotenant.simulation.costs import FS_PER_S
from cotenant.simulation.disaggregated import DISAGGREGATED, Part, check_split
from cotenant.simulation.hosting import Hosting
from cotenant.simulation.kernel import Host
from cotenant.simulation.models import drawn
from cotenant.simulation.outages import Outages
from cotenant.simulation.policies import check_conditions, check_policies
from cotenant.simulation.residency import Residency
from cotenant.simulation.together import hosts_of
from cotenant.simulation.tokenwise import TOKENWISE
from cotenant.simulation.turns import SWAPS, Stays, residency_of, residency_under

PATIENCE_S = 10.0
DURATION_S = 300.0


def replay(
    plan: Plan, requests: Sequence[ModelRequest], hostings: Sequence[Hosting], *, seed: int = 0,
    policy: str = "static", patience_s: float = PATIENCE_S, duration_s: float | None = None, cards: int = 0,
    conditions: Conditions = USUAL, progress: Progress = lambda _: None,
) -> Replay:  # fmt: skip
    """What the plan's replicas make of `duration_s` seconds of traffic (by default its traces whole, else 300 s).

    static, elastic, spatial: each replica keeps its place on its cards (`together`), but for those that take turns
    in the plan. swap, swap-2, restart, swap-lru, restart-lru: all take turns in the memory of their cards
    (`turns`), `patience_s` being how long a request waits before a busy neighbour makes room. token, token-urgent:
    all models on all cards (`tokenwise`), of which there are `cards`, idle ones among them. disaggregated: of a
    model's replicas some read prompts, the others write (`disaggregated`). `conditions`: clients
    that leave, replicas that fail, who takes a request and who gives way. The same seed gives the same answer.
    Raises InputError for an unknown policy, a patience or a duration that is none, UnsupportedError for conditions
    that a policy does not know.
    """
    _check(policy, patience_s, duration_s)
    check_conditions(conditions, policy, bool(plan.turns))
    span, start = _when(plan, requests, policy, duration_s)
    progress("drawing requests")
    models = [
        drawn(number, one, hostings, seed=seed, span_s=span, start=start, conditions=conditions)
        for number, one in enumerate(requests)
    ]
    owner = {place: model for model in models for place in model.hosts}
    works = [owner[place].work.requests for place in range(len(hostings))]
    hosts = hosts_of(policy, works, hostings, conditions)
    priorities = [owner[place].request.priority for place in range(len(hostings))]
    residency = _residency(policy, plan, hosts, hostings, priorities, _stays(patience_s, conditions))
    ids = [one.id for one in hostings]
    away = Outages(outages(conditions, ids, seed=seed, until_s=cores.longest_s(span)))
    parts: dict[int, Part] = {}
    if policy == DISAGGREGATED:
        check_split(requests, hostings)
        outcomes, parts = cores.in_phases(models, hosts, hostings, span, conditions, progress)
    elif policy in TOKENWISE:
        outcomes = cores.pooled(policy, plan, models, hosts, hostings, span, cards)
    else:
        outcomes = cores.serve(policy, models, hosts, hostings, residency, span, conditions, away, progress)
    works = [owner[place].work.requests for place in range(len(hostings))]  # closed loops as they came
    last = max((host.last_fs for host in hosts), default=0) / FS_PER_S
    end = max(last, span)
    found = [figures.of_model(model, outcomes, hostings, span) for model in models]
    return Replay(
        seed=seed,
        policy=policy,
        duration_s=span,
        end_s=end,
        models=tuple(found),
        replicas=figures.of_replicas(plan, hostings, hosts, outcomes, residency, end),
        warnings=tuple(figures.warnings_of(models, found, hosts, last, span, away, ids)),
        input_hash=plan.input_hash,
        timeline=figures.over_time(plan, hostings, works, outcomes, residency, end, parts),
    )


def _when(
    plan: Plan, requests: Sequence[ModelRequest], policy: str, duration_s: float | None
) -> tuple[float, int | None]:
    """Seconds that are shown, and the hour at which they start."""
    traffics = [request.traffic for request in requests]
    day = duration_s is None and shows_day(traffics, bool(plan.turns) and policy == "static")
    span = DAY_S if day else duration_s or _span_s(requests)
    return span, start_hour(traffics, whole_day=span >= DAY_S)


def _residency(
    policy: str, plan: Plan, hosts: Sequence[Host], hostings: Sequence[Hosting], priorities: Sequence[int],
    stays: Stays,
) -> Residency | None:  # fmt: skip
    """Who takes turns, if anybody does."""
    if policy in SWAPS:
        return residency_under(policy, plan, hosts, hostings, priorities=priorities, stays=stays)
    if policy == "static":
        return residency_of(plan, hosts, hostings, priorities=priorities, stays=stays)
    return None


def _stays(patience_s: float, conditions: Conditions) -> Stays:
    return Stays(patience_s, conditions.residency_s, conditions.hold_s)


def _check(policy: str, patience_s: float, duration_s: float | None) -> None:
    check_policies((policy,))
    if not 0 <= patience_s < 1e8:
        raise InputError(f"a patience of zero or more is needed, not {patience_s} s")
    if duration_s is not None and not 0 < duration_s < 1e8:
        raise InputError(f"a duration above zero is needed, not {duration_s} s")


def _span_s(requests: Sequence[ModelRequest]) -> float:
    """Traces whole, with their last request; a second at least, else one request were a billion a second."""
    traces = [request.traffic.trace.arrivals_s[-1] for request in requests if request.traffic.trace is not None]
    last = max(traces, default=0.0)
    return max(1.0, last + 1e-9, nextafter(last, inf)) if traces else DURATION_S
