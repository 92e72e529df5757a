"""`compound_core` compiled where numba is installed, for the thousands of demands of a large fleet."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from cotenant.estimation.compound import COARSE, GRID, MANY, NORMAL_SKEW, SMOOTH, UNDERFLOW, expansion
from cotenant.estimation.in_flight import WIDTH, Cell, Mixture, Pairs, Parts, Quick, SequenceBytes
from cotenant.estimation.memo import IdentityCache


@lru_cache(maxsize=1)
def compiled() -> Quick | None:
    """The core compiled and kept on disk; None without the `fast` extra."""
    try:
        from numba import njit
        from numba.extending import register_jitable
    except ImportError:
        return None
    from cotenant.estimation import compound_core

    for function in compound_core.USED:
        register_jitable(function)
    return OverArrays(
        njit(compound_core.sums_of_cells, cache=True, error_model="numpy"),
        njit(compound_core.total_and_mean, cache=True, error_model="numpy"),
    )


class OverArrays:
    """`in_flight.Quick` by the functions of `compound_core`, compiled or not."""

    def __init__(self, sums_of_cells: Any, total_and_mean: Any) -> None:
        self._cells, self._total = sums_of_cells, total_and_mean
        self._weights: IdentityCache[tuple[Any, Any]] = IdentityCache()
        self._sizes: IdentityCache[Any] = IdentityCache()

    def cells(self, prompts: Pairs, parts: Parts, limit: int) -> Sequence[Cell]:
        """As `in_flight.cells_of`."""
        import numpy as np

        rows = self._cells(np.array(prompts, np.float64), np.array(parts, np.float64), float(limit), WIDTH)
        return [(one[0], one[1], one[2], one[3]) for one in rows.tolist()]

    def needed(
        self,
        mean_number: float,
        held: Mixture,
        sequence_bytes: SequenceBytes,
        prefill_share: float,
        overflow: float,
    ) -> tuple[float, float] | None:
        """As `in_flight.Quick` says."""
        if mean_number > UNDERFLOW or len(held.held) == 1:
            return None
        return self._total(  # type: ignore[no-any-return]  # two floats
            mean_number, self._sizes.get((held,), sequence_bytes, lambda: _sizes(held, sequence_bytes)),
            *self._weights.get((held,), 0, lambda: _weights(held)), prefill_share, overflow,
            expansion(1 - overflow), (MANY, SMOOTH, NORMAL_SKEW), (COARSE, GRID),
        )  # fmt: skip


def _weights(held: Mixture) -> tuple[Any, Any]:
    import numpy as np

    return (
        np.array([one.by_input for one in held.held], np.float64),
        np.array([one.by_output for one in held.held], np.float64),
    )


def _sizes(held: Mixture, sequence_bytes: SequenceBytes) -> Any:
    import numpy as np

    return np.array([sequence_bytes(round(one.tokens) or 1) for one in held.held], np.float64)
