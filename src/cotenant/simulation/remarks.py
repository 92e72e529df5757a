"""What a reader of a replay must be told beside its figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cotenant.domain.replay import ModelReplay
from cotenant.simulation.host_copies import HostCopies
from cotenant.simulation.load import Requests
from cotenant.units import plural

_SLACK_S = 60.0


def remarks(one: ModelReplay, requests: Requests, *, placed: bool, down: bool, retried: int) -> Iterator[str]:
    """Of one model: refused, left, lost, tried again and unanswered requests, and prefixes that nobody kept.

    `placed`: it has replicas; `down`: all of them were away when the simulation stopped.
    """
    if one.refused:
        verb = "is" if one.refused == 1 else "are"
        yield f"{one.model}: {one.refused:,} of {one.requests:,} requests {verb} longer than it takes"
    if one.cancelled:
        yield f"{one.model}: {one.cancelled:,} of {one.requests:,} clients left before their answer was whole"
    if one.lost:
        yield f"{one.model}: {one.lost:,} of {one.requests:,} answers broke off with the replica that wrote them"
    if retried:
        began = f"{plural(retried, 'request')} without a first token began anew"
        yield f"{one.model}: {began} after a replica had failed"
    if one.unfinished:
        yield f"{one.model}: {one.unfinished:,} of {one.requests:,} requests {_why_unfinished(one, placed, down)}"
    if requests.prefixes is not None and one.cache_hits is None and placed:
        yield f"{one.model}: what its trace's prompts have in common is not kept here: each is read whole"


def _why_unfinished(one: ModelReplay, placed: bool, down: bool) -> str:
    if not placed:
        return "found no replica"
    verb = "was" if one.unfinished == 1 else "were"
    why = "no replica of it was up" if down else "more load than capacity"
    return f"{verb} not answered when the simulation stopped: {why}"


def overload(end_s: float, span_s: float) -> Iterator[str]:
    """Whether the last answers came long after the last requests."""
    if end_s > 1.5 * span_s and end_s > span_s + _SLACK_S:
        took = f"requests came for {span_s:,.0f} s and took until {end_s:,.0f} s to be served"
        yield f"{took}: more came at once than it has capacity for"


def host_memory(copies: Mapping[str, HostCopies | None]) -> Iterator[str]:
    """Of replicas by name: for how many of those who gave way there was no room in host memory."""
    for name, one in copies.items():
        if one is not None and one.full:
            asked = one.kept + one.full
            yield f"{name}: {one.full:,} of {asked:,} who gave way found host memory full, and computed again"


def failures(counts: Mapping[str, int]) -> Iterator[str]:
    """How often each replica failed."""
    told = ", ".join(f"{name} {count}x" for name, count in counts.items() if count)
    if told:
        yield f"failed: {told}"
