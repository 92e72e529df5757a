"""The fewest swaps that anybody could do at given waiting times, all arrivals known beforehand: two models by
turns on a place for one. What a policy that does not know the future is to be held against.

It is exact for an engine that does one answer's work in `serves` seconds, whatever it does beside it. In a turn
the oldest request first is best (earliest deadline first, Dertouzos 1974), and a turn best ends with an answer; so
all that counts after a turn is how many of each model are answered, how many were not in time, and the moment: of
two equal ones the earlier is at least as good. Those that may be late cost nothing here, which only lowers the
bound.
"""

from __future__ import annotations

from collections.abc import Sequence

_Done = tuple[tuple[int, int], tuple[int, int]]  # answered, not in time, of each model


def may_be_late(count: int) -> int:
    """How many of `count` answers may be later than their 95th percentile (the rank that `p95_of` takes)."""
    return max(0, count - 1 - int(0.95 * count))


def fewest_swaps(
    arrivals: Sequence[Sequence[float]], serves: Sequence[float], swaps: Sequence[float], limits: Sequence[float]
) -> int | None:
    """Swaps at least, the first model being awake; None where no number of them keeps the limits.

    Of each of two models: moments of its requests in order, seconds of an answer, seconds until it is there in
    place of the other, and the limit of its 95th percentile, all in seconds.
    """
    counts = tuple(len(one) for one in arrivals)
    late = [may_be_late(count) for count in counts]
    found: dict[_Done, float] = {((0, 0), (0, 0)): 0.0}
    found |= _turn(found, 0, arrivals[0], serves[0], 0.0, limits[0], late[0])
    for done in range(2 * sum(counts)):
        if any(answered == counts for answered, _ in found):
            return done
        model = (done + 1) % 2
        found = _turn(found, model, arrivals[model], serves[model], swaps[model], limits[model], late[model])
    return None


def _turn(
    found: dict[_Done, float], model: int, arrivals: Sequence[float], serve: float, swap: float, limit: float,
    late: int,
) -> dict[_Done, float]:  # fmt: skip
    """All that one turn of a model can end in, from all that the one before ended in: the first moment of each."""
    after: dict[_Done, float] = {}
    for (answered, missed), moment in found.items():
        now = moment + swap
        waiting = {missed[model]: now}  # by how many were not in time: when the engine is free
        for place in range(answered[model], len(arrivals)):
            waiting = _next(waiting, arrivals[place], serve, limit, late)
            for many, free in waiting.items():
                key = _with(answered, model, place + 1), _with(missed, model, many)
                after[key] = min(free, after.get(key, free))
            if not waiting:
                break
    return after


def _next(waiting: dict[int, float], came: float, serve: float, limit: float, late: int) -> dict[int, float]:
    """After one more request: answered in time, or one of those that need not be."""
    after: dict[int, float] = {}
    for many, free in waiting.items():
        end = max(free, came) + serve
        if end - came <= limit:
            after[many] = min(end, after.get(many, end))
        if many < late:
            after[many + 1] = min(free, after.get(many + 1, free))
    return after


def _with(pair: tuple[int, int], place: int, value: int) -> tuple[int, int]:
    return (value, pair[1]) if place == 0 else (pair[0], value)
