"""What models that take turns hold of their cards: who is drawn awake, what the others keep."""

from __future__ import annotations

from collections.abc import Sequence

from cotenant.engines.sleeping import RESTART, SLEEP_1
from cotenant.planning.loading import start_key
from cotenant.planning.problem import Candidate, Placement
from cotenant.planning.turns import asleep_bytes


def together(chosen: Sequence[Candidate], mode: str) -> tuple[int, int]:
    """(claim, load peak) of those that take turns on one card, as one.

    One is awake, the others asleep; who is stopped and started again loads many times a day, so its peak is part
    of its claim. At first they start side by side, those started before asleep, in the order of `loading`.
    """
    asleep = [asleep_bytes(one, mode) for one in chosen]
    awake = [max(one.claim_bytes, one.load_peak_bytes if mode == RESTART else 0) for one in chosen]
    claim = sum(asleep) + max(most - own for most, own in zip(awake, asleep, strict=True))
    peak = held = 0
    peaks = [one.load_peak_bytes for one in chosen]
    for kept, loading in sorted(zip(asleep, peaks, strict=True), key=lambda pair: start_key(*pair)):
        peak, held = max(peak, held + loading), held + kept
    return claim, peak


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
        members = [one for one, group in sorted(self._group.items()) if group == self._group[number]]
        whole = together([self._ways[one] for one in members], self._mode(number))
        own = start_key(self.asleep(number), candidate.load_peak_bytes)
        return (*start_key(*whole), members[0], *own)

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

    def __init__(self, turns: TurnBytes) -> None:
        self._turns = turns
        self._steady: dict[int, int] = {}
        self._groups: dict[tuple[int, int], list[tuple[int, int]]] = {}  # (card, group) -> (awake, asleep)

    def beside(self, candidate: Candidate, card: int) -> int:
        """What a model meets there as it starts: those that take turns with it are asleep."""
        mine, total = self._turns.group(candidate.request), self._steady.get(card, 0)
        for (where, group), members in self._groups.items():
            if where == card:
                total += sum(asleep for _, asleep in members)
                total += 0 if group == mine else max(awake - asleep for awake, asleep in members)
        return total

    def add(self, candidate: Candidate, card: int) -> None:
        """It has started."""
        group = self._turns.group(candidate.request)
        if group is None:
            self._steady[card] = self._steady.get(card, 0) + candidate.claim_bytes
        else:
            pair = (candidate.claim_bytes, self._turns.asleep(candidate.request))
            self._groups.setdefault((card, group), []).append(pair)
