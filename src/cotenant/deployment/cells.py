"""Cells: replicas that share cards, directly or through others, and so must live on one machine, in one pod."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cotenant.deployment.launch import Launch, slugs
from cotenant.domain.plan import Plan

Card = tuple[int, int]
"""(node, index)."""


@dataclass(frozen=True, slots=True)
class Cell:
    """Launches in start order, with the cards of all of them; `count` such cells stand in the plan."""

    name: str
    launches: tuple[Launch, ...]
    cards: tuple[Card, ...]
    count: int = 1

    @property
    def shares_cards(self) -> bool:
        """Whether any card has more than one resident."""
        return sum(len(one.cards) for one in self.launches) > len(self.cards)

    def places(self, one: Launch) -> tuple[int, ...]:
        """Which of the cell's cards a launch uses, counted from 0, in rank order."""
        return tuple(self.cards.index((device.node, device.index)) for device in one.replica.devices)


def cells(found: Sequence[Launch]) -> tuple[Cell, ...]:
    """The cells in the order of their first launch; equal ones (but for ports and places) are one, counted."""
    groups: list[list[Launch]] = []
    for one in found:
        mine = set(_cards(one))
        touching = [group for group in groups if any(mine & set(_cards(other)) for other in group)]
        merged = [other for group in touching for other in group]
        groups = [group for group in groups if group not in touching]
        groups.append([*merged, one])
    ordered = [tuple(one for one in found if one in group) for group in groups]
    ordered.sort(key=lambda group: found.index(group[0]))
    counted: dict[object, list[tuple[Launch, ...]]] = {}
    for group in ordered:
        counted.setdefault(_likeness(group), []).append(group)
    firsts = [(each[0], len(each)) for each in counted.values()]
    names = slugs([_name(group) for group, _ in firsts])
    return tuple(
        Cell(name, group, _all_cards(group), count) for name, (group, count) in zip(names, firsts, strict=True)
    )


def card_bytes(plan: Plan, cell: Cell) -> tuple[int, ...]:
    """The capacity of each of the cell's cards."""
    capacity = {(gpu.device.node, gpu.device.index): gpu.capacity_bytes for gpu in plan.gpus}
    return tuple(capacity.get(card, 0) for card in cell.cards)


def weights_bytes(plan: Plan, replica: str) -> int:
    """Bytes of the weights of all of a replica's ranks, asleep or awake: what must be downloaded, but for formats
    that the engine makes on loading, and what an eviction costs to load again."""
    return sum(
        share.weights_bytes
        for gpu in plan.gpus
        for share in (*gpu.shares, *(one.share for one in gpu.sleepers))
        if share.replica == replica
    )


def port_names(found: Sequence[Cell]) -> dict[str, int]:
    """A number for each launch by name, the same for all that serve one model: a Service finds its port by it in
    whichever cell serves the model. The second replica of a model in one pod has a number of its own."""
    numbers: dict[tuple[str, int], int] = {}
    names: dict[str, int] = {}
    for cell in found:
        seen: dict[str, int] = {}
        for one in cell.launches:
            model = one.replica.model
            seen[model] = seen.get(model, 0) + 1
            names[one.name] = numbers.setdefault((model, seen[model]), len(numbers))
    return names


def _cards(one: Launch) -> list[Card]:
    return [(device.node, device.index) for device in one.replica.devices]


def _all_cards(group: Sequence[Launch]) -> tuple[Card, ...]:
    return tuple(sorted({card for one in group for card in _cards(one)}))


def _name(group: Sequence[Launch]) -> str:
    models = list(dict.fromkeys(one.replica.model for one in group))
    return "-".join(models)


def _likeness(group: Sequence[Launch]) -> object:
    """What two cells must have in common to be one Deployment."""
    cards = _all_cards(group)
    return tuple(
        (
            one.replica.model,
            one.replica.checkpoint,
            one.replica.engine,
            one.replica.engine_version,
            one.replica.quantization_flag,
            one.replica.settings,
            one.replica.adapters,
            one.replica.also_serves,
            tuple((device.type, cards.index((device.node, device.index))) for device in one.replica.devices),
        )
        for one in group
    )
