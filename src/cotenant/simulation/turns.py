"""Models that take turns in the memory of their cards: those of a plan with turns, or all of them under a policy.

Under a plan, each group of turns has the memory of its own cards to itself, as the plan granted it: what its
largest member takes beside the others asleep; the others keep their place. It runs as `cotenant serve` runs it:
with its patience, its hold, its least stay and its rule of who makes room. Policies:

    swap, swap-2, restart    as serve would, in that mode (`estimation.swapping`)
    swap-lru                 the longest idle makes room, whole models move to host memory and back (Run:ai)
    restart-lru              the longest idle makes room, processes are stopped and started (llama-swap)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from cotenant.domain.plan import Plan
from cotenant.engines.sleeping import RESTART, SLEEP_1, SLEEP_2, kept_bytes
from cotenant.errors import UnsupportedError
from cotenant.policy.eviction import RECENT, WORTH
from cotenant.simulation.costs import FS_PER_S
from cotenant.simulation.hosting import Hosting
from cotenant.simulation.kernel import Host
from cotenant.simulation.residency import Residency, Resident
from cotenant.units import format_bytes

SWAPS: Final = {
    "swap": (SLEEP_1, WORTH),
    "swap-2": (SLEEP_2, WORTH),
    "restart": (RESTART, WORTH),
    "swap-lru": (SLEEP_1, RECENT),
    "restart-lru": (RESTART, RECENT),
}
"""Policies by which all models take turns: how they leave and come back, and who makes room."""

_AT_ONCE_FS = 1


@dataclass(frozen=True, slots=True)
class Stays:
    """How long a request waits before a busy model makes room, how long a model stays at least, and how long a
    request waits before an idle one makes room."""

    patience_s: float = 0.0
    minimum_s: float = 0.0
    hold_s: float = 0.0

    def residency(self, residents: Sequence[Resident], capacity: dict[object, int], rule: int) -> Residency:
        """Of these residents, everybody asleep."""
        patience, minimum, hold = (round(one * FS_PER_S) for one in (self.patience_s, self.minimum_s, self.hold_s))
        return Residency(residents, capacity, patience, minimum, rule, hold)


def residency_of(
    plan: Plan, hosts: Sequence[Host], hostings: Sequence[Hosting], *, priorities: Sequence[int] = (),
    stays: Stays | None = None,
) -> Residency | None:  # fmt: skip
    """Who sleeps of a plan, everybody asleep at first; None where nobody takes turns. `priorities` by host."""
    if not plan.turns:
        return None
    group = {name: number for number, turns in enumerate(plan.turns) for name in turns.models}
    residents: list[Resident] = []
    capacity: dict[object, int] = {}
    members: dict[int, list[Resident]] = {}
    for place, (host, one) in enumerate(zip(hosts, hostings, strict=True)):
        number = group.get(one.model)
        if number is None:
            own = ("own", place)
            capacity[own] = one.claimed_bytes
            residents.append(Resident(host.replica, (own,), one.claimed_bytes, 0, _AT_ONCE_FS, _AT_ONCE_FS))
            continue
        mode, priority = plan.turns[number].mode, priorities[place] if priorities else 0
        resident = _resident(host, one, (("turns", number),), mode, priority)
        residents.append(resident)
        members.setdefault(number, []).append(resident)
    for number, all_of in members.items():
        rest = sum(one.asleep_bytes for one in all_of)
        capacity["turns", number] = rest + max(one.grows_bytes for one in all_of)
    return (stays or Stays()).residency(residents, capacity, WORTH)


def residency_under(
    policy: str, plan: Plan, hosts: Sequence[Host], hostings: Sequence[Hosting], *, priorities: Sequence[int],
    stays: Stays,
) -> Residency:  # fmt: skip
    """Everybody asleep, on the cards of the plan. Raises UnsupportedError where a model has no room beside the
    others' idle processes."""
    capacity: dict[object, int] = {
        (gpu.device.node, gpu.device.index): gpu.capacity_bytes - gpu.used_bytes for gpu in plan.gpus
    }
    mode, rule = SWAPS[policy]
    residents = [
        _resident(host, one, one.cards, mode, priority)
        for host, one, priority in zip(hosts, hostings, priorities, strict=True)
    ]
    found = stays.residency(residents, capacity, rule)
    for one, resident in zip(hostings, residents, strict=True):
        short = max(resident.grows_bytes - found.free_bytes(card) for card in one.cards)
        if short > 0:
            raise UnsupportedError(
                f"{one.id} lacks {format_bytes(short)} beside the idle processes of the others",
                hint="ask for more headroom, or take --policy restart",
            )
    return found


def _resident(host: Host, one: Hosting, cards: tuple[object, ...], mode: str, priority: int) -> Resident:
    """One that takes turns in that mode."""
    asleep_s, wake_s = one.swap_s[mode]
    return Resident(
        replica=host.replica,
        cards=cards,
        awake_bytes=one.claimed_bytes,
        asleep_bytes=kept_bytes(mode, one.runtime_bytes),
        wake_fs=max(_AT_ONCE_FS, round(wake_s * FS_PER_S)),
        sleep_fs=max(_AT_ONCE_FS, round(asleep_s * FS_PER_S)),
        priority=priority,
    )
