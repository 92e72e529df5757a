"""Which replicas of a plan may run together: every card holds what its residents claim.

Whoever takes turns in the plan is counted as awake: what is not running here is stopped, and keeps nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from cotenant.deployment.launch import Launch
from cotenant.domain.plan import Plan
from cotenant.errors import UnsupportedError

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
    fitting = [each for each in range(1, 2 ** len(ids)) if _fits(_chosen(ids, each), claims, room)]
    largest = [each for each in fitting if not any(each != other and each & other == each for other in fitting)]
    return tuple(tuple(_chosen(names, each)) for each in largest)


def _chosen(names: Sequence[str], mask: int) -> list[str]:
    return [name for number, name in enumerate(names) if mask >> number & 1]


def _claims(plan: Plan) -> tuple[dict[str, dict[tuple[int, int], int]], dict[tuple[int, int], int]]:
    """(bytes by replica and card, bytes that each card has for replicas)."""
    claims: dict[str, dict[tuple[int, int], int]] = {}
    room: dict[tuple[int, int], int] = {}
    for gpu in plan.gpus:
        card = (gpu.device.node, gpu.device.index)
        room[card] = gpu.capacity_bytes - gpu.used_bytes
        for share in (*gpu.shares, *(one.share for one in gpu.sleepers)):
            claims.setdefault(share.replica, {})[card] = share.claimed_bytes
    return claims, room


def _fits(
    ids: Sequence[str], claims: dict[str, dict[tuple[int, int], int]], room: dict[tuple[int, int], int]
) -> bool:
    left = dict(room)
    for one in ids:
        for card, size in claims.get(one, {}).items():
            left[card] -= size
    return all(size >= 0 for size in left.values())
