"""Which core serves whose requests: fast ones where they know all that is asked, the plain kernel for the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from cotenant.domain.conditions import Conditions
from cotenant.domain.plan import Plan
from cotenant.simulation import crowded, disaggregated, fast
from cotenant.simulation.costs import FS_PER_NS, NS_PER_S
from cotenant.simulation.hosting import Hosting
from cotenant.simulation.kernel import Host, Stream, run
from cotenant.simulation.load import NEVER, Outcome
from cotenant.simulation.models import Model
from cotenant.simulation.outages import Outages
from cotenant.simulation.residency import Residency
from cotenant.simulation.together import cross_cost
from cotenant.simulation.tokenwise import check_pool
from cotenant.simulation.tokenwise import serve as serve_tokenwise
from cotenant.units import plural

COMPILE_FROM = 10_000  # requests: below, compiling takes longer than it saves
_KNOWN_TO_MANY = ("least-loaded", "round-robin")  # how the fast core of many sends requests
Progress = Callable[[str], None]


def longest_s(span_s: float) -> float:
    """Seconds that a replay of so many lasts at most: where there is more load than capacity, the queue is not
    served to its end."""
    return 3.0 * span_s + 600.0


def pooled(
    policy: str, plan: Plan, models: Sequence[Model], hosts: Sequence[Host], hostings: Sequence[Hosting],
    span_s: float, cards: int,
) -> list[Outcome]:  # fmt: skip
    """All models on all cards; a model's first hosting says how it runs on one of them, and stands for it."""
    placed = [model for model in models if model.hosts]
    if not placed:  # nothing fits a card: as under any other policy, its requests find no replica
        return []
    cards = check_pool(policy, plan, hostings, any(model.work.users for model in models), cards)
    found = serve_tokenwise(
        policy, cards, [one.work.requests for one in placed], [hostings[one.hosts[0]] for one in placed],
        [one.request.slo for one in placed], longest_s(span_s),
    )  # fmt: skip
    outcomes = {one.hosts[0]: outcome for one, outcome in zip(placed, found, strict=True)}
    for place, outcome in outcomes.items():
        hosts[place].last_fs, hosts[place].replica.taken = outcome.end_ns * FS_PER_NS, len(outcome.status)
    return [outcomes.get(place) or host.replica.outcome(0, 0) for place, host in enumerate(hosts)]


def in_phases(
    models: Sequence[Model], hosts: list[Host], hostings: Sequence[Hosting], span_s: float,
    conditions: Conditions, progress: Progress,
) -> tuple[list[Outcome], dict[int, disaggregated.Part]]:  # fmt: skip
    """Models with several replicas read on some and write on others, those with one are served as planned: one
    outcome for each host, and what to plot of those that were split."""
    outcomes: dict[int, Outcome] = {}
    parts: dict[int, disaggregated.Part] = {}
    until = round(longest_s(span_s) * NS_PER_S)
    for model in models:
        if len(model.hosts) > 1:
            progress(f"simulating {model.request.name}")
            for place, (outcome, part) in disaggregated.serve(model, hosts, hostings, until, conditions).items():
                outcomes[place], parts[place] = outcome, part
    rest = [model for model in models if len(model.hosts) == 1]
    _through_kernel("static", rest, hosts, None, span_s, conditions, Outages(()), progress)
    for place in (place for model in rest for place in model.hosts):
        outcomes[place] = hosts[place].replica.outcome(hosts[place].busy_fs, hosts[place].last_fs)
    return [outcomes[place] for place in range(len(hostings))], parts


def serve(
    policy: str, models: Sequence[Model], hosts: Sequence[Host], hostings: Sequence[Hosting],
    residency: Residency | None, span_s: float, conditions: Conditions, away: Outages, progress: Progress,
) -> list[Outcome]:  # fmt: skip
    """One outcome for each host. All of a plan go to the fast core of many where it knows what is asked; else
    those that nobody disturbs go to the fast core of one, and the others through the kernel together."""
    until = round(longest_s(span_s) * NS_PER_S)
    placed = [model for model in models if model.hosts]
    jumps = policy == "static" and residency is None and _fast_know(conditions)
    if jumps and _many_know(conditions) and len(hosts) > 1 and all(_jumps(model, hosts) for model in placed):
        count = sum(len(model.work.requests) for model in placed)
        if crowded.can_serve(count, COMPILE_FROM):
            progress(f"simulating {plural(count, 'request')} on {plural(len(hosts), 'replica')}")
            works, places = [model.work.requests for model in placed], [model.hosts for model in placed]
            found = crowded.serve(works, places, hosts, hostings, until, conditions.dispatch.replace("-", "_"))
            return [found[place] for place in range(len(hostings))]
    outcomes: dict[int, Outcome] = {}
    for model in placed if policy == "static" and _fast_know(conditions) else ():
        if _jumps(model, hosts) and len(model.hosts) == 1 and _alone(model.hosts[0], hostings):
            (place,) = model.hosts
            progress(f"simulating {hostings[place].id}")
            outcomes[place] = _fast(model, hosts[place], hostings[place], until)
    rest = [model for model in placed if model.hosts[0] not in outcomes]
    _through_kernel(policy, rest, hosts, residency, span_s, conditions, away, progress)
    for place in (place for model in rest for place in model.hosts):
        outcomes[place] = hosts[place].replica.outcome(hosts[place].busy_fs, hosts[place].last_fs)
    return [outcomes[place] for place in range(len(hostings))]


def _through_kernel(
    policy: str, models: Sequence[Model], hosts: Sequence[Host], residency: Residency | None, span_s: float,
    conditions: Conditions, away: Outages, progress: Progress,
) -> None:  # fmt: skip
    """Serve them in the plain core; what came of it stands in their hosts."""
    if not models:
        return
    timeout_s, until = conditions.timeout_s, round(longest_s(span_s) * NS_PER_S)

    def told(done: int, count: int) -> None:
        progress(f"simulating, request {done:,}" + (f" of {count:,}" if count else ""))

    streams = [
        Stream(
            model.work.requests, model.hosts, users=model.work.users, until_ns=round(span_s * NS_PER_S),
            dispatch=conditions.dispatch.replace("-", "_"), targets=model.targets,
            timeout_ns=NEVER if timeout_s is None else round(timeout_s * NS_PER_S),
        )
        for model in models
    ]  # fmt: skip
    run(
        hosts, streams, until_ns=until, residency=residency, cross=cross_cost(policy), outages=away,
        progress=told,
    )  # fmt: skip
    for model, stream in zip(models, streams, strict=True):
        if model.work.users:
            model.as_it_came(stream)


def _fast_know(conditions: Conditions) -> bool:
    """Whether the fast cores know all that is asked: nobody fails, and the latest gives way and computes again.
    Who takes a request does not matter where there is one replica."""
    return not conditions.fails and conditions.preempt == "latest" and conditions.swap_bytes is None


def _many_know(conditions: Conditions) -> bool:
    """Whether the fast core of many does: nobody gives up, and requests are sent in a way that it has."""
    return conditions.timeout_s is None and conditions.dispatch in _KNOWN_TO_MANY


def _jumps(model: Model, hosts: Sequence[Host]) -> bool:
    """Whether the fast cores know its requests: they come by themselves, and find no prefixes in a cache."""
    return not model.work.users and not any(hosts[place].replica.caches for place in model.hosts)


def _alone(place: int, hostings: Sequence[Hosting]) -> bool:
    mine = set(hostings[place].cards)
    return not any(mine & set(other.cards) for number, other in enumerate(hostings) if number != place)


def _fast(model: Model, host: Host, one: Hosting, until_ns: int) -> Outcome:
    requests = replace(model.work.requests, prefixes=None)
    compiled = len(requests) >= COMPILE_FROM
    outcome = fast.simulate(requests, one.limits, one.costs, until_ns=until_ns, with_numba=compiled)
    host.busy_fs = host.alone_fs = outcome.busy_ns * FS_PER_NS
    host.last_fs, host.replica.taken = outcome.end_ns * FS_PER_NS, len(requests)
    return outcome
