"""What models that take turns hold of their cards: who is drawn awake, what the others keep."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from cotenant.engines.sleeping import RESTART, SLEEP_1
from cotenant.planning.loading import start_key
from cotenant.planning.problem import Candidate, Placement
from cotenant.planning.turns import asleep_bytes


@dataclass(frozen=True, slots=True)
class Taken:
    """What one replica takes of each of its cards: for good, while it loads, while it sleeps."""

    claim_bytes: int
    load_peak_bytes: int
    asleep_bytes: int


def taken_by(candidate: Candidate, mode: str) -> Taken:
    """A way of serving a model, in turns of that mode."""
    return Taken(candidate.claim_bytes, candidate.load_peak_bytes, asleep_bytes(candidate, mode))


def together(members: Sequence[Taken], mode: str) -> tuple[int, int]:
    """(claim, load peak) of those that take turns on one card, as one.

    One is awake, the others asleep; who is stopped and started again loads many times a day, so its peak is part
    of its claim. At first they start side by side, those started before asleep, in the order of `loading`.
    """
    rest = sum(one.asleep_bytes for one in members)
    awake = [max(one.claim_bytes, one.load_peak_bytes if mode == RESTART else 0) for one in members]
    claim = rest + max(most - one.asleep_bytes for most, one in zip(awake, members, strict=True))
    peak = held = 0
    for one in sorted(members, key=_start_key):
        peak, held = max(peak, held + one.load_peak_bytes), held + one.asleep_bytes
    return claim, peak


def _start_key(one: Taken) -> tuple[int, int]:
    return start_key(one.asleep_bytes, one.load_peak_bytes)


def turn_start_key(one: Taken, members: Sequence[Taken], mode: str) -> tuple[int, ...]:
    """Sorts one of several that take turns into the order of starts: by its group, then in it."""
    return (*start_key(*together(members, mode)), *_start_key(one))


class TurnBytes:
    """The turns of a placement by the numbers of its models."""

    def __init__(self, names: Sequence[str], placement: Placement) -> None:
        self._turns = placement.turns
        of = {name: number for number, turns in enumerate(placement.turns) for name in turns.models}
        self._ways = {one.candidate.request: one.candidate for one in placement.assignments}
        self._group = {number: of[names[number]] for number in self._ways if names[number] in of}
        self._lead: dict[int, int] = {}
        for number, group in sorted(self._group.items()):
            if group not in self._lead or self._extra(number) > self._extra(self._lead[group]):
                self._lead[group] = number

    def group(self, number: int) -> int | None:
        """The number of its turns; None where it never sleeps."""
        return self._group.get(number)

    def sleeps_in_process(self, number: int) -> bool:
        """Whether its engine stays up while it sleeps."""
        return number in self._group and self._mode(number) != RESTART

    def is_drawn_asleep(self, number: int) -> bool:
        """Whether another of its group needs more of the card."""
        return number in self._group and self._lead[self._group[number]] != number

    def asleep(self, number: int) -> int:
        """What it keeps of each of its cards."""
        return asleep_bytes(self._ways[number], self._mode(number))

    def start_key(self, candidate: Candidate) -> tuple[int, ...]:
        """Sorts into an order in which all fit while they load: groups as one, their members side by side."""
        number = candidate.request
        if number not in self._group:
            return (*start_key(candidate.claim_bytes, candidate.load_peak_bytes), number)
        mode = self._mode(number)
        mine = [one for one, group in sorted(self._group.items()) if group == self._group[number]]
        own, members = taken_by(candidate, mode), [taken_by(self._ways[one], mode) for one in mine]
        first, second, *within = turn_start_key(own, members, mode)
        return (first, second, mine[0], *within)

    def host(self, number: int, rank: int) -> int:
        """What host memory holds of a rank."""
        if self._mode(number) != SLEEP_1:
            return 0
        return self._ways[number].estimate.per_gpu[rank].weights.bytes.value

    def _mode(self, number: int) -> str:
        return self._turns[self._group[number]].mode

    def _extra(self, number: int) -> int:
        return self._ways[number].claim_bytes - self.asleep(number)


class Running:
    """What those that were started hold of each card at most, group by group."""

    def __init__(self) -> None:
        self._steady: dict[Hashable, int] = defaultdict(int)
        self._groups: dict[Hashable, dict[Hashable, list[tuple[int, int]]]] = defaultdict(dict)  # (awake, asleep)

    def beside(self, card: Hashable, group: Hashable | None = None) -> int:
        """What a model meets there as it starts: those that take turns with it, of its `group`, are asleep."""
        total = self._steady[card]
        for other, members in self._groups[card].items():
            total += sum(asleep for _, asleep in members)
            total += 0 if other == group else max(awake - asleep for awake, asleep in members)
        return total

    def add(self, card: Hashable, taken: int, group: Hashable | None = None, asleep: int = 0) -> None:
        """One has started that takes so much awake."""
        if group is None:
            self._steady[card] += taken
        else:
            self._groups[card].setdefault(group, []).append((taken, asleep))
