"""`compound.poisson_total` over arrays, to be compiled where numba is installed: the same steps in the same order.

`compound` holds the plain version and the meaning; a test holds both equal.
"""

from __future__ import annotations

from typing import Any

import numpy as np

_TIE = 1e-12  # of a distribution function against its target


def quantile_on_grids(
    mean_number: float, sizes: Any, probabilities: Any, target: float, bound: float, coarse: int, fine: int
) -> float:
    """The quantile below `bound` of a Poisson(`mean_number`) number of sizes: coarse looks, then a fine one.

    `mean_number` is small enough for exp(-mean_number) to be a normal number.
    """
    cells = coarse
    while True:
        step = bound / cells
        place = first_reaching(mean_number, on_grid(sizes, probabilities, step, cells), target, cells)
        if cells == fine:
            return step * place
        bound = min(bound, step * (place + 1))
        if place >= cells // 2:
            cells = fine


def on_grid(sizes: Any, probabilities: Any, step: float, cells: int) -> Any:
    """Probabilities on 0, step, ... cells x step; each size is shared by its two neighbours, keeping the mean."""
    grid = np.zeros(cells + 2, np.float64)
    for number in range(len(sizes)):
        place = sizes[number] / step
        below = int(place)
        if below <= cells:
            grid[below + 1] += probabilities[number] * (place - below)
            grid[below] += probabilities[number] * (1 - place + below)
    return grid


def first_reaching(mean_number: float, grid: Any, target: float, cells: int) -> int:
    """The first cell where the compound Poisson's distribution function reaches `target`, by Panjer."""
    found = np.zeros(cells + 1, np.float64)
    found[0] = np.exp(-mean_number * (1 - grid[0]))
    scaled = np.zeros(cells + 2, np.float64)
    for cell in range(cells + 2):
        scaled[cell] = mean_number * cell * grid[cell]
    reached = 0.0
    for place in range(cells + 1):
        if place:
            total = 0.0
            for back in range(1, place + 1):
                total += scaled[back] * found[place - back]
            found[place] = total / place
        reached += found[place]
        if reached >= target - _TIE:
            return place
    return cells


USED = (on_grid, first_reaching)
"""What `quantile_on_grids` calls, to be compiled with it."""
