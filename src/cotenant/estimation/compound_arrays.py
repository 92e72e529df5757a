"""`compound_core` compiled where numba is installed, for the thousands of quantiles of a large fleet."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from cotenant.estimation.compound import Atoms, Search


@lru_cache(maxsize=1)
def compiled() -> Search | None:
    """A search for `compound.poisson_total`, compiled and kept on disk; None without the `fast` extra."""
    try:
        from numba import njit
        from numba.extending import register_jitable
    except ImportError:
        return None
    from cotenant.estimation import compound_core

    for function in compound_core.USED:
        register_jitable(function)
    return over_arrays(njit(compound_core.quantile_on_grids, cache=True, error_model="numpy"))


def over_arrays(core: Any) -> Search:
    """`core` (compiled or not) with its atoms given as pairs."""
    import numpy as np

    def search(mean_number: float, atoms: Atoms, target: float, bound: float, cells: tuple[int, int]) -> float:
        pairs = np.array(atoms, np.float64)
        return float(core(mean_number, pairs[:, 0].copy(), pairs[:, 1].copy(), target, bound, *cells))

    return search
