"""One combinatorial problem: candidates, cards, and what makes a placement good."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING

from cotenant.planning.loading import may_join, may_load
from cotenant.planning.untouched import Untouched

if TYPE_CHECKING:
    from cotenant.domain.demand import Demand
    from cotenant.domain.engine import EngineSettings
    from cotenant.domain.estimate import Estimate
    from cotenant.domain.plan import Turns

A_LITTLE = 0.02  # of a card: no more than this of headroom is given up for fewer ranks
A_STAGE = 0.1  # of a rank: of as many ranks, those in fewer stages are faster
_GIB = 2**30
MOST_PROCESSES = 1_000_000  # on a card that is not handed out in slices: as many as its memory holds


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to serve one model: `replicas` equal replicas of `tensor_parallel_size` ranks on cards of one offer
    and node; where `pipeline_parallel_size` is above 1 they are so many stages of fewer ranks each.

    `claim_bytes` is what each rank takes of its card for good, `load_peak_bytes` while it loads. `busy` is the
    share of time in which the replica has work (0..1); `slack` how much slower than alone it may run and still
    keep its SLO (0.5 = half as slow again; infinite without an SLO). `quality_rank` counts from 0, the best.
    """

    request: int
    offer: int
    format: str
    checkpoint: str
    tensor_parallel_size: int
    replicas: int
    claim_bytes: int
    load_peak_bytes: int
    busy: float
    slack: float
    quality_rank: int
    settings: EngineSettings  # with which its engine is started
    demand: Demand
    judged: Callable[[], Estimate] = field(compare=False, repr=False)  # made when first looked at (`judged`)
    reason: str = ""
    pipeline_parallel_size: int = 1
    members: tuple[Candidate, ...] = ()  # where it stands for models that take turns: each one's own way
    step_share: float = 1.0  # tokens that a step reads (max_num_batched_tokens) over the engine's own number

    @property
    def estimate(self) -> Estimate:
        """Of one replica, alone on its cards; always the same object."""
        return self.judged()

    @property
    def ranks(self) -> int:
        """Cards that it sits on; no card holds two ranks of one model."""
        return self.tensor_parallel_size * self.replicas

    @property
    def processes(self) -> int:
        """Engines on each of its cards: one, or one for each that takes turns."""
        return max(1, len(self.members))

    @property
    def overshoot_bytes(self) -> int:
        """What a rank takes beyond its claim while it loads."""
        return max(0, self.load_peak_bytes - self.claim_bytes)


@dataclass(frozen=True, slots=True)
class Floor:
    """What one request alone takes of a card, whatever else is done: `least_s` for `what`; `asked_s` wanted."""

    target: str  # TTFT or TPOT
    asked_s: float
    what: str
    least_s: float

    def breaks(self, pace: float = 1.0) -> bool:
        """Whether the target lies below it, where everything takes `pace` times as long."""
        return self.least_s * pace > self.asked_s


@dataclass(frozen=True, slots=True)
class Refusal:
    """A way that was considered and refused, with the shortfall where it is one of bytes.

    `unproven`: it would run, and nothing but an unpublished loss of quality speaks against it. `too_slow`: it
    breaks a target; with `floor` where one request alone does.
    """

    request: int
    offer: int
    format: str
    tensor_parallel_size: int
    reason: str
    shortfall_bytes: int = 0
    unproven: bool = False
    unsplittable: bool = False  # the engine cannot run it on so many ranks, whatever their memory
    pipeline_parallel_size: int = 1  # stages of those ranks
    too_slow: bool = False
    floor: Floor | None = None


@dataclass(frozen=True, slots=True)
class Card:
    """One card that may be used. `room_bytes` = capacity - held by others - the headroom that must stay free.

    Cards with equal `offer` and `node` are interchangeable unless a pin names `pool_index`.
    """

    offer: int
    node: int
    index: int
    pool_index: int | None
    capacity_bytes: int
    used_bytes: int
    room_bytes: int
    price_per_hour: float | None
    most_processes: int = MOST_PROCESSES

    @property
    def load_bytes(self) -> int:
        """What may be taken while engines load: the headroom too."""
        return self.capacity_bytes - self.used_bytes


@dataclass(frozen=True, slots=True)
class Problem:
    """Candidates by model, cards, and the wishes that tie models to cards and to each other.

    `apart` holds pairs of models that share no card; `alone` models that share with nobody; `pins` the pool
    indices that a model must stay on. `priorities` (higher first) decide who stays without a place, where not
    all fit.
    """

    names: tuple[str, ...]
    candidates: tuple[tuple[Candidate, ...], ...]
    cards: tuple[Card, ...]
    apart: frozenset[frozenset[int]]
    alone: frozenset[int]
    pins: Mapping[int, frozenset[int]]
    objective: tuple[str, ...]
    priorities: tuple[int, ...]
    spread: frozenset[int] = frozenset()  # models whose replicas stand on different nodes
    contention: bool = True  # whether SLOs must hold beside busy neighbours, not only alone

    def weight(self, card: Card) -> float:
        """What a used card costs in the objective: its price, or 1 where nothing has a price.

        Owned cards without a price cost nothing beside cards that do have one.
        """
        return (card.price_per_hour or 0.0) if self.priced else 1.0

    @property
    def priced(self) -> bool:
        """Whether the objective is money; else it counts cards."""
        return any(card.price_per_hour is not None for card in self.cards)

    def allows(self, candidate: Candidate, card: Card) -> bool:
        """Whether this card is of the right type and not excluded by a pin; memory apart."""
        pins = self.pins.get(candidate.request)
        return card.offer == candidate.offer and (pins is None or card.pool_index in pins)

    def holds(self, candidate: Candidate, card: Card) -> bool:
        """The same, and one rank fits there alone, also while it loads."""
        fits = candidate.claim_bytes <= card.room_bytes and candidate.load_peak_bytes <= card.load_bytes
        return fits and candidate.processes <= card.most_processes and self.allows(candidate, card)


@dataclass(frozen=True, slots=True)
class Assignment:
    """One model's choice: `cards[i]` are the card numbers of replica i, in rank order."""

    candidate: Candidate
    cards: tuple[tuple[int, ...], ...]

    def each_card(self) -> Iterator[int]:
        """Every card number it sits on."""
        return (card for replica in self.cards for card in replica)


@dataclass(frozen=True, slots=True)
class Placement:
    """A solution: one assignment for each placed model; the bound and gap that the solver can vouch for."""

    assignments: tuple[Assignment, ...]
    objective_value: float
    lower_bound: float
    gap: float | None
    proven: bool
    least_headroom: float = 0.0  # the smallest share of a used card that stays free
    spare: tuple[int, ...] = ()  # cards that stay empty for what fails; their cost is part of the objective
    turns: tuple[Turns, ...] = ()  # models that share their cards by sleeping; the others' claims add up

    @property
    def placed(self) -> frozenset[int]:
        """The models that have a place."""
        return frozenset(assignment.candidate.request for assignment in self.assignments)


def untidiness(way: Candidate, a_gib: float = 0.0) -> float:
    """Its ranks with what its stages count, and `a_gib` of one for each GiB that it claims."""
    stages = A_STAGE * way.replicas * (way.pipeline_parallel_size - 1)
    return way.ranks * (1 + way.claim_bytes / _GIB * a_gib) + stages


def least_headroom(problem: Problem, assignments: Iterable[Assignment]) -> float:
    """The smallest share of capacity that a used card keeps free; 1 where none is used."""
    loads: dict[int, int] = {}
    for assignment in assignments:
        for card in assignment.each_card():
            loads[card] = loads.get(card, problem.cards[card].used_bytes) + assignment.candidate.claim_bytes
    return min((1 - load / problem.cards[card].capacity_bytes for card, load in loads.items()), default=1.0)


class Loads:
    """What each card carries so far. `fits` asks and never changes anything; `add` commits."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._on: dict[int, list[Candidate]] = {}
        self._taken: dict[int, int] = {}
        self._overshoot: dict[int, int] = {}
        self._opened: dict[int, list[int]] = {}
        self._untouched: dict[int, Untouched] = {}
        for number, card in enumerate(problem.cards):
            self._untouched.setdefault(card.offer, Untouched()).add((card.node, card.room_bytes), number)

    def on(self, card: int) -> tuple[Candidate, ...]:
        """The candidates with a rank on that card."""
        return tuple(self._on.get(card, ()))

    def cards_for(self, candidate: Candidate) -> Iterator[int]:
        """Cards that may be worth asking `fits`: all opened ones of the offer, and of the others that are alike no
        more than could serve; a model that is pinned or spread is offered every card."""
        yield from sorted(self._opened.get(candidate.offer, ()))
        empty = self._untouched.get(candidate.offer)
        if empty is None:
            return
        if candidate.request in self._problem.pins or candidate.request in self._problem.spread:
            yield from empty.all()
        else:
            yield from empty.alike(candidate.claim_bytes, candidate.tensor_parallel_size, candidate.replicas)

    def free_bytes(self, card: int) -> int:
        """Room left on that card, headroom apart."""
        return self._problem.cards[card].room_bytes - self._taken.get(card, 0)

    def fits(self, candidate: Candidate, card: int) -> bool:
        """Whether one rank may join that card: type, pin, memory, also while loading, company, everybody's SLO."""
        where = self._problem.cards[card]
        if not self._problem.allows(candidate, where) or candidate.claim_bytes > self.free_bytes(card):
            return False
        company = self.on(card)
        if not company:
            return self._problem.holds(candidate, where)
        if where.most_processes < MOST_PROCESSES:
            present = sum(one.processes for one in company)
            if present + candidate.processes > where.most_processes:
                return False
        if not self.may_load(candidate, card):
            return False
        if not self._may_share(candidate, company):
            return False
        return not self._problem.contention or contention_holds((*company, candidate))

    def may_load(self, candidate: Candidate, card: int) -> bool:
        """Whether all fit there in some order of starts with one rank of it more; their claims apart."""
        most, over = self._problem.cards[card].load_bytes, candidate.overshoot_bytes
        if self._taken.get(card, 0) + candidate.claim_bytes + max(over, self._overshoot.get(card, 0)) <= most:
            return True  # even whoever starts last may overshoot as the worst does
        claims, overshoots = _bytes_of(self.on(card))
        return may_join(claims, overshoots, len(claims), candidate.claim_bytes, over, most)

    def _may_share(self, candidate: Candidate, company: tuple[Candidate, ...]) -> bool:
        mine = candidate.request
        for other in company:
            if other.request == mine or frozenset((other.request, mine)) in self._problem.apart:
                return False
            if other.request in self._problem.alone or mine in self._problem.alone:
                return False
        return True

    def add(self, candidate: Candidate, cards: Iterable[int]) -> None:
        """Put one rank on each of `cards`."""
        for card in cards:
            if card not in self._on:
                where = self._problem.cards[card]
                self._opened.setdefault(where.offer, []).append(card)
                self._untouched[where.offer].fill((where.node, where.room_bytes), card)
            self._on.setdefault(card, []).append(candidate)
            self._taken[card] = self._taken.get(card, 0) + candidate.claim_bytes
            self._overshoot[card] = max(self._overshoot.get(card, 0), candidate.overshoot_bytes)

    def is_used(self, card: int) -> bool:
        """Whether that card carries anything."""
        return card in self._on

    @property
    def used(self) -> frozenset[int]:
        """The cards that carry anything."""
        return frozenset(self._on)


def _bytes_of(company: Iterable[Candidate]) -> tuple[list[int], list[int]]:
    ones = list(company)
    return [one.claim_bytes for one in ones], [one.overshoot_bytes for one in ones]


def loading_holds(company: Iterable[Candidate], load_bytes: int) -> bool:
    """Whether a card with `load_bytes` free of others holds them while they load, in some order of starts."""
    return may_load(*_bytes_of(company), load_bytes)


def contention_holds(company: tuple[Candidate, ...]) -> bool:
    """Whether each model on a card keeps its SLO while the others work.

    Processes on one GPU take turns in time slices, so a model runs 1 + (busy share of the others) times slower
    than alone, on average; that must stay within its slack. The simulator refines it.
    """
    if all(one.slack == inf for one in company):
        return True
    busy = sum(one.busy for one in company)
    return all(busy - one.busy <= one.slack + 1e-9 for one in company)
