"""Which replicas of a plan may run together: every card holds what its residents claim, and whoever loads last.

Who runs them starts each when it is first asked for, in no order that is known here: so whichever of a group comes
last must find room for its load peak beside all others. A plan's own order may need less; it is not kept here.
Whoever takes turns in the plan is counted as awake: what is not running here is stopped, and keeps nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from cotenant.deployment.launch import Launch
from cotenant.domain.plan import Plan
from cotenant.errors import UnsupportedError

_Card = tuple[int, int]
_Claims = dict[str, dict[_Card, tuple[int, int]]]

_MOST = 16
"""Replicas of one machine whose combinations are tried one by one."""


def together(plan: Plan, found: Sequence[Launch]) -> tuple[tuple[str, ...], ...]:
    """The largest groups of names that fit together, in the order of `found`; one group where all do."""
    claims, room = _claims(plan)
    names = [one.name for one in found]
    ids = [one.replica.id for one in found]
    if _fits(ids, claims, room):
        return (tuple(names),)
    if len(found) > _MOST:
        raise UnsupportedError(
            f"{len(found)} replicas of one machine do not fit together, and at most {_MOST} are combined here",
            hint="plan them so that all fit",
        )
    fitting = {each for each in range(1, 2 ** len(ids)) if _fits(_chosen(ids, each), claims, room)}
    each_alone = [1 << number for number in range(len(ids))]
    # what does not hold one more holds no more than that
    largest = [
        each for each in sorted(fitting) if not any(each | one in fitting for one in each_alone if not each & one)
    ]
    return tuple(tuple(_chosen(names, each)) for each in largest)


def _chosen(names: Sequence[str], mask: int) -> list[str]:
    return [name for number, name in enumerate(names) if mask >> number & 1]


def _claims(plan: Plan) -> tuple[_Claims, dict[_Card, int]]:
    """((claim, bytes beyond it while loading) by replica and card, bytes that each card has for replicas)."""
    claims: _Claims = {}
    room: dict[_Card, int] = {}
    for gpu in plan.gpus:
        card = (gpu.device.node, gpu.device.index)
        room[card] = gpu.capacity_bytes - gpu.used_bytes
        for share in (*gpu.shares, *(one.share for one in gpu.sleepers)):
            beyond = max(0, share.load_peak_bytes - share.claimed_bytes)
            claims.setdefault(share.replica, {})[card] = share.claimed_bytes, beyond
    return claims, room


def _fits(ids: Sequence[str], claims: _Claims, room: dict[_Card, int]) -> bool:
    left, beyond = dict(room), dict.fromkeys(room, 0)
    for one in ids:
        for card, (size, more) in claims.get(one, {}).items():
            left[card] -= size
            beyond[card] = max(beyond[card], more)
    return all(left[card] >= beyond[card] for card in room)
