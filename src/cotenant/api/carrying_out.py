"""A plan carried out: as files that start it, and measured on its live engines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from cotenant.api.planning import plan as make_plan
from cotenant.api.sources import Progress, load_fleet, silent

if TYPE_CHECKING:
    from os import PathLike

    from cotenant.api.sources import FleetSource, PlanSource
    from cotenant.domain.deployment import Deployment
    from cotenant.domain.fleet import ModelRequest
    from cotenant.domain.plan import Plan
    from cotenant.domain.verification import Verification


def deploy(
    source: PlanSource, *, to: str, listen: str = "127.0.0.1", progress: Progress | None = None
) -> Deployment:
    """A plan as files that start it on the target `to`: ``compose``, ``kubernetes``, ``systemd`` and their kin.
    `listen`: the address of its machine on which an engine answers.

    `source` is a plan, its JSON (a path, a mapping, or ``-`` for standard input), or a fleet, which is planned
    first. Every command is rendered anew from the plan's typed fields. Raises InputError for an unknown target,
    UnsupportedError where the target cannot hold the plan.
    """
    from cotenant.deployment.targets import export, find_target
    from cotenant.domain.fleet import Fleet
    from cotenant.edge.plans import given_plan

    find_target(to)
    found = None if isinstance(source, Fleet) else given_plan(source)
    if found is None:
        found = make_plan(source, progress=progress)  # type: ignore[arg-type] # what is no plan is a fleet
    return export(found, to, listen=listen)


def verify(
    plan: PlanSource,
    *,
    urls: Mapping[str, str] | None = None,
    logs: Mapping[str, str | PathLike[str]] | None = None,
    pids: Mapping[str, int | str] | None = None,
    fleet: FleetSource | None = None,
    quick: bool = False,
    max_kv: str = "90%",
    max_errors: int = 2,
    max_tokens: int | None = None,
    max_concurrency: int | None = None,
    rounds: int = 1,
    seed: int = 0,
    traffic: str | None = None,
    key_env: str | None = None,
    metrics: str = "auto",
    watch: str | None = None,
    every: str = "10s",
    state: str | PathLike[str] | None = None,
    fresh: bool = False,
    calibration: bool = True,
    progress: Progress | None = None,
) -> Verification:
    """A plan measured on its live engines: predicted beside measured, a verdict a line of the checklist.

    `plan` is a plan, its JSON, or a fleet, which is planned first. Engines run already at `urls` (by replica or
    model), with their `logs` and `pids` where these are at hand and a key in the environment's `key_env`; the
    others are started here and stopped again. Load comes from the plan's own traffic (`fleet`, where the plan does
    not hold it), drawn from `seed`, up to the plan's limits, then as it comes for `traffic` (``60s``). A pool
    fuller than `max_kv` ends the steps of its replica, more than `max_errors` failed requests in a step the whole.
    What was done is kept in `state`, so that a run that broke off goes on (unless `fresh`). With `calibration`
    what was measured is kept for later estimates. Raises InputError for a plan for other hardware, an engine that
    is missing; EngineError for one that does not come up.
    """
    from cotenant.edge.verifying.asked import asked_from
    from cotenant.edge.verifying.run import verify_plan

    tell = progress or silent
    asked = asked_from(
        urls=urls, logs=logs, pids=pids, quick=quick, max_kv=max_kv, max_errors=max_errors, max_tokens=max_tokens,
        max_concurrency=max_concurrency, rounds=rounds, seed=seed, metrics=metrics, watch=watch, every=every,
        state=state, fresh=fresh, calibration=calibration, traffic=traffic, key_env=key_env,
    )  # fmt: skip
    found, requests, unknown = plan_and_requests(plan, fleet, tell)
    verified = verify_plan(found, requests, asked, progress=tell)
    if not unknown:
        return verified
    words = f"the plan's limits stood in for its traffic: {unknown}"
    return replace(verified, warnings=(*verified.warnings, words))


def plan_and_requests(
    source: PlanSource, fleet: FleetSource | None, tell: Progress
) -> tuple[Plan, tuple[ModelRequest, ...], str]:
    """A plan, read or made, and the requests of its fleet as it serves them: models as one that it runs as one.

    `fleet` stands before the fleet that the plan's document holds. Where that one cannot be opened here the third
    value says why, and its limits are enough. Raises InputError for a fleet that the plan is not of.
    """
    from cotenant.edge.plans import given_plan, plan_and_wishes
    from cotenant.planning.folding import folded_as

    if fleet is None:
        both = plan_and_wishes(source)
        if both is not None:
            return both
    found = None if fleet is None else given_plan(source)
    if found is None:
        fleet = fleet or source  # type: ignore[assignment] # what is no plan is a fleet
        found = make_plan(fleet, progress=tell)  # type: ignore[arg-type]
    return found, folded_as(load_fleet(fleet), found).models if fleet is not None else (), ""
