"""A plan that was read from a file, beside the fleet that it was made for: does it still stand?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace

from cotenant.domain.device import Device
from cotenant.domain.estimate import Estimate
from cotenant.domain.fleet import Fleet, ModelRequest
from cotenant.domain.plan import Plan, ReplicaPlan
from cotenant.errors import CotenantError, InputError, InputErrors
from cotenant.units import format_bytes

Fresh = Callable[[ModelRequest, ReplicaPlan], Estimate]


def adopted(plan: Plan, fleet: Fleet, beside_bytes: Mapping[str, int]) -> Plan:
    """The plan with each card's offer found in the fleet; `beside_bytes` by replica, as `ReplicaPlan` has it.

    Raises InputErrors for models and cards that the fleet does not have.
    """
    offers = {offer.gpu.name: number for number, offer in reversed(list(enumerate(fleet.gpus)))}
    names = {request.name for request in fleet.models}
    faults: list[CotenantError] = [
        InputError(
            f"the plan runs {replica.model!r}, which the fleet does not ask for", path=f"$.replicas[{number}]"
        )
        for number, replica in enumerate(plan.replicas)
        if replica.model not in names
    ]
    types = dict.fromkeys(device.type for replica in plan.replicas for device in replica.devices)
    faults += [
        InputError(f"the plan stands on {name}, which the fleet does not have", path="$.gpus")
        for name in types
        if name not in offers
    ]
    if faults:
        raise InputErrors(faults)
    replicas = tuple(
        replace(
            one,
            devices=tuple(_device(device, offers) for device in one.devices),
            beside_bytes=beside_bytes.get(one.id, one.beside_bytes),
        )
        for one in plan.replicas
    )
    gpus = tuple(replace(gpu, device=_device(gpu.device, offers)) for gpu in plan.gpus)
    return replace(plan, replicas=replicas, gpus=gpus)


def refuse_what_does_not_fit(plan: Plan, fleet: Fleet, fresh: Fresh) -> None:
    """Asks the estimator anew. Raises InputErrors with each replica and card that holds more than it can."""
    requests = {request.name: request for request in fleet.models}
    sleepers = {sleeper.share.replica for gpu in plan.gpus for sleeper in gpu.sleepers}
    claimed: dict[tuple[int, int], int] = defaultdict(int)
    faults: list[CotenantError] = []
    for replica in plan.replicas:
        estimate = fresh(requests[replica.model], replica)
        if not estimate.fits:
            faults.append(InputError(f"{replica.id} {estimate.verdict}: {estimate.reason}"))
        for rank, device in zip(estimate.per_gpu, replica.devices, strict=False):
            if replica.id not in sleepers:
                claimed[device.node, device.index] += rank.claimed_bytes
    for gpu in plan.gpus:
        short = claimed[gpu.device.node, gpu.device.index] - (gpu.capacity_bytes - gpu.used_bytes)
        if short > 0:
            where = gpu.device.label
            faults.append(InputError(f"the plan does not fit: {where} lacks {format_bytes(short)}"))
    if faults:
        raise InputErrors(faults)


def _device(device: Device, offers: Mapping[str, int]) -> Device:
    return replace(device, offer=offers[device.type])
