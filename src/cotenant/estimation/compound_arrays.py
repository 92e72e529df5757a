"""`compound_core` and `service_core` compiled where numba is installed, for the thousands of demands of a large
fleet."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import inf
from typing import Any

from cotenant.domain.step_time import Times
from cotenant.estimation.compound import COARSE, GRID, MANY, NORMAL_SKEW, SMOOTH, UNDERFLOW, expansion
from cotenant.estimation.in_flight import WIDTH, Cell, Mixture, Pairs, Parts, Quick, SequenceBytes
from cotenant.estimation.lengths import LengthModel
from cotenant.estimation.memo import IdentityCache
from cotenant.estimation.roofline import Roofline
from cotenant.estimation.sequence_limit import P999
from cotenant.estimation.service import MOST, Service, Steady
from cotenant.estimation.service_core import SINGLE
from cotenant.estimation.sizing import ReservedBytes
from cotenant.estimation.step_constants import INTERFERENCE, NORM

_POISSON_SUMS = 600  # means beyond are no sums (`compound.poisson_quantile`)
_LIMITS = (INTERFERENCE, MOST, float(_POISSON_SUMS))


@lru_cache(maxsize=1)
def compiled() -> Quick | None:
    """The core compiled and kept on disk; None without the `fast` extra."""
    try:
        from numba import njit
        from numba.extending import register_jitable
    except ImportError:
        return None
    from cotenant.estimation import compound_core, service_core

    for function in (*compound_core.USED, *service_core.USED):
        register_jitable(function)
    return OverArrays(
        njit(compound_core.sums_of_cells, cache=True, error_model="numpy"),
        njit(compound_core.total_and_mean, cache=True, error_model="numpy"),
        njit(service_core.steady_state, cache=True, error_model="numpy"),
    )


class OverArrays:
    """`in_flight.Quick` by the functions of `compound_core` and `service_core`, compiled or not."""

    def __init__(self, sums_of_cells: Any, total_and_mean: Any, steady_state: Any) -> None:
        self._cells, self._total, self._steady = sums_of_cells, total_and_mean, steady_state
        self._weights: IdentityCache[tuple[Any, Any]] = IdentityCache()
        self._sizes: IdentityCache[Any] = IdentityCache()
        self._roofs: IdentityCache[tuple[Any, Any]] = IdentityCache(4096)
        self._works: IdentityCache[tuple[Any, tuple[float, float, float]]] = IdentityCache()

    def steady(
        self, rate: float, inputs: LengthModel, outputs: LengthModel, held: Mixture, times: Times, share: float
    ) -> Steady | None:
        """As `in_flight.Quick` says."""
        if not isinstance(times, Roofline):
            return None
        prompts, work = self._works.get((inputs, outputs, held), 0, lambda: _work(inputs, outputs, held))
        roof, cache = self._roofs.get((times,), 0, lambda: _roof(times))
        in_service, context, prefill, spent, stall, most, doubted, ttft, tpot = self._steady(
            roof, cache, prompts, work, rate, (inputs.quantile(share), share, P999), _LIMITS
        )
        if not most:
            return None
        return Steady(Service(in_service, rate, context, prefill, spent, stall), most, ttft, tpot, doubted)

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


def _work(inputs: LengthModel, outputs: LengthModel, held: Mixture) -> tuple[Any, tuple[float, float, float]]:
    """What `service_core.steady_state` is told of the lengths."""
    import numpy as np

    return np.array(inputs.cells(), np.float64), (outputs.mean, held.mean_by_output, held.mean_by_input)


def _roof(times: Roofline) -> tuple[Any, Any]:
    """What it is told of the step times."""
    import numpy as np

    rows = [(layer.bytes_per_token, inf if layer.window is None else layer.window) for layer in times.cache]
    return (
        np.array([*(getattr(times, name) for name in SINGLE), NORM], np.float64),
        np.array(rows, np.float64).reshape(len(rows), 2),
    )


def _weights(held: Mixture) -> tuple[Any, Any]:
    import numpy as np

    return (
        np.array([one.by_input for one in held.held], np.float64),
        np.array([one.by_output for one in held.held], np.float64),
    )


def _sizes(held: Mixture, sequence_bytes: SequenceBytes) -> Any:
    import numpy as np

    lengths = [round(one.tokens) or 1 for one in held.held]
    if isinstance(sequence_bytes, ReservedBytes):
        return np.array(sequence_bytes.of_all(lengths), np.float64)
    return np.array(list(map(sequence_bytes, lengths)), np.float64)
