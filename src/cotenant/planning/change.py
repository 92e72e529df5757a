"""A new plan that moves as little as possible: of the placements that cost the least, one near the old plan.

First the fleet is solved as if nothing ran: that is the least cost C. Then models are held where they run, the
heavier first and many at once: who can stay in a placement that costs C does, who cannot is let go. What comes out
cannot keep one model more; that no other choice of models keeps more is not proven.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from cotenant.domain.fleet import Fleet
from cotenant.domain.plan import Plan, ReplicaPlan
from cotenant.planning.migration import free_ports, migrate
from cotenant.planning.near_spare import spare_where_empty
from cotenant.planning.placing import place_exactly
from cotenant.planning.problem import Candidate, Placement, Problem
from cotenant.planning.sleeping import solve_fleet
from cotenant.planning.solve import plan_solved, written
from cotenant.planning.solved import Progress, Solved, forced_of
from cotenant.planning.standing import Place, place_of

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
    turning = {name for turns in old.turns for name in turns.models}
    running = {frozenset(turns.models) for turns in old.turns}
    running |= {frozenset({one.model}) for one in old.replicas if one.model not in turning}
    solved = solve_fleet(fleet, running=running, progress=progress)
    if not solved.feasible:
        return plan_solved(solved, progress=progress)
    fleet = solved.fleet  # models may have been folded
    near = stay_near(solved, old, progress=progress)
    ports = free_ports(old, written(near.solved, nodes=near.nodes))
    plan = written(near.solved, forced=forced_of(near.solved), nodes=near.nodes, ports=ports)
    progress("ordering the steps")
    return replace(plan, migration=migrate(old, plan, fleet))


def stay_near(solved: Solved, old: Plan, *, progress: Progress = lambda _: None) -> Near:
    """The same cost, with as many models as possible where `old` has them; models that take turns stay together.

    Spare cards are those that are empty already, where any of as many in one node will do.
    """
    base = solved.dealt.solved if solved.dealt is not None else solved
    spare = base.placement.spare
    cards = spare_where_empty(base.problem, spare, old, base.fleet)
    base = replace(base, problem=replace(base.problem, cards=cards))
    where, nodes = _where(base, old)
    if not solved.feasible:
        return Near(solved, nodes)
    usable = tuple(card for number, card in enumerate(cards) if number not in spare)  # spare ones come last
    numbered = tuple(replace(card, pool_index=number) for number, card in enumerate(usable))
    reserved = sum(base.problem.weight(cards[number]) for number in spare)
    pinned = _Pinned(
        replace(base.problem, cards=numbered, pins=_own_pins(base.problem)), base.placement, reserved,
        (lambda _: True) if solved.dealt is None else solved.dealt.held,
    )  # fmt: skip
    homes = {
        number: home
        for number in range(len(base.fleet.models))
        if (home := _home(base, _names(solved, base, number), number, old, where)) is not None
    }
    heavy = sorted(homes, key=lambda number: -_weight(homes[number][0][0]))
    progress("keeping what can stay")
    pinned.keep([(number, *homes[number]) for number in heavy])
    placement = pinned.best or base.placement
    told = placement if solved.dealt is None else solved.dealt.expanded(placement)
    return Near(replace(solved, placement=told, problem=replace(solved.problem, cards=cards)), nodes)


def _names(solved: Solved, base: Solved, number: int) -> tuple[str, ...]:
    """The models that stand behind one of those that were solved: several where they take turns."""
    members = next((way.members for way in base.problem.candidates[number]), ())
    return tuple(solved.fleet.models[one.request].name for one in members) or (base.fleet.models[number].name,)


def _own_pins(problem: Problem) -> Mapping[int, frozenset[int]]:
    """The fleet's pins, told by card numbers instead of the pool's."""
    return {
        number: frozenset(place for place, card in enumerate(problem.cards) if card.pool_index in pins)
        for number, pins in problem.pins.items()
    }


def _where(base: Solved, old: Plan) -> tuple[dict[Place, int], dict[int, int]]:
    """(old card -> card of the problem, node of the problem -> its number in the old plan).

    Owned nodes have one number for good; hired ones are told apart by what stands on them only, so those of the
    old plan are the problem's first ones, beginning with those that carry most of what is still asked for; spare
    ones are spare again.
    """
    fleet, problem = base.fleet, base.problem
    types = {card.node: fleet.gpus[card.offer].gpu.name for card in problem.cards}
    hired = [node for node in sorted(types) if not _is_owned(problem, node)]
    nodes = {node: node for node in types if _is_owned(problem, node)}
    spare = {problem.cards[number].node for number in base.placement.spare}
    asked = {request.name for request in fleet.models}
    ids = {replica.id for replica in old.replicas if replica.model in asked}
    weight: dict[int, int] = defaultdict(int)
    for gpu in old.gpus:
        shares = (*gpu.shares, *(sleeper.share for sleeper in gpu.sleepers))
        weight[gpu.device.node] += sum(share.weights_bytes for share in shares if share.replica in ids)
    for gpu in sorted(old.gpus, key=lambda one: (-weight[one.device.node], one.device.node)):
        if gpu.device.node in nodes.values():
            continue
        alike = [node for node in hired if types[node] == gpu.device.type and node not in nodes]
        alike.sort(key=lambda node: ((node in spare) != gpu.spare, node))
        if alike and (gpu.spare or alike[0] not in spare):
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
    base: Solved, names: Sequence[str], number: int, old: Plan, where: Mapping[Place, int]
) -> tuple[tuple[Candidate, ...], frozenset[int]] | None:
    """(ways that would leave the model, or those that take turns, as they run; their cards); None where there is
    none any more."""
    running = [[one for one in old.replicas if one.model == name] for name in names]
    if not all(running) or len({tuple(one.devices for one in each) for each in running}) != 1:
        return None
    cards = [where.get(place_of(device)) for one in running[0] for device in one.devices]
    spare = base.placement.spare
    if any(card is None or card in spare for card in cards):
        return None
    offers = {base.problem.cards[card].offer for card in cards if card is not None}
    ways = tuple(
        one
        for one in base.problem.candidates[number]
        if offers == {one.offer}
        and one.replicas == len(running[0])
        and all(_same_way(*pair) for pair in zip(one.members or (one,), running, strict=True))
    )
    return (ways, frozenset(card for card in cards if card is not None)) if ways else None


def _same_way(one: Candidate, running: Sequence[ReplicaPlan]) -> bool:
    first = running[0]
    return (one.format, one.checkpoint, one.tensor_parallel_size, one.pipeline_parallel_size) == (
        first.quantization, first.checkpoint, len(first.devices), first.settings.pipeline_parallel_size,
    )  # fmt: skip


def _weight(way: Candidate) -> int:
    parts = way.members or (way,)
    return sum(rank.weights.bytes.value for one in parts for rank in one.estimate.per_gpu) * way.replicas


class _Pinned:
    """The problem with more and more models held where they are, within the cost of `first` without its `reserved`
    spare."""

    def __init__(
        self, problem: Problem, first: Placement, reserved: float, held: Callable[[Placement], bool]
    ) -> None:
        self._problem, self._first, self._reserved, self._held = problem, first, reserved, held
        self._most = first.objective_value - reserved
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
        found = self._placed(tried)
        if found is not None:
            self._problem, self.best = tried, found
        elif len(homes) > 1:
            self.keep(homes[: len(homes) // 2])
            self.keep(homes[len(homes) // 2 :])

    def _placed(self, tried: Problem) -> Placement | None:
        """The placement, spare included, where it costs no more and host memory holds all that sleep."""
        placement = place_exactly(tried)
        if placement is None or placement.objective_value > self._most + _TOLERANCE:
            return None
        value = placement.objective_value + self._reserved
        found = replace(
            self._first, assignments=placement.assignments, objective_value=value,
            lower_bound=min(self._first.lower_bound, value), least_headroom=placement.least_headroom,
        )  # fmt: skip
        return found if self._held(found) else None
