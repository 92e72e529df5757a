"""The quantile of a random total against closed forms, finer grids and simulation."""

import random
import sys
from math import exp, factorial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotenant.domain.workload import Lengths
from cotenant.estimation import compound
from cotenant.estimation.compound import fixed_total, poisson_quantile, poisson_total
from cotenant.estimation.lengths import length_model

WIDE = length_model(Lengths(600, 4000)).cells()
USUAL = length_model(Lengths(600, 1600)).cells()
NARROW = length_model(Lengths(600, 640)).cells()


@pytest.mark.parametrize("mean", [0.01, 0.3, 2.0, 17.5, 120.0, 590.0])
@pytest.mark.parametrize("p", [0.5, 0.95, 0.999])
def test_poisson_quantile_against_the_sum_of_its_terms(mean: float, p: float) -> None:
    number = poisson_quantile(mean, p)

    def cdf(n: int) -> float:
        term, total = exp(-mean), 0.0
        for k in range(n + 1):
            total += term
            term *= mean / (k + 1)
        return total

    assert cdf(number) >= p
    assert number == 0 or cdf(number - 1) < p


def test_poisson_quantile_is_smooth_where_the_method_changes() -> None:
    assert abs(poisson_quantile(601, 0.999) - poisson_quantile(599, 0.999)) <= 4
    assert poisson_quantile(2, 0.999) == 8  # P(N <= 8) = 0.99976, P(N <= 7) = 0.99890


def test_constant_sizes_in_closed_form() -> None:
    assert fixed_total(8, ((1000.0, 1.0),), 0.01) == 8000
    assert poisson_total(2.0, ((1000.0, 1.0),), 0.001) == 8000
    assert fixed_total(0, WIDE, 0.01) == 0


def test_hardly_ever_in_use_needs_nothing() -> None:
    assert poisson_total(0.005, USUAL, 0.01) == 0  # P(none) = 99.5 %
    assert poisson_total(0.02, USUAL, 0.01) > 0


def test_two_values_against_the_binomial() -> None:
    sizes = ((0.0, 0.5), (1.0, 0.5))
    tail = sum(factorial(10) / factorial(k) / factorial(10 - k) for k in (9, 10)) / 2**10
    assert fixed_total(10, sizes, tail * 2) == pytest.approx(8, abs=0.1)
    assert fixed_total(10, sizes, tail * 0.5) == pytest.approx(9, abs=0.1)


def _finer(monkeypatch: pytest.MonkeyPatch, cells: int) -> None:
    monkeypatch.setattr(compound, "GRID", cells)
    monkeypatch.setattr(compound, "_fixed_share", compound._fixed_share.__wrapped__)
    monkeypatch.setattr(compound, "NORMAL_SKEW", -1e9)


@pytest.mark.parametrize("overflow", [0.05, 0.01, 0.001])
@pytest.mark.parametrize("sizes", [WIDE, USUAL, NARROW], ids=["wide", "usual", "narrow"])
@pytest.mark.parametrize("mean", [0.3, 3.0, 12.0, 45.0, 90.0])
def test_within_one_percent_of_a_fine_grid(
    monkeypatch: pytest.MonkeyPatch, mean: float, sizes: tuple[tuple[float, float], ...], overflow: float
) -> None:
    found = poisson_total(mean, sizes, overflow)
    _finer(monkeypatch, 900)
    exact = poisson_total(mean, sizes, overflow)
    assert found == pytest.approx(exact, rel=0.01, abs=600 if exact == 0 else 0)


@pytest.mark.parametrize("sizes", [WIDE, USUAL, NARROW], ids=["wide", "usual", "narrow"])
@pytest.mark.parametrize("number", [1, 2, 5, 24])
def test_fixed_number_within_one_percent_of_a_fine_grid(
    monkeypatch: pytest.MonkeyPatch, number: int, sizes: tuple[tuple[float, float], ...]
) -> None:
    found = fixed_total(number, sizes, 0.01)
    _finer(monkeypatch, 500)
    assert found == pytest.approx(fixed_total(number, sizes, 0.01), rel=0.01)


@pytest.mark.parametrize("mean", [1.5, 20.0])
def test_simulation_overflows_as_often_as_asked(mean: float) -> None:
    """Drawn from the log-normal itself, not from our cells: 1 % of totals exceed the quantile."""
    draw = random.Random(7)
    size = length_model(Lengths(600, 1600))
    limit = poisson_total(mean, size.cells(), 0.01)
    runs = 40_000 if mean < 5 else 15_000
    over = 0
    for _ in range(runs):
        number, product, floor = 0, draw.random(), exp(-mean)
        while product > floor:
            number, product = number + 1, product * draw.random()
        over += sum(size.quantile(0.5) * exp(size.sigma * draw.gauss(0, 1)) for _ in range(number)) > limit
    assert over / runs == pytest.approx(0.01, abs=4 * (0.01 * 0.99 / runs) ** 0.5)  # four standard errors


@settings(max_examples=40, deadline=None)
@given(st.floats(0.05, 300), st.floats(1.01, 3), st.floats(0.001, 0.2))
def test_more_in_service_or_a_rarer_overflow_never_needs_less(mean: float, factor: float, overflow: float) -> None:
    base = poisson_total(mean, USUAL, overflow)
    slack = 1 - 0.012  # both are within about half a percent
    assert poisson_total(mean * factor, USUAL, overflow) >= base * slack
    assert poisson_total(mean, USUAL, overflow / factor) >= base * slack


def test_many_heavy_sizes_do_not_underflow() -> None:
    """A thousand in service with a heavy tail: exp(-1000) is nothing, the answer is not."""
    sizes = length_model(Lengths(100, 3000)).cells()
    mean = sum(p * x for x, p in sizes)
    found = poisson_total(1000.0, sizes, 0.01)
    assert mean * 1000 < found < mean * 1000 * 2
    assert found == pytest.approx(2 * poisson_total(499.0, sizes, 0.01), rel=0.2)


def test_absurdly_wide_sizes_still_end() -> None:
    absurd = length_model(Lengths(1, 10_000_000)).cells()
    assert 0 < poisson_total(3.0, absurd, 0.01) < 1e12
    assert 0 < fixed_total(3, absurd, 0.01) < 1e12


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 300),
    st.lists(st.tuples(st.floats(0.01, 1), st.floats(0.001, 1)), min_size=2, max_size=20),
    st.sampled_from([0.1, 0.01, 0.001]),
)
def test_numpy_finds_the_same_cell(number: int, pairs: list[tuple[float, float]], overflow: float) -> None:
    """An answer does not depend on who has loaded what."""
    pytest.importorskip("numpy")
    whole = sum(p for _, p in pairs)
    atoms = tuple((x, p / whole) for x, p in pairs)

    def answer() -> float:
        compound._fixed_share.cache_clear()
        return fixed_total(number, atoms, overflow)

    with_numpy = answer()
    with pytest.MonkeyPatch.context() as patch:
        patch.delitem(sys.modules, "numpy")
        assert answer() == with_numpy
