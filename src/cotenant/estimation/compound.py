"""The total of a random number of independent sizes, and its upper quantile.

Two questions, one answer each: `poisson_total` (the number is Poisson: requests in service at a random
moment) and `fixed_total` (the number is fixed: N always in flight). Both are deterministic plain Python.

Where the total is close to normal (skewness at most `NORMAL_SKEW` and no lattice to be seen) the
Cornish-Fisher expansion answers, within 0.5 % of the exact quantile for probabilities down to 0.1 %. Elsewhere
the distribution is computed on a grid of `GRID` cells below the quantile: sizes are shared between
neighbouring cells so that means hold exactly, and the answer is a cell's upper edge, so at most about one cell
(0.5 %) above the truth. Tests hold both to 1 % against simulation and against finer grids.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import islice
from math import ceil, exp, sqrt
from operator import mul
from typing import Any, NamedTuple, TypeVar

from cotenant.estimation.normal import normal_quantile

GRID = 192  # cells below the quantile
COARSE = 64  # cells of the first look
NORMAL_SKEW = 0.6
SMOOTH = 0.3  # number x squared variation of a size: above, sums of n and n + 1 sizes overlap
_SMOOTH_ATOMS = 16  # a fixed number of sizes from fewer values than this may have a lattice
UNDERFLOW = 500.0  # exp of minus this is still a normal number
MANY = 60  # this many sizes hide their lattice anyway: half a size is less than 0.7 % of the total

T = TypeVar("T")
Atoms = tuple[tuple[float, float], ...]  # (size, probability); probabilities sum to 1


@dataclass(frozen=True, slots=True)
class Moments:
    """Mean, variance, third and fourth central moments (cumulants) of a total."""

    mean: float
    variance: float
    third: float
    fourth: float

    @property
    def skewness(self) -> float:
        """Third cumulant over the 1.5th power of the variance."""
        return self.third / self.variance**1.5 if self.variance > 0 else 0.0

    @property
    def excess(self) -> float:
        """Fourth cumulant over the squared variance."""
        return self.fourth / (self.variance * self.variance) if self.variance > 0 else 0.0

    def bound(self, overflow: float) -> float:
        """Cantelli's inequality: whatever the distribution, its quantile lies below."""
        return self.mean + sqrt(self.variance * (1 - overflow) / overflow)

    def quantile(self, p: float) -> float:
        """Cornish and Fisher's expansion to the fourth cumulant."""
        z, square, cube, both = expansion(p)
        skew, excess = self.skewness, self.excess
        shifted = z + square * skew / 6 + cube * excess / 24 - both * skew * skew / 36
        return self.mean + sqrt(self.variance) * shifted


@lru_cache(maxsize=64)
def expansion(p: float) -> tuple[float, float, float, float]:
    """Cornish and Fisher's polynomials at the normal quantile z of `p`: z, z^2 - 1, z^3 - 3 z, 2 z^3 - 5 z."""
    z = normal_quantile(p)
    return z, z * z - 1, z**3 - 3 * z, 2 * z**3 - 5 * z


def poisson_total(mean_number: float, atoms: Atoms, overflow: float) -> float:
    """The size that the sum of Poisson(`mean_number`) sizes exceeds with probability at most `overflow`."""
    total = _poisson_moments(mean_number, atoms)
    if total.mean <= 0 or exp(-mean_number) >= 1 - overflow:
        return 0.0
    if len(atoms) == 1:
        return poisson_quantile(mean_number, 1 - overflow) * atoms[0][0]
    spread = mean_number * (mean_number * total.variance / (total.mean * total.mean) - 1)
    smooth = mean_number >= MANY or spread >= SMOOTH
    if smooth and total.skewness <= NORMAL_SKEW:
        return total.quantile(1 - overflow)
    return _on_finer_grids(total.bound(overflow), atoms, partial(_poisson, mean_number, 1 - overflow))


def _poisson_moments(mean_number: float, atoms: Atoms) -> Moments:
    """A compound Poisson's cumulants are its sizes' raw moments, times the mean number."""
    first = second = third = fourth = 0.0
    for size, probability in atoms:
        part = probability * size
        first += part
        part *= size
        second += part
        part *= size
        third += part
        fourth += part * size
    return Moments(mean_number * first, mean_number * second, mean_number * third, mean_number * fourth)


def fixed_total(number: int, atoms: Atoms, overflow: float) -> float:
    """The size that the sum of exactly `number` sizes exceeds with probability at most `overflow`."""
    if len(atoms) == 1 or number == 0:
        return number * atoms[0][0]
    largest = max(x for x, _ in atoms)
    if largest <= 0:
        return 0.0
    return largest * _fixed_share(number, tuple((x / largest, p) for x, p in atoms), overflow)


@lru_cache(maxsize=1024)
def _fixed_share(number: int, atoms: Atoms, overflow: float) -> float:
    """`fixed_total` in units of the largest size, so that one answer serves every width of a token."""
    mean = sum(p * x for x, p in atoms)
    second, third, fourth = (sum(p * (x - mean) ** k for x, p in atoms) for k in (2, 3, 4))
    total = Moments(number * mean, number * second, number * third, number * (fourth - 3 * second**2))
    if number > 1 and total.skewness <= NORMAL_SKEW and len(atoms) >= _SMOOTH_ATOMS:
        return min(float(number), total.quantile(1 - overflow))
    bound = min(float(number), total.bound(overflow))
    return min(float(number), _on_finer_grids(bound, atoms, partial(_power, number, 1 - overflow)))


def _on_finer_grids(bound: float, atoms: Atoms, find: Callable[[list[float], int], int]) -> float:
    """The quantile below `bound`: coarse looks until most cells lie below it, then one fine one."""
    cells = COARSE
    while True:
        step = bound / cells
        place = find(_on_grid(atoms, step, cells), cells)
        if cells == GRID:
            return step * place
        bound = min(bound, step * (place + 1))
        if place >= cells // 2:
            cells = GRID


def _on_grid(atoms: Atoms, step: float, cells: int) -> list[float]:
    """Probabilities on 0, step, ... cells x step; each size is shared by its two neighbours, keeping the mean.

    Larger sizes are left out: alone they put the total above the quantile.
    """
    grid = [0.0] * (cells + 2)
    for size, probability in atoms:
        place = size / step
        below = int(place)
        if below <= cells:
            grid[below + 1] += probability * (place - below)
            grid[below] += probability * (1 - place + below)
    return grid


def _poisson(mean_number: float, target: float, grid: list[float], cells: int) -> int:
    """The first cell where the compound Poisson's distribution function reaches `target`, at most `cells`.

    A sum of Poisson(m) sizes is a sum of 2^k sums of Poisson(m / 2^k): halved until exp(-m) does not underflow.
    """
    parts = 1
    while mean_number / parts > UNDERFLOW:
        parts *= 2
    probabilities = _panjer(mean_number / parts, grid)
    if parts == 1:
        return _reaches(target, islice(probabilities, cells + 1), cells)
    return _power(parts, target, list(islice(probabilities, cells + 1)), cells)


def _panjer(mean_number: float, grid: list[float]) -> Iterator[float]:
    """The compound Poisson's probabilities on cells 0, 1, ..., by Panjer's recursion: no further than asked.

    g(0) = exp(-m (1 - f(0))), g(n) = (m / n) sum over j of j f(j) g(n - j).
    """
    scaled = [mean_number * j * f for j, f in enumerate(grid)][1:]
    backward = [exp(-mean_number * (1 - grid[0]))]  # newest first
    while True:
        yield backward[0]
        backward.insert(0, sum(map(mul, scaled, backward)) / len(backward))


def _power(number: int, target: float, grid: list[float], cells: int) -> int:
    """The first cell where the `number`-fold convolution's distribution function reaches `target`."""
    return _reaches(target, _convolution_power(number, grid, cells + 1), cells)


def _reaches(target: float, probabilities: Iterable[float], cells: int) -> int:
    """The first cell up to which `probabilities` add up to `target`, at most `cells`."""
    reached = 0.0
    for place, value in enumerate(probabilities):
        reached += value
        if reached >= target - 1e-12:
            return place
    return cells


def _convolution_power(number: int, cells: list[float], limit: int) -> list[float]:
    """Square and multiply, keeping cells below `limit`.

    In numpy where somebody has loaded it already (a planner, a server), in a twentieth of the time, else in plain
    integers, so that one estimate need not load it. Both stay within 1e-12 of the truth, and what is asked of them
    is a cell's number.
    """
    numpy = sys.modules.get("numpy")
    if numpy is not None and hasattr(numpy, "convolve"):  # one that is being loaded has not all of it yet
        power = _power_of(numpy.array(cells[:limit]), number, partial(_convolved_arrays, numpy, limit))
        return list(map(float, power))
    base = cells[:limit]
    laid = _Laid(int.from_bytes(b"".join(map(_fixed, base)), "little"), len(base))
    return _power_of(laid, number, partial(_convolved, limit=limit)).cells()


def _power_of(power: T, number: int, product: Callable[[T, T], T]) -> T:
    """`power` to the `number`-th, at least 1."""
    result: T | None = None
    while True:
        if number & 1:
            result = power if result is None else product(result, power)
        number >>= 1
        if not number:
            return power if result is None else result
        power = product(power, power)


def _convolved_arrays(numpy: Any, limit: int, first: Any, second: Any) -> Any:
    return numpy.convolve(first, second)[:limit]


_POINT = 9  # bytes below the point
_SLOT = 2 * _POINT + 1  # bytes of a cell: a product has twice as many below its point, and is hardly above 1
_ONE = 1 << 8 * _POINT


class _Laid(NamedTuple):
    """`size` cells in one integer, the first one lowest: probabilities as fixed-point numbers of `_POINT` bytes.

    The product of two such integers holds the convolution (Kronecker's substitution), in a quarter of the time of
    sums cell by cell. Each product is rounded down by less than 2^-72.
    """

    packed: int
    size: int

    def cells(self) -> list[float]:
        """As floats again."""
        data = self.packed.to_bytes(_SLOT * self.size, "little")
        return [int.from_bytes(data[at : at + _SLOT], "little") / _ONE for at in range(0, len(data), _SLOT)]


def _fixed(probability: float) -> bytes:
    return int(probability * _ONE).to_bytes(_SLOT, "little")


def _convolved(first: _Laid, second: _Laid, limit: int) -> _Laid:
    """Their convolution below `limit`, its point moved back."""
    count = min(limit, first.size + second.size - 1)
    return _Laid((first.packed * second.packed >> 8 * _POINT) & _whole_parts(count), count)


@lru_cache(maxsize=512)
def _whole_parts(cells: int) -> int:
    """Ones where what lies above each cell's point moves to."""
    return int.from_bytes((b"\xff" * (_SLOT - _POINT) + bytes(_POINT)) * cells, "little")


def poisson_quantile(mean: float, p: float) -> int:
    """The smallest n with P(Poisson(mean) <= n) >= p; by Cornish-Fisher above 600 (exp would underflow)."""
    if mean > 600:
        return ceil(Moments(mean, mean, mean, mean).quantile(p))
    term = reached = exp(-mean)
    number = 0
    while reached < p and number < 2000:
        number += 1
        term *= mean / number
        reached += term
    return number
