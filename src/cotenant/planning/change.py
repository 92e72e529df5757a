"""A new plan that moves as little as possible: of the placements that cost the least, one near the old plan.

First the fleet is solved as if nothing ran: that is the least cost C. Then models are held where they run, the
heavier first and many at once: who can stay in a placement that costs C does, who cannot is let go. What comes out
cannot keep one model more; that no other choice of models keeps more is not proven.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from cotenant.domain.fleet import Fleet
from cotenant.domain.plan import Plan, ReplicaPlan
from cotenant.errors import UnsupportedError
from cotenant.planning.migration import Place, free_ports, migrate, place_of
from cotenant.planning.placing import place_exactly
from cotenant.planning.problem import Candidate, Placement, Problem
from cotenant.planning.sleeping import solve_fleet
from cotenant.planning.solve import plan_solved, written
from cotenant.planning.solved import Progress, Solved, forced_of

MOST_SOLVES = 40
_TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True)
class Near:
    """The search's answer near an old plan; `nodes`: the problem's nodes -> their numbers in the old plan."""

    solved: Solved
    nodes: Mapping[int, int]


def plan_change(fleet: Fleet, old: Plan, *, progress: Progress = lambda _: None) -> Plan:
    """The cheapest plan, near `old`, with the way from there to it."""
    progress("sizing candidates")
    solved = solve_fleet(fleet, progress=progress)
    if not solved.feasible:
        return plan_solved(solved, progress=progress)
    fleet = solved.fleet  # models may have been folded
    near = stay_near(solved, old, progress=progress)
    ports = free_ports(old, written(near.solved, nodes=near.nodes))
    plan = written(near.solved, forced=forced_of(near.solved), nodes=near.nodes, ports=ports)
    progress("ordering the steps")
    return replace(plan, migration=migrate(old, plan, fleet))


def stay_near(solved: Solved, old: Plan, *, progress: Progress = lambda _: None) -> Near:
    """The same cost, with as many models as possible where `old` has them. Raises UnsupportedError for plans in
    which models take turns."""
    if old.turns or solved.placement.turns or any(replica.sharing == "sleep" for replica in old.replicas):
        raise UnsupportedError(
            "a change of plans in which models take turns is not planned yet", hint="plan afresh, without --from"
        )
    if solved.placement.spare or solved.fleet.spare != "none":
        raise UnsupportedError(
            "a change of plans that keep a spare is not planned yet", hint="plan without --from"
        )
    where, nodes = _where(solved.fleet, solved.problem, old)
    if not solved.feasible:
        return Near(solved, nodes)
    numbered = tuple(replace(card, pool_index=number) for number, card in enumerate(solved.problem.cards))
    pinned = _Pinned(solved, replace(solved.problem, cards=numbered, pins=_own_pins(solved.problem)))
    homes = {
        number: home
        for number in range(len(solved.fleet.models))
        if (home := _home(solved, number, old, where)) is not None
    }
    heavy = sorted(homes, key=lambda number: -_weight(homes[number][0]))
    progress("keeping what can stay")
    pinned.keep([(number, *homes[number]) for number in heavy])
    placement = pinned.best or solved.placement
    return Near(replace(solved, placement=placement, calm=solved.calm), nodes)


def _own_pins(problem: Problem) -> Mapping[int, frozenset[int]]:
    """The fleet's pins, told by card numbers instead of the pool's."""
    return {
        number: frozenset(place for place, card in enumerate(problem.cards) if card.pool_index in pins)
        for number, pins in problem.pins.items()
    }


def _where(fleet: Fleet, problem: Problem, old: Plan) -> tuple[dict[Place, int], dict[int, int]]:
    """(old card -> card of the problem, node of the problem -> its number in the old plan).

    Owned nodes have one number for good; hired ones are told apart by what stands on them only, so those of the
    old plan are the problem's first ones, beginning with those that carry most of what is still asked for.
    """
    types = {card.node: fleet.gpus[card.offer].gpu.name for card in problem.cards}
    hired = [node for node in sorted(types) if not _is_owned(problem, node)]
    nodes = {node: node for node in types if _is_owned(problem, node)}
    asked = {request.name for request in fleet.models}
    ids = {replica.id for replica in old.replicas if replica.model in asked}
    weight: dict[int, int] = defaultdict(int)
    for gpu in old.gpus:
        weight[gpu.device.node] += sum(share.weights_bytes for share in gpu.shares if share.replica in ids)
    for gpu in sorted(old.gpus, key=lambda one: (-weight[one.device.node], one.device.node)):
        if gpu.device.node in nodes.values():
            continue
        alike = [node for node in hired if types[node] == gpu.device.type and node not in nodes]
        if alike:
            nodes[alike[0]] = gpu.device.node
    fresh = max([*nodes.values(), *(gpu.device.node for gpu in old.gpus)], default=-1) + 1
    for node in sorted(types):
        if node not in nodes:
            nodes[node], fresh = fresh, fresh + 1
    return {
        (types[card.node], nodes[card.node], card.index): number for number, card in enumerate(problem.cards)
    }, nodes


def _is_owned(problem: Problem, node: int) -> bool:
    return any(card.node == node and card.pool_index is not None for card in problem.cards)


def _home(
    solved: Solved, number: int, old: Plan, where: Mapping[Place, int]
) -> tuple[tuple[Candidate, ...], frozenset[int]] | None:
    """(ways that would leave the model as it runs, its cards); None where there is none any more."""
    running = [one for one in old.replicas if one.model == solved.fleet.models[number].name]
    cards = [where.get(place_of(device)) for one in running for device in one.devices]
    if not running or any(card is None for card in cards):
        return None
    offers = {solved.problem.cards[card].offer for card in cards if card is not None}
    ways = tuple(
        one
        for one in solved.problem.candidates[number]
        if offers == {one.offer} and one.replicas == len(running) and _same_way(one, running)
    )
    return (ways, frozenset(card for card in cards if card is not None)) if ways else None


def _same_way(one: Candidate, running: Sequence[ReplicaPlan]) -> bool:
    first = running[0]
    return (one.format, one.checkpoint, one.tensor_parallel_size) == (
        first.quantization, first.checkpoint, len(first.devices),
    )  # fmt: skip


def _weight(ways: Sequence[Candidate]) -> int:
    return sum(rank.weights.bytes.value for rank in ways[0].estimate.per_gpu) * ways[0].replicas


class _Pinned:
    """The problem with more and more models held where they are."""

    def __init__(self, solved: Solved, problem: Problem) -> None:
        self._problem, self._most = problem, solved.placement.objective_value
        self._first = solved.placement
        self._left = MOST_SOLVES
        self.best: Placement | None = None

    def keep(self, homes: Sequence[tuple[int, tuple[Candidate, ...], frozenset[int]]]) -> None:
        """Hold all of them if the cost allows it; else the first half as far as possible, then the second."""
        if not homes or self._left == 0:
            return
        self._left -= 1
        ways = {number: ways for number, ways, _ in homes}
        tried = replace(
            self._problem,
            candidates=tuple(ways.get(number, each) for number, each in enumerate(self._problem.candidates)),
            pins={**self._problem.pins, **{number: cards for number, _, cards in homes}},
        )
        placement = place_exactly(tried)
        if placement is not None and placement.objective_value <= self._most + _TOLERANCE:
            self._problem = tried
            bound = min(self._first.lower_bound, placement.objective_value)
            self.best = replace(placement, lower_bound=bound, gap=self._first.gap, proven=self._first.proven)
        elif len(homes) > 1:
            self.keep(homes[: len(homes) // 2])
            self.keep(homes[len(homes) // 2 :])
