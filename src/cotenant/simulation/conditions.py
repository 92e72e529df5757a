"""Conditions of a replay as they are written, and the outages that they mean."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cotenant.domain.conditions import Breakdowns, Conditions, Outage
from cotenant.errors import InputError
from cotenant.simulation.costs import FS_PER_NS, NS_PER_S
from cotenant.simulation.draws import Draws
from cotenant.simulation.outages import Away
from cotenant.units import parse_bytes, parse_seconds

DISPATCHES = ("least-loaded", "round-robin", "best-fit")
PREEMPTS = ("latest", "cheapest", "latest:swap", "cheapest:swap")
RANDOM = "mtbf"
_PURPOSE = 0xFA11
_HINT = "REPLICA@TIME+TIME, as chat-0@120s+60s; or mtbf:TIME+TIME, as mtbf:2h+90s"
_MOST = 100_000  # outages of one replay
_SWAP_BYTES = 4 * 2**30  # of host memory a rank, as vLLM's V0 engine took where --swap-space said nothing


def conditions_of(
    *,
    timeout: str | None = None,
    fail: Sequence[str] = (),
    residency: str = "5s",
    dispatch: str = "least-loaded",
    preempt: str = "latest",
    hold: str = "0s",
) -> Conditions:
    """From words. Raises InputError for what is none of them."""
    if dispatch not in DISPATCHES:
        raise InputError(f"no dispatch {dispatch!r}", hint=f"one of {', '.join(DISPATCHES)}")
    who, swap_bytes = _yielding(preempt)
    outages, breakdowns = [], None
    for word in fail:
        if word.startswith(f"{RANDOM}:"):
            if breakdowns is not None:
                raise InputError(
                    f"two of {RANDOM}, the second {word!r}", hint="all replicas break down alike: name one"
                )
            breakdowns = Breakdowns(*_spans(word, word.partition(":")[2]))
        else:
            name, at, rest = word.rpartition("@")
            if not at or not name:
                raise InputError(f"{word!r} does not say which replica fails when", hint=_HINT)
            outages.append(Outage(name, *_spans(word, rest, least=0.0)))
    waits = None if timeout is None else parse_seconds(timeout)
    if waits is not None and not 0 < waits < 1e8:
        raise InputError(f"a timeout above zero is needed, not {timeout}")
    spans = {}
    for what, word in (("residency", residency), ("hold", hold)):
        spans[what] = parse_seconds(word)
        if not 0 <= spans[what] < 1e8:
            raise InputError(f"a {what} of zero or more is needed, not {word}")
    return Conditions(
        waits, tuple(outages), breakdowns, spans["residency"], dispatch, who, spans["hold"], swap_bytes
    )


def _yielding(word: str) -> tuple[str, int | None]:
    """Who gives way, and bytes of host memory for its cache (None: it computes again)."""
    head, _, size = word.rpartition(":")
    sized = head.endswith(":swap")
    named = head if sized else word
    if named not in PREEMPTS:
        hint = f"one of {', '.join(PREEMPTS)}; swap may say how much host memory a rank has: latest:swap:8GiB"
        raise InputError(f"no preempt {word!r}", hint=hint)
    who, swaps, _ = named.partition(":")
    if not swaps:
        return who, None
    return who, parse_bytes(size) if sized else _SWAP_BYTES


def _spans(word: str, text: str, *, least: float = 1.0) -> tuple[float, float]:
    """Two times, the first of `least` seconds or more."""
    first, plus, second = text.partition("+")
    if not plus:
        raise InputError(f"{word!r} does not say how long a replica is away", hint=_HINT)
    found = parse_seconds(first), parse_seconds(second)
    if not (least <= found[0] < 1e8 and 0 < found[1] < 1e8):
        raise InputError(f"{word!r} is no time for a replica to be away", hint=_HINT)
    return found


def outages(conditions: Conditions, ids: Sequence[str], *, seed: int, until_s: float) -> list[Away]:
    """When which replica (by number) is away, in order. Raises InputError for a replica that there is not."""
    found: list[Away] = []
    for one in conditions.outages:
        if one.replica not in ids:
            raise InputError(f"no replica {one.replica!r} to fail", hint=f"one of {', '.join(ids)}")
        found.append(_away(ids.index(one.replica), one.at_s, one.for_s))
    if conditions.breakdowns is not None:
        for place in range(len(ids)):
            found += _broken(conditions.breakdowns, place, Draws(seed, place, _PURPOSE), until_s)
    if len(found) > _MOST:
        raise InputError(f"{len(found):,} outages are more than {_MOST:,}", hint="simulate a shorter time")
    return _apart(found)


def _broken(how: Breakdowns, place: int, draws: Draws, until_s: float) -> Iterable[Away]:
    now = draws.exponential() * how.mean_s
    for _ in range(_MOST + 1):
        if now >= until_s:
            return
        yield _away(place, now, how.for_s)
        now += how.for_s + draws.exponential() * how.mean_s


def _away(place: int, at_s: float, for_s: float) -> Away:
    start = round(at_s * NS_PER_S) * FS_PER_NS
    return Away(place, start, start + max(1, round(for_s * NS_PER_S)) * FS_PER_NS)


def _apart(found: Iterable[Away]) -> list[Away]:
    """In order of their start; of one replica none within another: it is away until the last of them ends."""
    joined: dict[int, list[Away]] = {}
    for one in sorted(found, key=lambda one: (one.from_fs, one.place, one.until_fs)):
        own = joined.setdefault(one.place, [])
        if own and one.from_fs <= own[-1].until_fs:
            own[-1] = Away(one.place, own[-1].from_fs, max(one.until_fs, own[-1].until_fs))
        else:
            own.append(one)
    return sorted((one for own in joined.values() for one in own), key=lambda one: (one.from_fs, one.place))
