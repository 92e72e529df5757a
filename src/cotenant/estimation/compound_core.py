"""`in_flight.cells_of` and `compound.poisson_total` over arrays, to be compiled where numba is installed: the same
steps in the same order.

`in_flight` and `compound` hold the plain versions and the meaning; a test holds both equal.
"""

from __future__ import annotations

from math import exp, log, sqrt
from typing import Any

import numpy as np

_TIE = 1e-12  # of a distribution function against its target


def sums_of_cells(prompts: Any, parts: Any, limit: float, width: float) -> Any:
    """A row of four sums for every cell that holds anything, the smallest first (`in_flight.cells_of`)."""
    sums = np.zeros((int(log(limit + 1) / width) + 1, 4), np.float64)
    for row in range(len(prompts)):
        for part in range(len(parts)):
            tokens = min(limit, prompts[row, 0] + parts[part, 0])
            weight = prompts[row, 1] * parts[part, 1]
            cell = int(log(tokens + 1) / width)
            sums[cell, 0] += weight * tokens
            sums[cell, 1] += weight
            sums[cell, 2] += weight * prompts[row, 0]
            sums[cell, 3] += weight * parts[part, 2]
    return sums[sums[:, 1] > 0]


def total_and_mean(
    mean_number: float, sizes: Any, by_input: Any, by_output: Any, share: float, overflow: float,
    normal: Any, limits: Any, cells: Any,
) -> tuple[float, float]:  # fmt: skip
    """(the quantile of a Poisson(`mean_number`) number of sizes, the mean size). `share` mixes the two weights,
    `normal` is `compound.expansion`, `limits` are MANY, SMOOTH and NORMAL_SKEW, `cells` those of the grids."""
    probabilities = share * by_input + (1 - share) * by_output
    first = second = third = fourth = 0.0
    for place in range(len(sizes)):
        part = probabilities[place] * sizes[place]
        first += part
        part *= sizes[place]
        second += part
        part *= sizes[place]
        third += part
        fourth += part * sizes[place]
    mean, variance = mean_number * first, mean_number * second
    if mean <= 0 or exp(-mean_number) >= 1 - overflow:
        return 0.0, first
    skewness = mean_number * third / variance**1.5
    spread = mean_number * (mean_number * variance / (mean * mean) - 1)
    if (mean_number >= limits[0] or spread >= limits[1]) and skewness <= limits[2]:
        excess = mean_number * fourth / (variance * variance)
        shifted = normal[0] + normal[1] * skewness / 6
        shifted = shifted + normal[2] * excess / 24 - normal[3] * skewness * skewness / 36
        return mean + sqrt(variance) * shifted, first
    bound = mean + sqrt(variance * (1 - overflow) / overflow)
    return quantile_on_grids(mean_number, sizes, probabilities, 1 - overflow, bound, cells[0], cells[1]), first


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


USED = (on_grid, first_reaching, quantile_on_grids)
"""What `total_and_mean` calls, to be compiled with it."""
