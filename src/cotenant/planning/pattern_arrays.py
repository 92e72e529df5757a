"""The compiled search of `pattern_core`: one site as arrays, and the core itself where numba is installed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cotenant.planning.patterns import Chosen, Places


@lru_cache(maxsize=1)
def compiled() -> Any:
    """`pattern_core.search`, compiled and kept on disk; None without the `fast` extra."""
    try:
        from numba import njit
        from numba.extending import register_jitable
    except ImportError:
        return None
    from cotenant.planning import loading, pattern_core, pattern_times

    for function in (*pattern_core.USED, loading.may_join, pattern_times.time_cell):
        register_jitable(function)
    return njit(pattern_core.search, cache=True, error_model="numpy")


class PatternArrays:
    """What one site offers, as the core reads it: groups (models), their places (seats), their options."""

    def __init__(self, places: Mapping[int, Sequence[Places]], against: Mapping[int, int], models: int) -> None:
        import numpy as np

        everyone = (1 << models) - 1
        numbers = {request: number for number, request in enumerate(places)}
        group, option, apart = [0], [0], [0]
        seats: list[int] = []
        claims: list[int] = []
        options: list[tuple[int, float, float, int, int, int]] = []
        others: list[int] = []
        alone = [bool(models > 1 and against[request] == everyone) for request in places]
        for request, mine in places.items():
            for seat, claim, each in mine:
                seats.append(seat)
                claims.append(claim)
                options += each
                option.append(len(options))
            group.append(len(seats))
            if not alone[numbers[request]]:
                others += [numbers[one] for one in _bits(against[request] & ~(1 << request)) if one in numbers]
            apart.append(len(others))
        whole = np.int64
        self._given = (
            np.array(group, whole), np.array(seats, whole), np.array(claims, whole), np.array(option, whole),
            np.array([each[0] for each in options], whole), np.array([each[1] for each in options], np.float64),
            np.array([each[2] for each in options], np.float64), np.array([each[3] for each in options], whole),
            np.array([each[4] for each in options], whole), np.array(apart, whole), np.array(others, whole),
            np.array(alone, np.bool_),
        )  # fmt: skip
        self._seats, self._options = seats, [each[5] for each in options]

    def search(
        self,
        core: Any,
        values: Sequence[float],
        *,
        least: float,
        room: int,
        load: int,
        unit: int,
        floor: float,
        limit: int,
        every: bool,
        tight: bool,
        minds: bool,
        most: int,
    ) -> tuple[list[Chosen], float, int, bool]:
        """(what `PatternSearch` would choose, most, nodes, complete)."""  # fmt: skip
        import numpy as np

        places, options, ends, most, nodes, complete = core(
            *self._given,
            np.asarray(values, np.float64),
            least,
            room,
            load,
            unit,
            floor,
            limit,
            every,
            tight,
            minds,
            most,
        )
        seats = [(self._seats[one], self._options[other]) for one, other in zip(places, options, strict=True)]
        chosen, start = [], 0
        for end in ends.tolist():
            chosen.append(tuple(seats[start:end]))
            start = end
        return chosen, float(most), int(nodes), bool(complete)


def _bits(mask: int) -> list[int]:
    found = []
    while mask:
        found.append((mask & -mask).bit_length() - 1)
        mask &= mask - 1
    return found
