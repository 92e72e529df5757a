"""A plan in which some models take turns: they swap among themselves, the others keep their place.

Each group of turns has the memory of its own cards to itself, as the plan granted it: what its largest member
takes beside the others asleep. Who is asked is woken as soon as the one that is awake has finished what it runs.
"""

from __future__ import annotations

from collections.abc import Sequence

from cotenant.domain.plan import Plan
from cotenant.simulation.costs import FS_PER_S
from cotenant.simulation.hosting import Hosting
from cotenant.simulation.kernel import Host
from cotenant.simulation.residency import Residency, Resident

_POLICY = {"sleep-1": "swap", "sleep-2": "swap-2", "restart": "restart"}
_AT_ONCE_FS = 1


def residency_of(
    plan: Plan,
    hosts: Sequence[Host],
    hostings: Sequence[Hosting],
    *,
    priorities: Sequence[int] = (),
    minimum_fs: int = 0,
) -> Residency | None:
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
            capacity["own", place] = one.claimed_bytes
            residents.append(
                Resident(host.replica, (("own", place),), one.claimed_bytes, 0, _AT_ONCE_FS, _AT_ONCE_FS)
            )
            continue
        mode = _POLICY[plan.turns[number].mode]
        asleep, wake = one.swap_s[mode]
        resident = Resident(
            replica=host.replica,
            cards=(("turns", number),),
            awake_bytes=one.claimed_bytes,
            asleep_bytes=0 if mode == "restart" else one.runtime_bytes,
            wake_fs=max(_AT_ONCE_FS, round(wake * FS_PER_S)),
            sleep_fs=max(_AT_ONCE_FS, round(asleep * FS_PER_S)),
            priority=priorities[place] if priorities else 0,
        )
        residents.append(resident)
        members.setdefault(number, []).append(resident)
    for number, all_of in members.items():
        rest = sum(one.asleep_bytes for one in all_of)
        capacity["turns", number] = rest + max(one.awake_bytes - one.asleep_bytes for one in all_of)
    return Residency(residents, capacity, 0, minimum_fs)
