"""How many more models a GPU carries than by worst-case sizing, on three fleets: the second article's 3 to 4 x.

Two sizings stand beside each plan. The usual one (`naive`): each model alone in 16 bits, its full context times 16
slots. A milder one in the plan's own precisions: each replica alone, with its most sequences all at their longest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cotenant import load_fleet, plan
from cotenant.domain.plan import Plan

FLEETS = ("article-a100/row4", "a100-trio", "shop-four-types")
_EXAMPLES = Path(__file__).parents[1] / "examples"
_MOST_CARDS = 64


@dataclass(frozen=True, slots=True)
class Ratio:
    """One fleet: cards of the plan, of the usual sizing, and of the milder worst case."""

    fleet: str
    models: int
    planned: int
    usual: int
    worst_case: int

    @property
    def words(self) -> str:
        """The arithmetic in a line."""
        return (
            f"{self.models} models on {self.planned} cards, {self.worst_case} by worst case in the same "
            f"precisions ({self.worst_case / self.planned:.1f} x), {self.usual} by the usual sizing "
            f"({self.usual / self.planned:.1f} x)"
        )


def ratios() -> Iterator[Ratio]:
    """Each of the fleets, planned."""
    for name in FLEETS:
        path = _EXAMPLES / f"{name}.yaml"
        found, headroom = plan(path), load_fleet(path).headroom
        if not found.feasible or found.naive is None:
            raise ValueError(f"{name} has no plan")
        models = len({one.model for one in found.replicas})
        yield Ratio(name, models, len(found.gpus), found.naive.cards, _worst_case(found, headroom))


def _worst_case(found: Plan, headroom: float) -> int:
    """Cards, in powers of two, that hold each replica's weights, runtime and worst-case cache alone."""
    shares = {replica.id: [] for replica in found.replicas}  # type: dict[str, list[tuple[int, int]]]
    for gpu in found.gpus:
        for share in gpu.shares:
            fixed = share.activations_bytes + share.runtime_bytes
            room = int(gpu.capacity_bytes * (1 - headroom)) - gpu.used_bytes - fixed
            shares[share.replica].append((share.weights_bytes, room))
    cards = 0
    for replica in found.replicas:
        weights = sum(each for each, _ in shares[replica.id])
        room = min(each for _, each in shares[replica.id])
        number = 1
        while (
            number < _MOST_CARDS
            and weights + replica.kv_worst_case_bytes * len(shares[replica.id]) > number * room
        ):
            number *= 2
        cards += number
    return cards
