"""Counted patterns onto cards: every tensor-parallel replica inside one node.

Cards joined by a tensor-parallel candidate form a group that would best share a node. Groups are laid into nodes
largest first; where that fails, a small program looks for any arrangement. Patterns without tensor parallel take
what is left.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

from cotenant.planning.problem import Assignment, Problem
from cotenant.planning.program import Program
from cotenant.planning.sites import Pattern, Seat, Site


@dataclass(frozen=True, slots=True)
class Space:
    """What patterns are made of and stand on: the problem, its sites and seats."""

    problem: Problem
    sites: tuple[Site, ...]
    seats: tuple[Seat, ...]

    def is_split(self, pattern: Pattern) -> bool:
        """Whether nodes matter to it: a rank of a tensor-parallel replica, or a model that is spread."""
        return any(self.minds_nodes(seat) for seat in pattern.seats)

    def minds_nodes(self, seat: int) -> bool:
        """Whether it matters to a seat which of its cards are in one node."""
        return self.seats[seat].tensor_parallel_size > 1 or self.is_spread(seat)

    def is_spread(self, seat: int) -> bool:
        """Whether its replicas, more than one, stand on different nodes."""
        one = self.seats[seat]
        return one.request in self.problem.spread and one.ranks > one.tensor_parallel_size

    def nodes(self, offer: int) -> dict[int, dict[int, list[int]]]:
        """node -> site -> card numbers, for the cards of an offer."""
        found: dict[int, dict[int, list[int]]] = {}
        for number, site in enumerate(self.sites):
            for card in site.cards if site.offer == offer else ():
                found.setdefault(self.problem.cards[card].node, {}).setdefault(number, []).append(card)
        return dict(sorted(found.items()))


@dataclass(frozen=True, slots=True)
class Unseated:
    """No arrangement of this offer's patterns keeps every tensor-parallel replica inside a node."""

    offer: int


Seated = list[tuple[int, Pattern]]
"""(card, pattern on it)"""


def seat_patterns(
    space: Space, counts: Sequence[tuple[Pattern, int]], fixed: Mapping[int, Sequence[tuple[int, Pattern, int]]]
) -> Seated | Unseated:
    """Cards for all patterns. `fixed` holds, for offers whose nodes are known, (node, pattern, count) triples."""
    seated: Seated = []
    for offer in sorted({site.offer for site in space.sites}):
        mine = [(one, count) for one, count in counts if space.sites[one.site].offer == offer and count]
        free = {
            node: {site: list(cards) for site, cards in each.items()} for node, each in space.nodes(offer).items()
        }
        split = [(one, count) for one, count in mine if space.is_split(one)]
        if offer in fixed:
            placed = list(fixed[offer])
        else:
            laid = _by_groups(space, split, free)
            if laid is None:
                laid = _by_program(space, split, free)
            if laid is None:
                return Unseated(offer)
            placed = laid
        for node, pattern, count in placed:
            seated += [(free[node][pattern.site].pop(0), pattern) for _ in range(count)]
        rest: dict[int, list[int]] = defaultdict(list)
        for each in free.values():
            for site, cards in each.items():
                rest[site] += cards
        for pattern, count in mine:
            if not space.is_split(pattern):
                seated += [(rest[pattern.site].pop(0), pattern) for _ in range(count)]
    return seated


Laid = list[tuple[int, Pattern, int]]


def _by_groups(
    space: Space, split: Sequence[tuple[Pattern, int]], free: Mapping[int, Mapping[int, list[int]]]
) -> Laid | None:
    """Each connected group into the first node with room, largest first; None where one finds no node, or must
    not stay in one."""
    if any(space.is_spread(seat) for pattern, _ in split for seat in pattern.seats):
        return None
    groups: list[tuple[set[int], list[tuple[Pattern, int]]]] = []
    for pattern, count in split:
        mine = {seat for seat in pattern.seats if space.seats[seat].tensor_parallel_size > 1}
        joined = [group for group in groups if group[0] & mine]
        groups = [group for group in groups if not group[0] & mine]
        members = [(pattern, count)] + [each for group in joined for each in group[1]]
        groups.append((mine.union(*(group[0] for group in joined)), members))
    groups.sort(key=lambda group: (-sum(count for _, count in group[1]), sorted(group[0])))
    left = {node: {site: len(cards) for site, cards in each.items()} for node, each in free.items()}
    laid: Laid = []
    for _, members in groups:
        need: dict[int, int] = defaultdict(int)
        for pattern, count in members:
            need[pattern.site] += count
        home = next(
            (node for node, room in left.items() if all(room.get(site, 0) >= many for site, many in need.items())),
            None,
        )
        if home is None:
            return None
        for site, many in need.items():
            left[home][site] -= many
        laid += [(home, pattern, count) for pattern, count in members]
    return laid


def _by_program(
    space: Space, split: Sequence[tuple[Pattern, int]], free: Mapping[int, Mapping[int, list[int]]]
) -> Laid | None:
    program = Program()
    columns = {
        (number, node): program.column(0.0, count)
        for number, (pattern, count) in enumerate(split)
        for node, room in free.items()
        if pattern.site in room
    }
    for number, (_, count) in enumerate(split):
        program.row(count, count, {columns[number, node]: 1.0 for node in free if (number, node) in columns})
    add_node_rows(space, program, free, {key: (split[key[0]][0], column) for key, column in columns.items()})
    outcome = program.solve()
    if outcome is None or not outcome.values:
        return None
    return [
        (node, split[number][0], round(outcome.values[column]))
        for (number, node), column in columns.items()
        if outcome.values[column] > 0.5
    ]


def add_node_rows(
    space: Space,
    program: Program,
    free: Mapping[int, Mapping[int, list[int]]],
    columns: Mapping[tuple[int, int], tuple[Pattern, int]],
) -> None:
    """Cards of each node and site, and whole replicas in each; `columns`: (any key, node) -> (pattern, column)."""
    for node, room in free.items():
        here = [each for key, each in columns.items() if key[1] == node]
        for site, cards in room.items():
            terms = {column: 1.0 for pattern, column in here if pattern.site == site}
            if terms:
                program.row(-inf, len(cards), terms)
        for seat in sorted({seat for pattern, _ in here for seat in pattern.seats}):
            size = space.seats[seat].tensor_parallel_size
            most = 1 if space.is_spread(seat) else space.seats[seat].ranks // size
            terms = {column: 1.0 for pattern, column in here if seat in pattern.seats}
            if size == 1 and space.is_spread(seat):
                program.row(-inf, 1.0, terms)
            elif size > 1:
                whole = program.column(0.0, most)
                program.row(0.0, 0.0, terms | {whole: -float(size)})


def assignments_of(space: Space, seated: Seated) -> tuple[Assignment, ...]:
    """The placement that the seated patterns make, by model."""
    cards: dict[int, list[int]] = defaultdict(list)
    chosen: dict[int, tuple[int, int]] = {}
    for card, pattern in sorted(seated, key=lambda each: each[0]):
        for seat, option in zip(pattern.seats, pattern.options, strict=True):
            request = space.seats[seat].request
            chosen[request] = (seat, option)
            cards[request].append(card)
    found = []
    for request, (_, option) in sorted(chosen.items()):
        candidate = space.problem.candidates[request][option]
        size = candidate.tensor_parallel_size
        by_node: dict[int, list[int]] = defaultdict(list)
        for card in cards[request]:
            by_node[space.problem.cards[card].node].append(card)
        groups = [
            tuple(each[start : start + size]) for each in by_node.values() for start in range(0, len(each), size)
        ]
        found.append(Assignment(candidate, tuple(groups)))
    return tuple(found)
