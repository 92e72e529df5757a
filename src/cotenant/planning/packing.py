"""The exact optimum, as a mixed-integer program solved by HiGHS.

    sets        m models, c candidates of m, g cards, n nodes
    variables   choose[m,c]    1 if m is served by c
                place[m,c,g]   1 if a rank of c sits on card g
                groups[m,c,n]  replicas of c inside node n (tensor parallel never crosses nodes)
                use[g]         1 if anything sits on g
    subject to  one candidate a model; as many ranks as the candidate has; whole groups in a node;
                claims within the room of a used card, load peaks within all that others leave of it;
                wishes (apart, alone); contention within each SLO's slack
    objective   lexicographic, in the fleet's order: cost, headroom (the smallest share left on a used card),
                quality (the sum of ranks in the decision matrix); then fewer ranks where they leave hardly less
                headroom (`ties`)

The work limit is in branch-and-bound nodes, not seconds, so the same input gives the same plan everywhere.
`docs/decisions/0003-solver.md` says why HiGHS.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from math import inf
from typing import TYPE_CHECKING, Any

from cotenant.errors import SolverError
from cotenant.planning.greedy import place_greedily
from cotenant.planning.problem import A_LITTLE, Assignment, Placement, Problem, least_headroom, untidiness
from cotenant.planning.resource_bound import resource_bound

if TYPE_CHECKING:
    from highspy import Highs

_MAX_NODES = 2_000
_MOST_SITTINGS = 3_000  # beyond, the root alone takes the program tens of seconds
_BYTES_SCALE = 2**-30  # the program is written in GiB: coefficients near 1 keep the arithmetic sound
_TOLERANCE = 1e-6
_HEADROOM_TOLERANCE = 1e-4


class PackingModel:
    """The program for one problem. With `optional`, models may stay unplaced; as many as possible are placed."""

    def __init__(self, problem: Problem, *, optional: bool = False) -> None:
        import highspy

        self._problem = problem
        self._optional = optional
        self._limited = False
        self._highs: Highs = highspy.Highs()  # type: ignore[no-untyped-call]  # highspy ships no types
        self._sum = highspy.Highs.qsum
        for option, value in (
            ("output_flag", False), ("threads", 1), ("random_seed", 1), ("mip_rel_gap", 0.0),
            ("mip_max_nodes", _MAX_NODES), ("mip_feasibility_tolerance", 1e-7),
        ):  # fmt: skip
            self._highs.setOptionValue(option, value)
        self._choose: dict[tuple[int, int], Any] = {}
        self._place: dict[tuple[int, int, int], Any] = {}
        self._on_card: dict[int, list[tuple[int, int]]] = defaultdict(list)
        self._use = [self._highs.addBinary() for _ in problem.cards]
        self._add_variables()
        self._add_ranks()
        self._add_memory()
        self._add_loading()
        self._add_processes()
        self._add_wishes()
        if problem.contention:
            self._add_contention()
        self._add_symmetry()

    def _add_variables(self) -> None:
        for request, candidates in enumerate(self._problem.candidates):
            for number, candidate in enumerate(candidates):
                self._choose[request, number] = self._highs.addBinary()
                for card, where in enumerate(self._problem.cards):
                    if self._problem.holds(candidate, where):
                        self._place[request, number, card] = self._highs.addBinary()
                        self._on_card[card].append((request, number))

    def _add_ranks(self) -> None:
        for request, candidates in enumerate(self._problem.candidates):
            chosen = self._sum([self._choose[request, number] for number in range(len(candidates))])
            if self._optional:
                self._highs.addConstr(chosen <= 1)
            else:
                self._highs.addConstr(chosen == 1)
            for number, candidate in enumerate(candidates):
                self._add_groups(request, number, candidate.tensor_parallel_size, candidate.replicas)

    def _add_groups(self, request: int, number: int, size: int, replicas: int) -> None:
        """`replicas` groups of `size` cards, each group inside one node, if the candidate is chosen."""
        by_node: dict[int, list[Any]] = defaultdict(list)
        for card, where in enumerate(self._problem.cards):
            variable = self._place.get((request, number, card))
            if variable is not None:
                by_node[where.node].append(variable)
        groups = []
        spread = request in self._problem.spread and replicas > 1
        for cards in by_node.values():
            if size == 1:
                groups.extend(cards)
                if spread and len(cards) > 1:
                    self._highs.addConstr(self._sum(cards) <= 1)
            elif len(cards) >= size:
                whole = self._highs.addIntegral(0, 1 if spread else len(cards) // size)
                self._highs.addConstr(self._sum(cards) == size * whole)
                groups.append(whole)
            else:
                self._highs.addConstr(self._sum(cards) == 0)
        chosen = self._choose[request, number]
        if groups:
            self._highs.addConstr(self._sum(groups) == replicas * chosen)
        else:
            self._highs.addConstr(chosen <= 0)

    def _add_memory(self) -> None:
        for card, where in enumerate(self._problem.cards):
            claims = [
                self._problem.candidates[request][number].claim_bytes
                * _BYTES_SCALE
                * self._place[request, number, card]
                for request, number in self._on_card[card]
            ]
            if claims:
                self._highs.addConstr(self._sum(claims) <= where.room_bytes * _BYTES_SCALE * self._use[card])
                for request, number in self._on_card[card]:
                    self._highs.addConstr(self._place[request, number, card] <= self._use[card])
            else:
                self._highs.addConstr(self._use[card] <= 0)

    def _add_loading(self) -> None:
        """In the order of falling overshoot each fits while it loads (`loading`): for a way with overshoot o, the
        claims of all present with o or more, and o where it is present itself. Where it is not, its row says
        nothing that memory does not."""
        for card, where in enumerate(self._problem.cards):
            ways = [(self._problem.candidates[one][number], self._place[one, number, card])
                    for one, number in self._on_card[card]]  # fmt: skip
            for way, here in ways:
                if where.room_bytes + way.overshoot_bytes <= where.load_bytes:
                    continue
                held = [each.claim_bytes * _BYTES_SCALE * place for each, place in ways
                        if each.overshoot_bytes >= way.overshoot_bytes]  # fmt: skip
                peak = way.overshoot_bytes * _BYTES_SCALE * here
                self._highs.addConstr(self._sum(held) + peak <= where.load_bytes * _BYTES_SCALE)

    def _add_processes(self) -> None:
        """No more than a card that is handed out in slices has places for."""
        for card, where in enumerate(self._problem.cards):
            ways = [(self._problem.candidates[one][number], self._place[one, number, card])
                    for one, number in self._on_card[card]]  # fmt: skip
            if sum(way.processes for way, _ in ways) > where.most_processes:
                present = self._sum([float(way.processes) * place for way, place in ways])
                self._highs.addConstr(present <= where.most_processes)

    def _presence(self, request: int, card: int) -> Any:
        """1 when the model has a rank on that card, or None when it never can."""
        mine = [self._place[one, number, card] for one, number in self._on_card[card] if one == request]
        return self._sum(mine) if mine else None

    def _add_wishes(self) -> None:
        pairs = {tuple(sorted(pair)) for pair in self._problem.apart}
        everyone = range(len(self._problem.names))
        pairs |= {(min(one, two), max(one, two)) for one in self._problem.alone for two in everyone if one != two}
        for one, two in sorted(pairs):
            for card in range(len(self._problem.cards)):
                first, second = self._presence(one, card), self._presence(two, card)
                if first is not None and second is not None:
                    self._highs.addConstr(first + second <= 1)

    def _add_contention(self) -> None:
        """Co-residents work no more than each SLO's slack allows (see `problem.contention_holds`)."""
        for card, present in self._on_card.items():
            for request, number in present:
                slack = self._problem.candidates[request][number].slack
                others = [(one, other) for one, other in present if one != request]
                most = sum(
                    max(self._problem.candidates[one][other].busy for one, other in others if one == model)
                    for model in {one for one, _ in others}
                )
                if slack == inf or most <= slack:
                    continue
                busy = self._sum(
                    [
                        self._problem.candidates[one][other].busy * self._place[one, other, card]
                        for one, other in others
                    ]
                )
                here = self._place[request, number, card]
                self._highs.addConstr(busy + (most - slack) * here <= most)

    def _add_symmetry(self) -> None:
        """Equal cards are opened in order inside a node, equal nodes in order, unless a pin tells them apart."""
        pinned = {index for pins in self._problem.pins.values() for index in pins}
        numbered = [
            (number, card) for number, card in enumerate(self._problem.cards) if card.pool_index not in pinned
        ]
        heads = [(number, card) for number, card in numbered if card.index == 0]
        within = [(one, two) for one, two in pairwise(numbered) if one[1].node == two[1].node]
        across = [] if pinned else list(pairwise(heads))
        for (first, one), (second, two) in within + across:
            if (one.offer, one.used_bytes) == (two.offer, two.used_bytes) and self._same_size(one.node, two.node):
                self._highs.addConstr(self._use[first] >= self._use[second])

    def _same_size(self, one: int, two: int) -> bool:
        """Whether node `two` has no more cards than node `one`."""
        sizes = [sum(card.node == node for card in self._problem.cards) for node in (one, two)]
        return sizes[0] >= sizes[1]

    def _terms(self) -> dict[str, tuple[Any, float]]:
        """Each objective as an expression to minimise, and what one unit of tolerance means for it."""
        cost = self._sum(
            [self._problem.weight(card) * use for card, use in zip(self._problem.cards, self._use, strict=True)]
        )
        quality = self._sum(
            [
                self._problem.candidates[request][number].quality_rank * chosen
                for (request, number), chosen in self._choose.items()
            ]
        )
        return {
            "cost": (cost, 1e-6),
            "headroom": (-1.0 * self._least_headroom(), _HEADROOM_TOLERANCE),
            "quality": (quality, 1e-6),
        }

    def _untidiness(self, a_gib: float) -> Any:
        """Ranks with their stages, and `a_gib` of one for each GiB: of placements that are equal in all else, the
        one with less to run."""
        ways = self._problem.candidates
        return self._sum(
            [
                untidiness(ways[request][number], a_gib) * chosen
                for (request, number), chosen in self._choose.items()
            ]
        )

    def _least_headroom(self) -> Any:
        """The smallest share of capacity left free beyond the asked headroom, over the used cards."""
        least = self._highs.addVariable(0, 1)
        for card, where in enumerate(self._problem.cards):
            claims = [
                self._problem.candidates[request][number].claim_bytes
                / where.capacity_bytes
                * self._place[request, number, card]
                for request, number in self._on_card[card]
            ]
            if claims:
                room = where.room_bytes / where.capacity_bytes
                self._highs.addConstr(least + self._sum(claims) + (1 - room) * self._use[card] <= 1.0)
        return least

    def solve(self) -> Placement | None:
        """The optimum, or the best within the work limit with its bound; None when nothing fits."""
        terms = self._terms()
        order = [name for name in self._problem.objective if name in terms]
        if "cost" not in order:
            order.append("cost")
        if self._optional and not self._fix_most_placed():
            return None
        bound, value, values, roomy = 0.0, 0.0, None, None
        self._start()
        for name in order:
            expression, tolerance = terms[name]
            outcome = self._minimise(expression)
            if outcome is None:
                if values is None:
                    return None
                break
            reached, lower, values = outcome
            if name == "cost":
                value, bound = reached, lower
            row = self._highs.addConstr(expression <= reached + tolerance)
            roomy = (row.index, reached) if name == "headroom" else roomy
        if values is not None:
            values = self._tidied(terms["headroom"][0], roomy, values)
        if values is None:
            return self._greedily() if self._limited else None
        gap = 0.0 if value <= bound + _TOLERANCE else (value - bound) / value
        found = self._read(values)
        least = least_headroom(self._problem, found)
        return Placement(found, value, min(bound, value), gap, proven=gap == 0.0, least_headroom=least)

    def _tidied(self, headroom: Any, roomy: tuple[int, float] | None, values: list[float]) -> list[float]:
        """What is settled, with fewer ranks for a little of the headroom of the row `roomy` (row, least) where it
        was asked for; then with fewer bytes."""
        ranks = self._untidiness(0.0)
        if roomy is not None:
            row, least = roomy
            self._highs.changeRowBounds(row, -inf, least + A_LITTLE)
            outcome = self._minimise(ranks)
            if outcome is not None:
                self._highs.addConstr(ranks <= outcome[0] + _TOLERANCE)
                outcome = self._minimise(headroom)
            if outcome is None:
                return values
            self._highs.changeRowBounds(row, -inf, outcome[0] + _HEADROOM_TOLERANCE)
            values = outcome[2]
        outcome = self._minimise(self._untidiness(1e-6))
        return values if outcome is None else outcome[2]

    def _greedily(self) -> Placement | None:
        """What is left where the work limit came before any solution."""
        return _greedy_with_bound(self._problem, optional=self._optional)

    def _start(self) -> None:
        """Hand the greedy placement to the solver as its first solution."""
        greedy = place_greedily(self._problem)
        if not self._optional and len(greedy.placed) < len(self._problem.names):
            return
        ones = {self._use[card].index for each in greedy.assignments for card in each.each_card()}
        for each in greedy.assignments:
            request = each.candidate.request
            number = self._problem.candidates[request].index(each.candidate)
            ones.add(self._choose[request, number].index)
            ones.update(self._place[request, number, card].index for card in each.each_card())
        binary = [*self._use, *self._choose.values(), *self._place.values()]
        values = {variable.index: float(variable.index in ones) for variable in binary}
        self._highs.setSolution(len(values), list(values), list(values.values()))

    def _fix_most_placed(self) -> bool:
        """Place as many models as possible, those of the highest priority first; of equal numbers, any."""
        for level in sorted(set(self._problem.priorities), reverse=True):
            mine = [
                chosen
                for (request, _), chosen in self._choose.items()
                if self._problem.priorities[request] == level
            ]
            if not mine:
                continue
            outcome = self._minimise(-1.0 * self._sum(mine))
            if outcome is None:
                return False
            self._highs.addConstr(self._sum(mine) >= round(-outcome[0]))
        return True

    def _minimise(self, expression: Any) -> tuple[float, float, list[float]] | None:
        """(value, lower bound, variable values), or None when infeasible."""
        import highspy

        self._highs.minimize(expression)
        status = self._highs.getModelStatus()
        info = self._highs.getInfo()
        if status == highspy.HighsModelStatus.kInfeasible:
            return None
        solved = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
        if not solved:
            if status in (highspy.HighsModelStatus.kSolutionLimit, highspy.HighsModelStatus.kIterationLimit):
                self._limited = True
                return None
            raise SolverError(f"the solver stopped with {self._highs.modelStatusToString(status)}")
        bound = (
            info.mip_dual_bound if status != highspy.HighsModelStatus.kOptimal else info.objective_function_value
        )
        return info.objective_function_value, bound, list(self._highs.getSolution().col_value)

    def _read(self, values: list[float]) -> tuple[Assignment, ...]:
        assignments = []
        for (request, number), chosen in self._choose.items():
            if values[chosen.index] < 0.5:
                continue
            candidate = self._problem.candidates[request][number]
            by_node: dict[tuple[int, int], list[int]] = defaultdict(list)
            for card, where in enumerate(self._problem.cards):
                variable = self._place.get((request, number, card))
                if variable is not None and values[variable.index] > 0.5:
                    by_node[where.offer, where.node].append(card)
            size = candidate.tensor_parallel_size
            groups = [
                tuple(cards[start : start + size])
                for cards in by_node.values()
                for start in range(0, len(cards), size)
            ]
            assignments.append(Assignment(candidate, tuple(groups)))
        return tuple(sorted(assignments, key=lambda one: one.candidate.request))


def place_exactly(problem: Problem, *, optional: bool = False) -> Placement | None:
    """The best placement with its bound, or None when the problem has none (never with `optional`).

    A program too large for its work limit yields the greedy placement above the bound of memory alone.
    """
    if not problem.cards or (not optional and not all(problem.candidates)):
        return None
    if sum(map(len, problem.candidates)) * len(problem.cards) > _MOST_SITTINGS:
        return _greedy_with_bound(problem, optional=optional)
    return PackingModel(problem, optional=optional).solve()


def _greedy_with_bound(problem: Problem, *, optional: bool) -> Placement | None:
    greedy = place_greedily(problem)
    if optional:
        return greedy
    if len(greedy.placed) < len(problem.names):
        return None
    value = greedy.objective_value
    bound = min(resource_bound(problem), value)
    gap = 0.0 if value <= bound + _TOLERANCE else (value - bound) / value
    least = least_headroom(problem, greedy.assignments)
    return replace(greedy, lower_bound=bound, gap=gap, proven=gap == 0.0, least_headroom=least)
