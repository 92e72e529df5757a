"""Models that take turns on a card, decided from their traffic.

Models that allow it (`sharing: [sleep]`) are dealt into groups in every way that `turns.judge` lets through. A
group stands in the problem as one model: it claims what its largest member needs beside the others asleep, and its
busy share and slack are those of its members together. Each deal is solved as any fleet is; the cheapest is taken,
of equals the one with the fewest sleepers. The least of the deals' bounds is a bound for all of them, as long as
every deal was solved (`MOST_DEALS`); beyond, groups are merged two by two while that pays, and nothing is claimed
of the gap.

Host memory is shared by all that sleep in a node: where it does not hold them all, the deal is solved again with
modes that need none. Where the fleet asks for a spare, each deal keeps one; the host memory of the spare's node
must then hold what sleeps in it and what any one card of its type brings along when it fails.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, product
from math import inf

from cotenant.domain.fleet import Fleet, ModelRequest
from cotenant.domain.plan import Turns
from cotenant.engines.sleeping import SLEEP_1
from cotenant.planning.folds import with_folds
from cotenant.planning.problem import Assignment, Candidate, Placement
from cotenant.planning.solved import Dealt, Progress, Solved, problem_of, solve, solve_ways
from cotenant.planning.spare import keep_spare
from cotenant.planning.turn_bytes import taken_by, together
from cotenant.planning.turns import judge, modes_of
from cotenant.planning.ways import Ways, undominated

MOST_SLEEPERS = 6  # whose every deal into groups is looked at
MOST_DEALS = 60
_MOST_WAYS = 64  # of one group on one offer
Group = tuple[int, ...]
Running = Collection[frozenset[str]]
"""Names of models that take turns now, group by group; who takes none is one alone."""


@dataclass(frozen=True, slots=True)
class _Deal:
    """One way to deal the models into groups, solved; `bound` is below every placement of it."""

    groups: tuple[Group, ...]
    solved: Solved
    bound: float

    @property
    def cost(self) -> float:
        return self.solved.placement.objective_value if self.solved.feasible else inf


def solve_fleet(
    fleet: Fleet, *, fold: bool = True, running: Running = frozenset(), progress: Progress = lambda _: None
) -> Solved:
    """The placement of a fleet: with a spare where it asks for one, with turns where they cost less, with
    adapters folded onto one base where that costs less still (`fold`), and then of the fleet so folded. Of deals
    that cost the same, one in which groups stay together that are `running`."""

    def refine(asked: Fleet) -> Solved:
        return refined(solve(asked, progress=progress), running=running, progress=progress)

    apart = refine(fleet)
    return with_folds(apart, refine, progress=progress) if fold else apart


def refined(
    solved: Solved,
    *,
    strictly: bool = False,
    running: Running = frozenset(),
    progress: Progress = lambda _: None,
) -> Solved:
    """A placement of everybody awake on all cards, made to keep a spare or to take turns."""
    if solved.fleet.spare != "none" and solved.feasible:
        spared = keep_spare(solved, strictly=strictly, progress=progress)
        solved = spared or replace(solved, feasible=False, lacks_spare=True)
    return with_turns(solved, strictly=strictly, running=running, progress=progress)


def with_turns(
    awake: Solved,
    *,
    strictly: bool = False,
    running: Running = frozenset(),
    progress: Progress = lambda _: None,
) -> Solved:
    """The better of `awake`, the placement where everybody keeps its memory, and the best with sleepers."""
    fleet = awake.fleet
    sleepers = [number for number, one in enumerate(fleet.models) if "sleep" in one.sharing]
    blocks = _Blocks(fleet, awake.ways, strictly)
    if len(sleepers) < 2 or not any(blocks.of(pair) for pair in _pairs(sleepers)):
        return awake
    progress("looking at who may take turns")
    alone = tuple((number,) for number in range(len(fleet.models)))
    first = _Deal(alone, awake, awake.placement.lower_bound if awake.feasible else inf)
    deals, complete = _all_deals(fleet, sleepers, blocks)
    found = _each(fleet, first, blocks, deals) if complete else _merged(fleet, first, blocks)
    best = min(
        [first, *found],
        key=lambda deal: (round(deal.cost, 9), -len(deal.groups), -_staying(fleet, deal.groups, running)),
    )
    bound = min(deal.bound for deal in (first, *found))
    if best.cost == inf:
        return awake
    return _expanded(fleet, best, awake, blocks, bound if complete else None)


def _staying(fleet: Fleet, groups: Sequence[Group], running: Running) -> int:
    """How many models stay in the company that they are in."""
    return sum(len(group) for group in groups if frozenset(fleet.models[one].name for one in group) in running)


def _pairs(numbers: Sequence[int]) -> Iterator[Group]:
    return ((one, other) for place, one in enumerate(numbers) for other in numbers[place + 1 :])


class _Blocks:
    """The ways to serve each group, and what its turns would be; looked up once."""

    def __init__(self, fleet: Fleet, ways: Sequence[Ways], strictly: bool) -> None:
        self.fleet, self.ways, self.strictly = fleet, ways, strictly
        self._known: dict[tuple[Group, bool], tuple[Candidate, ...]] = {}
        self._turns: dict[int, Turns] = {}  # by the members of a candidate, which are kept

    def of(self, group: Group, *, hosted: bool = True) -> tuple[Candidate, ...]:
        """Its candidates (numbered by the group's first model); none where they may not take turns. Without
        `hosted` nobody sleeps in host memory."""
        if len(group) == 1:
            return self.ways[group[0]].candidates
        if (group, hosted) not in self._known:
            self._known[group, hosted] = tuple(self._shared(group, hosted))
        return self._known[group, hosted]

    def turns(self, candidate: Candidate) -> Turns:
        """The turns of a candidate of several members."""
        return self._turns[id(candidate.members)]

    def _shared(self, group: Group, hosted: bool) -> Iterator[Candidate]:
        requests = [self.fleet.models[number] for number in group]
        names = {one.name for one in requests}
        if any(names & set(one.apart_from) for one in requests):
            return
        pins = [set(one.pin_gpus) for one in requests if one.pin_gpus]
        if pins and not set.intersection(*pins):
            return
        modes = [mode for mode in modes_of(requests) if hosted or mode != SLEEP_1]
        for number, offer in enumerate(self.fleet.gpus):
            sizes = {one.tensor_parallel_size for one in self.ways[group[0]].candidates if one.offer == number}
            for size in sorted(sizes):
                each = [self._single(member, number, size) for member in group]
                found = []
                for chosen in _choices(each):
                    for mode in modes:
                        turns = judge(requests, chosen, offer.gpu, mode, offer.host_memory_bytes)
                        if isinstance(turns, Turns):
                            self._turns[id(chosen)] = turns
                            found.append(_together(chosen, turns))
                            break
                yield from undominated(found)

    def _single(self, member: int, offer: int, size: int) -> list[Candidate]:
        return [
            one
            for one in self.ways[member].candidates
            if one.offer == offer and one.tensor_parallel_size == size and one.replicas == 1
        ]


def _choices(each: Sequence[Sequence[Candidate]]) -> Iterator[tuple[Candidate, ...]]:
    """A way for each of a group, first those in which all read as many tokens a step as their engines do."""
    own = [[one for one in ways if one.step_share == 1] for ways in each]
    yield from islice(product(*own), _MOST_WAYS)
    others = (chosen for chosen in product(*each) if any(one.step_share != 1 for one in chosen))
    yield from islice(others, _MOST_WAYS)


def _together(chosen: tuple[Candidate, ...], turns: Turns) -> Candidate:
    """A group as one candidate: the most that it ever takes, awake or while one of them loads."""
    claim, peak = together([taken_by(one, turns.mode) for one in chosen], turns.mode)
    return replace(
        chosen[0],
        claim_bytes=claim,
        load_peak_bytes=peak,
        busy=min(1.0, sum(one.busy for one in chosen)),
        slack=min(one.slack for one in chosen),
        quality_rank=sum(one.quality_rank for one in chosen),
        step_share=min(one.step_share for one in chosen),
        members=chosen,
    )


def _all_deals(fleet: Fleet, sleepers: Sequence[int], blocks: _Blocks) -> tuple[list[tuple[Group, ...]], bool]:
    """Every deal with a group of several, and whether that is all of them."""
    if len(sleepers) > MOST_SLEEPERS:
        return [], False
    rest = tuple((number,) for number in range(len(fleet.models)) if number not in sleepers)
    found: list[tuple[Group, ...]] = []
    for deal in partitions(tuple(sleepers)):
        if all(len(group) == 1 for group in deal):
            continue
        if all(len(group) == 1 or blocks.of(group) for group in deal):
            found.append(tuple(sorted((*deal, *rest))))
            if len(found) > MOST_DEALS:
                return [], False
    return found, True


def partitions(items: tuple[int, ...]) -> Iterator[tuple[Group, ...]]:
    """Every way to part `items` into groups."""
    if not items:
        yield ()
        return
    first, rest = items[0], items[1:]
    for smaller in partitions(rest):
        yield ((first,), *smaller)
        for place, group in enumerate(smaller):
            yield (*smaller[:place], (first, *group), *smaller[place + 1 :])


def _each(fleet: Fleet, first: _Deal, blocks: _Blocks, deals: Sequence[tuple[Group, ...]]) -> list[_Deal]:
    found: list[_Deal] = []
    least = first.cost
    for groups in deals:
        found.append(_solved(fleet, blocks, groups, least))
        least = min(least, found[-1].cost)
    return found


def _merged(fleet: Fleet, first: _Deal, blocks: _Blocks) -> list[_Deal]:
    """From everybody alone, the merge of two groups that saves most, again and again while one saves anything."""
    found: list[_Deal] = []
    best, left = first, MOST_DEALS
    while left > 0:
        tried = []
        for one, other in _group_pairs(fleet, best.groups):
            merged = tuple(sorted((*one, *other)))
            if left > 0 and blocks.of(merged):
                groups = tuple(sorted({*best.groups, merged} - {one, other}))
                tried.append(_solved(fleet, blocks, groups, best.cost))
                left -= 1
        better = [deal for deal in tried if deal.cost < best.cost - 1e-9]
        if not better:
            break
        best = min(better, key=lambda deal: deal.cost)
        found.append(best)
    return found


def _group_pairs(fleet: Fleet, groups: Sequence[Group]) -> Iterator[tuple[Group, Group]]:
    able = [group for group in groups if all("sleep" in fleet.models[number].sharing for number in group)]
    return ((one, other) for place, one in enumerate(able) for other in able[place + 1 :])


def _solved(fleet: Fleet, blocks: _Blocks, groups: tuple[Group, ...], least: float) -> _Deal:
    """The deal as a fleet whose models are groups; a spare is looked for where it may cost `least` or less."""
    first = _solved_so(fleet, blocks, groups, least, hosted=True)
    if not first.solved.feasible or _hosts_hold(first.solved, first.solved.placement, blocks):
        return first
    again = _solved_so(fleet, blocks, groups, least, hosted=False)
    return replace(again, bound=min(first.bound, again.bound))


def _solved_so(fleet: Fleet, blocks: _Blocks, groups: tuple[Group, ...], least: float, *, hosted: bool) -> _Deal:
    name_of = {fleet.models[member].name: _name(fleet, group) for group in groups for member in group}
    models = tuple(_as_one([fleet.models[number] for number in group], name_of) for group in groups)
    ways = tuple(
        Ways(
            tuple(replace(one, request=place) for one in blocks.of(group, hosted=hosted)),
            blocks.ways[group[0]].refusals,
        )
        for place, group in enumerate(groups)
    )
    solved = solve_ways(replace(fleet, models=models), ways, nearest=False, strictly=blocks.strictly)
    if not solved.feasible:
        return _Deal(groups, solved, inf)
    bound = solved.placement.lower_bound
    if fleet.spare != "none":
        if bound > least + 1e-9:
            return _Deal(groups, replace(solved, feasible=False), bound)
        spared = keep_spare(solved, strictly=blocks.strictly)
        if spared is None:
            return _Deal(groups, replace(solved, feasible=False), inf)
        solved, bound = spared, spared.placement.lower_bound
    return _Deal(groups, solved, bound)


def _hosts_hold(solved: Solved, placement: Placement, blocks: _Blocks) -> bool:
    """Whether each node's memory holds all that sleep in it, of all groups together, and where spare cards are
    also what sleeps on any one card elsewhere."""
    cards = solved.problem.cards
    held: dict[tuple[int, int], int] = defaultdict(int)
    brought: dict[int, int] = defaultdict(int)  # by card, what would move with it
    for one in placement.assignments:
        if one.candidate.members:
            size = blocks.turns(one.candidate).host_bytes
            first = cards[one.cards[0][0]]
            held[first.offer, first.node] += size
            for card in one.cards[0]:
                brought[card] += size
    for place in {(cards[number].offer, cards[number].node) for number in placement.spare}:
        others = [size for card, size in brought.items()
                  if cards[card].offer == place[0] and cards[card].node != place[1]]  # fmt: skip
        held[place] += max(others, default=0)
    return all(
        not size or size <= (solved.fleet.gpus[offer].host_memory_bytes or 0) for (offer, _), size in held.items()
    )


def _name(fleet: Fleet, group: Group) -> str:
    return "+".join(fleet.models[number].name for number in group)


def _as_one(requests: Sequence[ModelRequest], name_of: dict[str, str]) -> ModelRequest:
    """Wishes of a group: as strict as its strictest member."""
    first = requests[0]
    pins = [set(one.pin_gpus) for one in requests if one.pin_gpus]
    sharing = ("co-resident",) if all("co-resident" in one.sharing for one in requests) else ("alone",)
    return replace(
        first,
        name=name_of[first.name],
        sharing=sharing,
        pin_gpus=tuple(sorted(set.intersection(*pins))) if pins else (),
        apart_from=tuple(dict.fromkeys(name_of[other] for one in requests for other in one.apart_from)),
        priority=max(one.priority for one in requests),
    )


def _expanded(fleet: Fleet, best: _Deal, awake: Solved, blocks: _Blocks, bound: float | None) -> Solved:
    """The best deal in the numbers of the fleet's own models."""
    problem = problem_of(fleet, [each.candidates for each in blocks.ways])
    dealt = best.solved
    value = dealt.placement.objective_value
    saves = awake.placement.objective_value - value if awake.feasible else None
    gap = None if bound is None else 0.0 if value <= bound + 1e-6 else (value - bound) / value

    def expanded(placement: Placement) -> Placement:
        members = _members(placement, best.groups, blocks, saves)
        return replace(members, lower_bound=bound or 0.0, gap=gap, proven=gap == 0.0)

    return Solved(
        fleet=fleet,
        ways=awake.ways,
        problem=replace(problem, cards=dealt.problem.cards, contention=dealt.problem.contention),
        placement=expanded(dealt.placement),
        calm=dealt.calm,
        feasible=True,
        dealt=Dealt(dealt, expanded, lambda placement: _hosts_hold(dealt, placement, blocks)),
    )


def _members(
    placement: Placement, groups: Sequence[Group], blocks: _Blocks, saves_per_hour: float | None
) -> Placement:
    """A placement of groups as one of the models in them."""
    assignments: list[Assignment] = []
    turns: list[Turns] = []
    for one in placement.assignments:
        if one.candidate.members:
            assignments += [Assignment(member, one.cards) for member in one.candidate.members]
            turns.append(replace(blocks.turns(one.candidate), saves_per_hour=saves_per_hour))
        else:
            number = groups[one.candidate.request][0]
            assignments.append(Assignment(replace(one.candidate, request=number), one.cards))
    ordered = tuple(sorted(assignments, key=lambda each: each.candidate.request))
    return replace(placement, assignments=ordered, turns=tuple(turns))
