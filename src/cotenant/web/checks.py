"""A plan looked at again, as it stands or with a replica moved by hand: its bytes, what breaks, its files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cotenant.domain.fleet import Fleet
from cotenant.domain.plan import Plan
from cotenant.errors import InputError
from cotenant.web.documents import written


def checked_document(
    plan: Plan, fleet: Fleet, move: Mapping[str, Any] | None, *, asked: Mapping[str, Any]
) -> dict[str, Any]:
    """`cotenant/check/1`: `ok`, `breaks[]` (sentences), `gpus[]` and `replicas[]` as a plan has them, `plan` the
    plan itself. `move`: `replica` and `gpu`, a number in the plan's `gpus[]` or `{node, index, type}`.
    """
    from cotenant.catalogue import VERSION
    from cotenant.edge.known import known
    from cotenant.planning.check import find_faults
    from cotenant.planning.launch import reestimate
    from cotenant.planning.moved import moved, resettled, slower_there
    from cotenant.readers.input_hash import input_hash
    from cotenant.report.document import header, plan_document

    slower: tuple[str, ...] = ()
    with known():
        if move is None:
            after = resettled(plan, fleet)
        else:
            node, index, card = _card(plan, move["gpu"])
            after = moved(plan, fleet, move["replica"], node, index, card)
            (mover,) = (one for one in after.plan.replicas if one.id == move["replica"])
            slower = slower_there(fleet, mover)
        breaks = dict.fromkeys((*after.faults, *slower, *find_faults(after.plan, fleet, reestimate(fleet))))
    document = plan_document(after.plan, catalogue=VERSION)
    return {
        **header("check", catalogue=VERSION, input_hash=input_hash(asked)),
        "ok": not breaks,
        "breaks": list(breaks),
        "cost_per_hour": document["cost_per_hour"],
        "gpus": document["gpus"],
        "replicas": document["replicas"],
        "plan": document,
    }


def _card(plan: Plan, gpu: int | Mapping[str, Any]) -> tuple[int, int, str]:
    if isinstance(gpu, Mapping):
        return gpu["node"], gpu["index"], str(gpu.get("type") or "")
    if gpu >= len(plan.gpus):
        raise InputError(f"the plan has {len(plan.gpus)} cards, {gpu} is none of them", path="$.move.gpu")
    device = plan.gpus[gpu].device
    return device.node, device.index, device.type


def deployed(document: dict[str, Any], target: str) -> bytes:
    """Raises InputError for an unknown target or a file whose name would leave its folder."""
    from cotenant.catalogue import VERSION
    from cotenant.deployment.targets import export, find_target
    from cotenant.readers.plan_document import read_plan
    from cotenant.report.deployment_document import deployment_document

    find_target(target)
    found = export(read_plan(document), target)
    for one in found.files:
        parts = one.name.split("/")
        if "\\" in one.name or any(part in ("", ".", "..") for part in parts):
            raise InputError(f"{one.name[:80]!r} is no name inside a folder", path="$.plan")
    return written(deployment_document(found, catalogue=VERSION))
