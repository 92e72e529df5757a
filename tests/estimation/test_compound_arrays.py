"""Quantiles over arrays, compiled or not, against those in plain Python."""

from math import log

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotenant.estimation import compound_core
from cotenant.estimation.compound import Search, poisson_total
from cotenant.estimation.compound_arrays import compiled, over_arrays
from cotenant.estimation.lengths import LogNormalLength


@st.composite
def questions(draw: st.DrawFn) -> tuple[float, tuple[tuple[float, float], ...], float]:
    """(mean number, sizes with their probabilities, overflow)."""
    mean = draw(st.floats(0.01, 600.0))
    if draw(st.booleans()):
        atoms = LogNormalLength(log(draw(st.integers(10, 9000))), draw(st.floats(0.05, 1.5)), 32768.0).cells()
    else:
        sizes = draw(st.lists(st.integers(0, 40), min_size=2, max_size=9))
        atoms = tuple((16.0 * size, 1 / len(sizes)) for size in sizes)
    return mean, atoms, draw(st.sampled_from((0.05, 0.01, 0.001)))


def _agree(search: Search, question: tuple[float, tuple[tuple[float, float], ...], float]) -> None:
    mean, atoms, overflow = question
    plain = poisson_total(mean, atoms, overflow)
    assert poisson_total(mean, atoms, overflow, search) == pytest.approx(plain, rel=1e-9)


@given(questions())
@settings(max_examples=25, deadline=None)
def test_over_arrays_as_in_plain_python(question: tuple[float, tuple[tuple[float, float], ...], float]) -> None:
    _agree(over_arrays(compound_core.quantile_on_grids), question)


@given(questions())
@settings(max_examples=300, deadline=None)
def test_compiled_as_in_plain_python(question: tuple[float, tuple[tuple[float, float], ...], float]) -> None:
    search = compiled()
    if search is None:
        pytest.skip("numba is not installed")
    _agree(search, question)
