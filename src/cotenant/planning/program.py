"""A mixed-integer program as rows and columns for HiGHS, stopped by work and never by the clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

MOST_NODES = 2_000


@dataclass(frozen=True, slots=True)
class Outcome:
    """`values` by column, none when no solution was found within the work limit; `bound` is valid below every
    solution; `optimal` within the tolerance asked."""

    values: tuple[float, ...]
    value: float
    bound: float
    optimal: bool


@dataclass(slots=True)
class Program:
    """Minimise costs over integer columns between `lower` and `upper`, rows between their bounds."""

    costs: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)
    rows: list[tuple[float, float, dict[int, float]]] = field(default_factory=list)

    def column(self, cost: float, upper: float) -> int:
        """A new integer column from 0 to `upper`; its number."""
        self.costs.append(cost)
        self.upper.append(upper)
        return len(self.costs) - 1

    def row(self, lower: float, upper: float, terms: Mapping[int, float]) -> None:
        """lower <= sum of terms <= upper."""
        self.rows.append((lower, upper, dict(terms)))

    def solve(
        self, *, start: Sequence[float] | None = None, absolute_gap: float = 1e-6, nodes: int = MOST_NODES
    ) -> Outcome | None:
        """The best within `nodes`; None when there is no solution."""
        import highspy
        import numpy as np

        highs = highspy.Highs()  # type: ignore[no-untyped-call]  # highspy ships no types
        for option, value in (
            ("output_flag", False), ("threads", 1), ("random_seed", 1), ("mip_rel_gap", 0.0),
            ("mip_abs_gap", absolute_gap), ("mip_max_nodes", nodes), ("mip_feasibility_tolerance", 1e-7),
        ):  # fmt: skip
            highs.setOptionValue(option, value)
        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = len(self.costs), len(self.rows)
        lp.col_cost_, lp.col_upper_ = np.array(self.costs, float), np.array(self.upper, float)
        lp.col_lower_ = np.zeros(len(self.costs))
        lp.row_lower_ = np.array([lower for lower, _, _ in self.rows], float)
        lp.row_upper_ = np.array([upper for _, upper, _ in self.rows], float)
        lp.integrality_ = [highspy.HighsVarType.kInteger] * len(self.costs)
        lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        lp.a_matrix_.start_ = np.cumsum([0, *(len(terms) for _, _, terms in self.rows)], dtype=np.int32)
        lp.a_matrix_.index_ = np.array([one for *_, terms in self.rows for one in terms], np.int32)
        lp.a_matrix_.value_ = np.array([one for *_, terms in self.rows for one in terms.values()], float)
        highs.passModel(lp)
        if start is not None:
            numbers = np.arange(len(start), dtype=np.int32)
            highs.setSolution(len(start), numbers, np.array(start, float))
        highs.run()
        info = highs.getInfo()
        if info.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
            infeasible = (highspy.HighsModelStatus.kInfeasible, highspy.HighsModelStatus.kUnboundedOrInfeasible)
            return None if highs.getModelStatus() in infeasible else Outcome((), inf, 0.0, optimal=False)
        optimal = highs.getModelStatus() == highspy.HighsModelStatus.kOptimal
        bound = info.mip_dual_bound if info.mip_dual_bound > -inf else 0.0
        values = tuple(round(each) for each in highs.getSolution().col_value)
        return Outcome(values, info.objective_function_value, bound, optimal)
