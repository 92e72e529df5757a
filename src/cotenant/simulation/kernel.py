"""Several replicas beside each other: who works when, and how much slower beside neighbours.

Processes on one GPU take turns in time slices (`planning.problem.contention_holds` says the same on average), so
a step that begins while n replicas of its busiest card are in a step takes n times as long as alone; where they
share its multiprocessors, less (`policy.sharing`). Steps are short beside the spells in which a neighbour works or
rests, so the number is taken when the step begins.

At one moment first all steps end that end then, then requests arrive, then steps begin, each in the order of the
replicas: the same every time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cotenant.policy.sharing import SLICES, slowdown, stretched
from cotenant.simulation.costs import FS_PER_NS
from cotenant.simulation.load import NEVER
from cotenant.simulation.outages import Outages
from cotenant.simulation.residency import Residency
from cotenant.simulation.router import Host, Router, Stream

__all__ = ["Host", "Stream", "run"]

Progress = Callable[[int, int], None]  # requests that have arrived, of how many (0: users ask again and again)


_TOLD = 256  # requests


def run(
    hosts: Sequence[Host],
    streams: Sequence[Stream],
    *,
    until_ns: int = NEVER,
    residency: Residency | None = None,
    cross: int = SLICES,
    outages: Outages | None = None,
    progress: Progress | None = None,
) -> None:
    """Serve all requests, or as many as end by `until_ns`. The outcome stands in the replicas afterwards.

    With a `residency` (its residents in the order of `hosts`) only models that are awake work; without, all are.
    `cross`: per mille of its turn that a neighbour's step of the other kind costs (`policy.sharing`).
    `outages` say which hosts are away when; they do not go with a `residency`.
    """
    arrivals = _arrivals(streams)
    router = Router(hosts, streams, outages or Outages(()))
    place, change, told = 0, None, 0
    count = 0 if any(stream.users for stream in streams) else len(arrivals)
    while True:
        now = _next_moment(hosts, arrivals[place][0] * FS_PER_NS if place < len(arrivals) else None, change)
        now = router.next_moment(now)
        if now is None or now > until_ns * FS_PER_NS:
            return
        for host in hosts:
            if host.ends_fs == now:
                host.replica.end(now)
                host.ends_fs, host.last_fs = None, now
        router.update(now)
        for host in hosts:
            if host.ends_fs is None:  # before anybody asks anew or wakes: who left may have been the last
                host.replica.drop_cancelled(now)
        while place < len(arrivals) and arrivals[place][0] * FS_PER_NS <= now:
            _, model, request = arrivals[place]
            if streams[model].users:  # the moment at which all users ask at once
                place += 1
                continue
            router.send(model, request, now)
            place += 1
        for model, stream in enumerate(streams):
            _ask_again(stream, hosts, router, model, now)
        asked = place + sum(len(stream.came_ns) for stream in streams)
        if progress is not None and asked >= told + _TOLD:
            told = asked
            progress(asked, count)
        if residency is not None:
            residency.update(now)
            change = residency.next_change(now)
        _begin(hosts, now, residency, cross)


def _arrivals(streams: Sequence[Stream]) -> list[tuple[int, int, int]]:
    """(ns, model, request) of all requests, in order; of equals by model, then as listed."""
    return sorted(
        (arrival, model, request)
        for model, stream in enumerate(streams)
        for request, arrival in enumerate(stream.requests.arrival_ns[: 1 if stream.users else None].tolist())
    )


def _ask_again(stream: Stream, hosts: Sequence[Host], router: Router, model: int, now: int) -> None:
    """In a closed loop, every user without a request in flight sends the next one."""
    if not stream.users or now >= stream.until_ns * FS_PER_NS:
        return
    flying = sum(hosts[one].replica.taken - hosts[one].replica.closed for one in stream.hosts)
    flying += router.orphans(model)
    while flying < stream.users and len(stream.came_ns) < len(stream.requests):
        before = sum(hosts[one].replica.closed for one in stream.hosts)
        request, now_ns = len(stream.came_ns), now // FS_PER_NS
        for one in stream.hosts:
            hosts[one].replica.comes_at(request, now_ns, min(NEVER, now_ns + stream.timeout_ns))
        router.send(model, request, now)
        stream.came_ns.append(now_ns)
        flying += 1 - (sum(hosts[one].replica.closed for one in stream.hosts) - before)


def _next_moment(hosts: Sequence[Host], *others: int | None) -> int | None:
    moments = [*(host.ends_fs for host in hosts), *others]
    return min((one for one in moments if one is not None), default=None)


def _begin(hosts: Sequence[Host], now: int, residency: Residency | None, cross: int) -> None:
    """Every resting replica that has work begins a step, stretched by the neighbours that are in one too."""
    works = [host.replica.has_work for host in hosts]
    if residency is not None:
        works = [one.may_step for one in residency.residents]
    begun: list[tuple[Host, int]] = []
    for host, working in zip(hosts, works, strict=True):
        if host.ends_fs is None and working:
            work = host.replica.begin(now)
            if work:
                host.ends_fs = now
                begun.append((host, work))
    if not begun:
        return
    crowd = _crowd(hosts)
    for host, work in begun:
        took = max(1, stretched(work, max(_slowdown(host, crowd[card], cross) for card in host.cards)))
        host.begin(now, work, took)


def _crowd(hosts: Sequence[Host]) -> dict[object, list[int]]:
    """Of each card, how many replicas read prompts in a step just now, and how many only decode."""
    found: dict[object, list[int]] = {}
    for host in hosts:
        if host.ends_fs is not None:
            for card in host.cards:
                found.setdefault(card, [0, 0])[0 if host.replica.reading else 1] += 1
    return found


def _slowdown(host: Host, crowd: Sequence[int], cross: int) -> int:
    """Per mille of its time alone that its step takes on a card with that crowd, itself among them."""
    reading = host.replica.reading
    return slowdown(reading, crowd[0] - reading, crowd[1] - (not reading), cross)
