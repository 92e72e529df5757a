"""Each model planned as if it had the fleet to itself: where models that take turns on the same cards start."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from cotenant.domain.device import Device
from cotenant.domain.fleet import Fleet
from cotenant.domain.plan import GpuPlan, Plan
from cotenant.planning.solve import plan_fleet


def plan_apart(fleet: Fleet, *, progress: Callable[[str], None] = lambda _: None) -> Plan:
    """One plan with the replicas of all models, each sized and placed alone; they overlap on cards on purpose.

    It is no plan to deploy as it stands, and not checked as one. A model that fits nowhere makes it infeasible.
    """
    plans = [
        plan_fleet(replace(fleet, models=(replace(model, apart_from=()),)), progress=progress)
        for model in fleet.models
    ]
    cards: dict[Device, GpuPlan] = {}
    for gpu in (gpu for plan in plans for gpu in plan.gpus):
        known = cards.get(gpu.device)
        cards[gpu.device] = gpu if known is None else replace(known, shares=(*known.shares, *gpu.shares))
    return replace(
        plans[0],
        feasible=all(plan.feasible for plan in plans),
        replicas=tuple(replica for plan in plans for replica in plan.replicas),
        gpus=tuple(cards.values()),
        naive=None,
        shortfalls=tuple(short for plan in plans for short in plan.shortfalls),
        warnings=(),
        input_hash=fleet.input_hash,
    )
