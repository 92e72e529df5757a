"""From a fleet to a checked plan: search, reasons, assembly, check."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from cotenant.domain.fleet import Fleet
from cotenant.domain.plan import Naive, Plan, Shortfall
from cotenant.planning.assembly import assemble
from cotenant.planning.check import check_plan
from cotenant.planning.folds_check import check_folds
from cotenant.planning.launch import command_of, reestimate, settle_of
from cotenant.planning.naive import usual_sizing
from cotenant.planning.nearest import shortfalls_of
from cotenant.planning.neighbours import crowded_of
from cotenant.planning.sleeping import solve_fleet
from cotenant.planning.solved import Progress, Solved, forced_of, is_feasible
from cotenant.planning.warnings import strained_of, warnings_of
from cotenant.planning.why import Forced, reasons_of, told_of_folds
from cotenant.planning.wishes import shadow_prices, smallest_sets

SPARE = "spare"  # stands in a shortfall where a model's name would


def plan_fleet(
    fleet: Fleet, *, priced: bool = False, fold: bool = True, progress: Progress = lambda _: None
) -> Plan:
    """The cheapest plan of the declared space, checked; where nothing fits, the nearest with its shortfalls.

    Without `fold`, models of one base stay processes of their own whatever that costs.
    """
    progress("sizing candidates")
    solved = solve_fleet(fleet, fold=fold, progress=progress)
    return plan_solved(solved, priced=priced, progress=progress)


def plan_solved(solved: Solved, *, priced: bool = False, progress: Progress = lambda _: None) -> Plan:
    """What the search found, with reasons; for models without a place, what they lack and what would help.

    With `priced`, what each wish costs as well: a plan for each.
    """
    progress("writing down the reasons")
    if solved.lacks_spare:
        short = Shortfall(
            SPARE, 0, f"no {solved.fleet.spare} of each type in use can stay empty", ("spare: none",)
        )
        return written(solved, (short,))
    if solved.feasible:
        plan = written(solved, forced=forced_of(solved))
        plan = replace(plan, warnings=(*plan.warnings, *crowded_of(solved)))
        return replace(plan, relaxations=shadow_prices(solved, progress=progress)) if priced else plan
    shortfalls = shortfalls_of(solved.fleet, solved, is_feasible, progress)
    return replace(written(solved, shortfalls), relaxations=smallest_sets(solved.fleet, progress=progress))


def _usual(solved: Solved, cards: int, cost: float | None) -> Naive | None:
    """What the usual sizing takes; nothing to compare with where models have no place, or on slices of cards."""
    fleet = solved.asked or solved.fleet
    if not solved.feasible or any(offer.is_cut for offer in fleet.gpus):
        return None
    return usual_sizing(fleet, cards=cards, cost_per_hour=cost)


def written(
    solved: Solved,
    shortfalls: tuple[Shortfall, ...] = (),
    forced: Forced | None = None,
    nodes: Mapping[int, int] | None = None,
    ports: Mapping[str, int] | None = None,
) -> Plan:
    """A placement as a checked plan. `forced` says what other choices would have meant (None: by their bytes),
    `nodes` what the problem's nodes are called (None: the pool's keep their numbers, hired ones follow), `ports`
    where each replica listens (None: as they come).
    """
    fleet, problem, placement = solved.fleet, solved.problem, solved.placement
    reasons = told_of_folds(solved, reasons_of(fleet, problem, placement, solved.ways, forced))
    replicas, gpus = assemble(
        fleet, problem, placement, command_of(fleet), reasons, settle_of(fleet), nodes, ports
    )
    priced = any(offer.price_per_hour is not None for offer in fleet.gpus)
    cost = sum(gpu.price_per_hour or 0.0 for gpu in gpus) if priced else None
    plan = Plan(
        feasible=solved.feasible,
        replicas=replicas,
        gpus=gpus,
        cost_per_hour=cost,
        objective_value=placement.objective_value,
        lower_bound=placement.lower_bound,
        gap=placement.gap,
        deterministic=True,
        headroom=fleet.headroom,
        naive=_usual(solved, len(gpus), cost),
        shortfalls=shortfalls,
        warnings=warnings_of(solved),
        strained=strained_of(solved),
        turns=placement.turns,
        input_hash=fleet.input_hash,
        fleet=fleet.source,
    )
    check_plan(plan, fleet, reestimate(fleet))
    if solved.asked is not None:
        check_folds(plan, solved.asked, fleet)
    return plan
