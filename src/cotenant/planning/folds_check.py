"""The check of what was folded, against the fleet as it was asked: nobody is lost, nothing mixed that differs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from math import isclose

from cotenant.domain.fleet import Fleet, ModelRequest
from cotenant.domain.plan import Plan, ReplicaPlan
from cotenant.errors import CheckError


def check_folds(plan: Plan, asked: Fleet, planned: Fleet) -> None:
    """Raise CheckError where a folded model lost its name, weights, adapters, rate or SLO; silent else."""
    faults = tuple(fold_faults(plan, asked, planned))
    if faults:
        raise CheckError(
            "the plan failed its check: " + "; ".join(faults), hint="this is a fault of Cotenant: report it"
        )


def fold_faults(plan: Plan, asked: Fleet, planned: Fleet) -> Iterator[str]:
    """Each broken rule as a sentence. `asked`: the file's fleet, `planned`: the one whose models are processes."""
    requests = {one.name: one for one in asked.models}
    names = Counter(name for one in planned.models for name in (one.name, *one.also_serves))
    for name in requests.keys() | names.keys():
        if names[name] != 1 or name not in requests:
            yield f"{name} is served by {names[name]} processes' names"
    for host in planned.models:
        members = [requests[name] for name in (host.name, *host.also_serves) if name in requests]
        if host.also_serves:
            yield from _together(host, members)
    also = {one.name: set(one.also_serves) for one in planned.models}
    for replica in plan.replicas:
        if set(replica.also_serves) != also.get(replica.model, set()):
            yield f"{replica.id} does not say whom it serves"
        yield from _told(replica)


def _together(host: ModelRequest, members: list[ModelRequest]) -> Iterator[str]:
    for one in members:
        if (one.model_id, one.model, one.engine, one.formats) != (
            host.model_id, host.model, host.engine, host.formats,
        ):  # fmt: skip
            yield f"{host.name} serves {one.name}, which loads something else"
        if not {each.name for each in one.adapters} <= {each.name for each in host.adapters}:
            yield f"{host.name} lacks adapters of {one.name}"
        if {other.name for other in members} & set(one.apart_from):
            yield f"{host.name} serves {one.name}, which must be apart"
        for key in ("ttft_s", "tpot_s"):
            wish = getattr(one.slo, key, None)
            kept = getattr(host.slo, key, None)
            if wish is not None and (kept is None or kept > wish):
                yield f"{host.name} does not hold the SLO of {one.name}"
    for key in ("requests_per_second", "concurrent"):
        total = sum(getattr(one.traffic, key) or 0 for one in members)
        if not isclose(total, getattr(host.traffic, key) or 0, rel_tol=1e-9):
            yield f"{host.name} is sized for another {key} than its models have together"


def _told(replica: ReplicaPlan) -> Iterator[str]:
    """Its command names them all."""
    missing = [name for name in replica.also_serves if name not in replica.command]
    if missing:
        yield f"the command of {replica.id} does not name {', '.join(missing)}"
