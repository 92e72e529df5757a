"""Sums over arrays, compiled or not, against those in plain Python."""

from math import log

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotenant.estimation import compound_core, service_core
from cotenant.estimation.compound import poisson_total
from cotenant.estimation.compound_arrays import OverArrays, compiled
from cotenant.estimation.in_flight import Held, Mixture, Quick, cells_of
from cotenant.estimation.lengths import LogNormalLength

IN_PYTHON = OverArrays(compound_core.sums_of_cells, compound_core.total_and_mean, service_core.steady_state)
Question = tuple[float, Mixture, float, float]


@st.composite
def questions(draw: st.DrawFn) -> Question:
    """(mean number, mixture, share of service that is prefill, overflow)."""
    mean = draw(st.floats(0.01, 600.0))
    if draw(st.booleans()):
        cells = LogNormalLength(log(draw(st.integers(10, 9000))), draw(st.floats(0.05, 1.5)), 32768.0).cells()
    else:
        sizes = draw(st.lists(st.integers(0, 40), min_size=2, max_size=9))
        cells = tuple((16.0 * size, 1 / len(sizes)) for size in sizes)
    backwards = [p for _, p in reversed(cells)]
    held = Mixture.of(tuple(Held(tokens, p, q) for (tokens, p), q in zip(cells, backwards, strict=True)))
    return mean, held, draw(st.floats(0, 1)), draw(st.sampled_from((0.05, 0.01, 0.001)))


def _bytes(tokens: int) -> int:
    return -(-tokens // 16) * 7


def _agree(quick: Quick, question: Question) -> None:
    mean, held, share, overflow = question
    found = quick.needed(mean, held, _bytes, share, overflow)
    if found is None:
        assert mean > 500 or len(held.held) == 1
        return
    atoms = held.sizes(share, _bytes)
    plain = poisson_total(mean, atoms, overflow), sum(size * p for size, p in atoms)
    assert found == pytest.approx(plain, rel=1e-12)


@given(questions())
@settings(max_examples=25, deadline=None)
def test_over_arrays_as_in_plain_python(question: Question) -> None:
    _agree(IN_PYTHON, question)


@given(questions())
@settings(max_examples=300, deadline=None)
def test_compiled_as_in_plain_python(question: Question) -> None:
    _agree(_compiled(), question)


def _compiled() -> Quick:
    quick = compiled()
    if quick is None:
        pytest.skip("numba is not installed")
    return quick


@st.composite
def lengths(draw: st.DrawFn) -> tuple[tuple[float, float], ...]:
    """Cells of a length."""
    return LogNormalLength(log(draw(st.integers(1, 9000))), draw(st.floats(0.05, 1.5)), 32768.0).cells()


@given(lengths(), lengths(), st.integers(64, 65536))
@settings(max_examples=100, deadline=None)
def test_cells_bit_for_bit(
    prompts: tuple[tuple[float, float], ...], outputs: tuple[tuple[float, float], ...], limit: int
) -> None:
    parts = [(length * share, p / 3, length) for length, p in outputs for share in (0.1, 0.5, 0.9)]
    assert list(_compiled().cells(prompts, parts, limit)) == list(cells_of(prompts, parts, limit))


@given(lengths(), lengths(), st.integers(64, 65536))
@settings(max_examples=5, deadline=None)
def test_cells_over_arrays(
    prompts: tuple[tuple[float, float], ...], outputs: tuple[tuple[float, float], ...], limit: int
) -> None:
    parts = [(length * share, p / 3, length) for length, p in outputs for share in (0.1, 0.9)]
    assert list(IN_PYTHON.cells(prompts, parts, limit)) == list(cells_of(prompts, parts, limit))
