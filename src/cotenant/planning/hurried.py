"""The best plan where time runs out before the optimum: the greedy one, above the floor that memory gives."""

from __future__ import annotations

from dataclasses import replace

from cotenant.domain.fleet import Fleet
from cotenant.domain.plan import Plan
from cotenant.errors import SolverError
from cotenant.planning.candidates import all_ways
from cotenant.planning.compare import greedy_plan
from cotenant.planning.resource_bound import resource_bound
from cotenant.planning.solved import Progress, problem_of


def hurried_plan(fleet: Fleet, progress: Progress = lambda _: None) -> Plan:
    """A checked plan in about the time that sizing the candidates takes. Raises SolverError where the fleet asks
    for a spare, which takes a search."""
    if fleet.spare != "none":
        raise SolverError("a spare takes a search: there was no time for one", hint="allow more time")
    progress("no time left: placing greedily")
    plan = greedy_plan(fleet, progress)
    problem = problem_of(fleet, [each.candidates for each in all_ways(fleet)])
    bound = resource_bound(problem) if plan.feasible else 0.0
    value = plan.objective_value
    gap = (value - bound) / value if plan.feasible and value > 0 else None
    return replace(plan, lower_bound=bound, gap=gap, deterministic=False)
