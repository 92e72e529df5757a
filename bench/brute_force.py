"""The cheapest placement by looking at all of them: raw choices of every model on every card, nothing else.

Small random fleets are planned and enumerated; both must cost the same, or both must find no place. Models that
may sleep are dealt into groups in every way; they are drawn so that no queue needs to be looked at: those that are
never asked in the same hour may take turns, those that are asked in the same hours would swap most of the time.

A card's engines start one after another, in any order in which none takes more than the card has while it loads:
all orders are tried. Those of one group start side by side.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, permutations, product
from math import inf
from random import Random
from typing import Any

from bench.raw_choices import RawChoice, loading_bytes, raw_choices, room_bytes
from cotenant import load_fleet
from cotenant.domain.fleet import Fleet, ModelRequest
from cotenant.planning.sleeping import solve_fleet
from cotenant.planning.solve import written

KINDS = ("plain", "tensor-parallel", "adapters", "sleep")
_TOLERANCE = 1e-6
_MODELS = (
    "Qwen/Qwen2.5-7B-Instruct", "meta-llama/Llama-3.1-8B-Instruct", "mistralai/Mistral-7B-Instruct-v0.3",
    "Qwen/Qwen2.5-14B-Instruct", "Qwen/Qwen2.5-3B-Instruct", "Qwen/Qwen2.5-32B-Instruct",
)  # fmt: skip
_GPUS = (
    ("L4", 0.5), ("A10", 0.6), ("L40S", 0.9), ("A100-40GB-SXM", 1.2), ("A100-80GB-SXM", 1.7),
    ("H100-80GB-SXM", 2.6),
)  # fmt: skip


@dataclass(slots=True)
class _Card:
    offer: int
    node: int
    pool_index: int | None
    price: float
    free: int
    loading: int
    on: dict[int, RawChoice] = field(default_factory=dict)

    def alike(self) -> tuple[object, ...]:
        """Cards that are equal in this may stand for each other; a node is known by what is on it."""
        present = sorted((number, way.claim_bytes, way.peak_bytes) for number, way in self.on.items())
        return self.offer, self.node, self.pool_index, self.free, tuple(present)

    def starts(self) -> bool:
        """Whether there is an order in which all that are on it can be started."""
        return any(
            _most_in_order((way.claim_bytes, way.peak_bytes) for way in order) <= self.loading
            for order in permutations(self.on.values())
        )


def _most_in_order(order: Iterable[tuple[int, int]]) -> int:
    """The most that is ever taken by those (kept, while loading) that start one after another."""
    kept = most = 0
    for keeps, peak in order:
        most = max(most, kept + peak)
        kept += keeps
    return most


def cheapest(fleet: Fleet) -> float:
    """The least cost of any placement of all models; infinite where there is none."""
    ways = [raw_choices(fleet, request) for request in fleet.models]
    if not all(ways):
        return inf
    best = inf
    for groups in _deals(tuple(range(len(ways)))):
        if all(_may_take_turns([fleet.models[one] for one in group]) for group in groups):
            dealt = [tuple(_in_turns([ways[one] for one in group])) for group in groups]
            if all(dealt):
                best = min(best, _Enumeration(fleet, groups, dealt).run())
    return best


def _deals(items: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Every way to part `items` into groups: with the first, each set of the others."""
    if not items:
        yield ()
        return
    first, others = items[0], items[1:]
    for size in range(len(others) + 1):
        for beside in combinations(others, size):
            for rest in _deals(tuple(one for one in others if one not in beside)):
                yield ((first, *beside), *rest)


def _may_take_turns(group: Sequence[ModelRequest]) -> bool:
    """Alone always; several where all allow it, none is apart from another and no hour asks for two of them."""
    if len(group) == 1:
        return True
    names = {one.name for one in group}
    if any("sleep" not in one.sharing or names & set(one.apart_from) for one in group):
        return False
    return all(sum(one.traffic.by_hour[hour] > 0 for one in group) <= 1 for hour in range(24))


def _in_turns(ways: Sequence[Sequence[RawChoice]]) -> Iterator[RawChoice]:
    """One choice for each of a group, on the same cards: the most that they take, one awake, the others asleep."""
    for chosen in product(*ways):
        first = chosen[0]
        if len(chosen) == 1:
            yield first
        elif all((one.offer, one.size, one.replicas) == (first.offer, first.size, 1) for one in chosen):
            asleep = sum(one.asleep_bytes for one in chosen)
            most = max(one.claim_bytes + asleep - one.asleep_bytes for one in chosen)
            peak = min(
                _most_in_order((one.asleep_bytes, one.peak_bytes) for one in order)
                for order in permutations(chosen)
            )
            yield RawChoice(first.offer, first.format, first.size, 1, most, peak)


class _Enumeration:
    """`groups` of models, those of one on the same cards; `ways` by group."""

    def __init__(
        self, fleet: Fleet, groups: Sequence[tuple[int, ...]], ways: Sequence[tuple[RawChoice, ...]]
    ) -> None:
        self._ways = ways
        self._cards = list(_cards(fleet, ways))
        self._best = inf
        requests = [[fleet.models[one] for one in group] for group in groups]
        self._pins = [[one.pin_gpus for one in each if one.pin_gpus] for each in requests]
        names = {one.name: number for number, each in enumerate(requests) for one in each}
        self._apart = {
            frozenset((number, names[other]))
            for number, each in enumerate(requests)
            for one in each
            for other in one.apart_from
        }
        self._alone = {
            number for number, each in enumerate(requests) if any("co-resident" not in one.sharing for one in each)
        }

    def run(self) -> float:
        self._visit(0, 0.0)
        return self._best

    def _visit(self, number: int, cost: float) -> None:
        if cost >= self._best - _TOLERANCE:
            return
        if number == len(self._ways):
            self._best = cost
            return
        for way in self._ways[number]:
            for cards in self._groups(number, way, way.replicas, ()):
                opened = sum(self._cards[card].price for card in cards if not self._cards[card].on)
                for card in cards:
                    self._cards[card].free -= way.claim_bytes
                    self._cards[card].on[number] = way
                if all(self._cards[card].starts() for card in cards):
                    self._visit(number + 1, cost + opened)
                for card in cards:
                    self._cards[card].free += way.claim_bytes
                    del self._cards[card].on[number]

    def _groups(self, number: int, way: RawChoice, left: int, taken: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        """Cards for `left` more replicas: each inside one node, all different."""
        if not left:
            yield taken
            return
        seen = set()
        for group in self._nodes(number, way, taken):
            sign = tuple(sorted(map(str, (self._cards[card].alike() for card in group))))
            if sign not in seen and (not taken or group > taken[-way.size :]):
                seen.add(sign)
                yield from self._groups(number, way, left - 1, (*taken, *group))

    def _nodes(self, number: int, way: RawChoice, taken: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        by_node: dict[int, list[int]] = defaultdict(list)
        for place, card in enumerate(self._cards):
            if place not in taken and card.offer == way.offer and self._may(number, way, card):
                by_node[card.node].append(place)
        for cards in by_node.values():
            yield from combinations(cards, way.size)

    def _may(self, number: int, way: RawChoice, card: _Card) -> bool:
        if card.free < way.claim_bytes or any(card.pool_index not in pins for pins in self._pins[number]):
            return False
        if card.on and (number in self._alone or card.on.keys() & self._alone):
            return False
        return not any(frozenset((number, other)) in self._apart for other in card.on)


def _cards(fleet: Fleet, ways: Sequence[tuple[RawChoice, ...]]) -> Iterator[_Card]:
    """Pool cards, then as many of the shop's as all models could take together."""
    pinned = {index for request in fleet.models for index in request.pin_gpus}
    node = index = 0
    for number, offer in sorted(enumerate(fleet.gpus), key=lambda each: each[1].is_shop):
        count = offer.count
        if count is None:
            most = sum(
                max((way.size * way.replicas for way in each if way.offer == number), default=0) for each in ways
            )
            count = most if offer.maximum is None else min(most, offer.maximum)
        for place in range(count):
            mine = None if offer.is_shop else index
            index += not offer.is_shop
            yield _Card(
                number, node + place // offer.node_size, mine if mine in pinned else None,
                offer.price_per_hour or 0.0, room_bytes(fleet, offer), loading_bytes(offer),
            )  # fmt: skip
        node += -(-count // offer.node_size)


def drawn_fleet(kind: str, seed: int) -> Mapping[str, Any]:
    """A fleet as a user would write it: three or four models, two or three types, pools and shops."""
    random = Random(f"{kind} {seed}")
    parallel = kind == "tensor-parallel"
    models = [_model(kind, number, random) for number in range(random.choice((3, 3, 4)))]
    names = [str(each["name"]) for each in models]
    if random.random() < 0.2:
        models[0]["apart_from"] = [names[1]]
    if random.random() < 0.15:
        models[1]["sharing"] = ["alone"]
    gpus: list[dict[str, Any]] = []
    for name, price in random.sample(_GPUS, random.choice((2, 2, 3))):
        count = random.choice((1, 2, 2, 4) if parallel else (1, 1, 2, 3))
        node = random.choice((2, 4, 8))
        where = {"count": count} if random.random() < 0.3 else {"max": count}
        gpus.append(
            {
                "type": name,
                "price": f"${price + random.choice((0, 0.1, 0.25)):g}/h",
                "node": {"size": node, "host_memory": "2000GiB"},
                **where,
            }
        )
    if "count" in gpus[0] and random.random() < 0.3:
        models[2]["pin"] = {"gpus": [0]}
    return {"engine": "vllm@0.10", "headroom": "10%", "gpus": gpus, "models": models}


def _model(kind: str, number: int, random: Random) -> dict[str, Any]:
    concurrent, longest = random.choice((2, 4, 8, 16)), random.choice((2000, 4000, 9000))
    found: dict[str, Any] = {
        "name": f"m{number}",
        "model": random.choice(_MODELS[3:] if kind == "tensor-parallel" and random.random() < 0.7 else _MODELS),
        "traffic": {"concurrent": concurrent, "context_tokens": {"p50": 1000, "p95": longest}},
        "replicas": {"min": 1, "max": random.choice((1, 1, 2))},
    }  # fmt: skip
    if random.random() < 0.6:
        found["quantization"] = random.choice(
            (["bf16"], ["fp8"], ["awq-int4"], ["fp8", "awq-int4"], ["bf16", "fp8"])
        )
    if random.random() < 0.3:
        found["slo"] = {"tpot": random.choice(("40ms", "80ms", "150ms"))}
    if kind == "sleep":
        _with_hours(found, random)
    if kind == "adapters" and random.random() < 0.7:
        found["adapters"] = [
            {"name": f"a{number}-{each}", "rank": random.choice((8, 16, 64))}
            for each in range(random.choice((1, 3)))
        ]
    return found


def _with_hours(model: dict[str, Any], random: Random) -> None:
    """Asked in one third of the day, so often that two in the same third would swap most of the time."""
    third = random.randrange(3)
    weights = [1 if hour // 8 == third else 0 for hour in range(24)]
    model.pop("slo", None)
    model["traffic"] = {
        "requests_per_second": random.choice((0.2, 0.3)), "by_hour": weights,
        "input_tokens": {"p50": 400, "p95": random.choice((900, 2000))}, "output_tokens": {"p50": 60, "p95": 200},
    }  # fmt: skip
    model["sharing"] = random.choice((["sleep", "co-resident"], ["sleep", "co-resident"], ["co-resident"]))


@dataclass(frozen=True, slots=True)
class Compared:
    """One fleet: what the plan costs, and the least that any placement does (infinite: there is none)."""

    kind: str
    seed: int
    planned: float
    truth: float

    @property
    def equal(self) -> bool:
        """To a millionth of a dollar an hour."""
        return self.planned == self.truth or abs(self.planned - self.truth) < _TOLERANCE


def compare(kind: str, seed: int) -> Compared:
    """Plan and enumerate one drawn fleet."""
    fleet = load_fleet(drawn_fleet(kind, seed))
    solved = solve_fleet(fleet, fold=False)  # enumerated are processes of their own
    if solved.feasible:
        written(solved)  # which checks the plan
    planned = solved.placement.objective_value if solved.feasible else inf
    return Compared(kind, seed, planned, cheapest(fleet))
