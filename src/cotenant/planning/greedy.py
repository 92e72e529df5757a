"""The baseline: the largest model first, each in its cheapest way, on cards already opened where possible."""

from __future__ import annotations

from collections import defaultdict

from cotenant.planning.problem import Assignment, Candidate, Loads, Placement, Problem


def place_greedily(problem: Problem) -> Placement:
    """First-fit decreasing with best fit inside: a placement of as many models as it manages, no bound."""
    loads = Loads(problem)
    order = sorted(range(len(problem.names)), key=lambda request: (-_smallest_claim(problem, request), request))
    assignments = []
    for request in order:
        best = _best_assignment(problem, loads, request)
        if best is not None:
            assignments.append(best)
            for cards in best.cards:
                loads.add(best.candidate, cards)
    value = sum(problem.weight(problem.cards[card]) for card in loads.used)
    ordered = tuple(sorted(assignments, key=lambda one: one.candidate.request))
    return Placement(ordered, value, lower_bound=0.0, gap=None, proven=False)


def _smallest_claim(problem: Problem, request: int) -> int:
    """The least that any way of serving the model takes over all its cards."""
    return min((one.claim_bytes * one.ranks for one in problem.candidates[request]), default=0)


def _best_assignment(problem: Problem, loads: Loads, request: int) -> Assignment | None:
    """The way that adds least cost now, then the one that takes least memory: of those that cost nothing more the
    first by memory."""
    best: tuple[tuple[float, int, int], Assignment] | None = None
    ways = problem.candidates[request]
    for number in sorted(range(len(ways)), key=lambda each: (ways[each].claim_bytes * ways[each].ranks, each)):
        candidate = ways[number]
        cards = find_cards(problem, loads, candidate)
        if cards is None:
            continue
        opened = [card for replica in cards for card in replica if not loads.is_used(card)]
        cost = sum(problem.weight(problem.cards[card]) for card in opened)
        key = (round(cost, 9), candidate.claim_bytes * candidate.ranks, number)
        if best is None or key < best[0]:
            best = (key, Assignment(candidate, cards))
        if best[0][0] <= 0:
            break
    return best[1] if best else None


def find_cards(problem: Problem, loads: Loads, candidate: Candidate) -> tuple[tuple[int, ...], ...] | None:
    """Cards for every replica: each inside one node, opened cards first, the fullest that still fits."""
    nodes: dict[tuple[int, int], list[int]] = defaultdict(list)
    size = candidate.tensor_parallel_size
    for number in loads.cards_for(candidate):
        if loads.fits(candidate, number):
            card = problem.cards[number]
            nodes[card.offer, card.node].append(number)
    groups: list[tuple[tuple[int, int], tuple[int, ...]]] = []
    for cards in nodes.values():
        cards.sort(key=lambda card: (not loads.is_used(card), loads.free_bytes(card), card))
        for start in range(0, len(cards) - size + 1, size):
            group = tuple(sorted(cards[start : start + size]))
            opened = sum(not loads.is_used(card) for card in group)
            groups.append(((opened, sum(map(loads.free_bytes, group))), group))
    ordered = [group for _, group in sorted(groups)]
    if candidate.request in problem.spread:
        ordered = list({problem.cards[group[0]].node: group for group in reversed(ordered)}.values())[::-1]
    return tuple(ordered[: candidate.replicas]) if len(ordered) >= candidate.replicas else None
