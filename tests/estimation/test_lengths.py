from math import exp, inf, sqrt
from statistics import NormalDist

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.domain.workload import Lengths
from cotenant.errors import InputError
from cotenant.estimation.lengths import ConstantLength, LogNormalLength, length_model
from cotenant.estimation.normal import Z95, normal_cdf, normal_quantile

two_points = st.tuples(st.integers(1, 5000), st.floats(1.01, 30)).map(lambda t: (t[0], int(t[0] * t[1]) + 1))


@given(st.floats(1e-9, 1 - 1e-9))
def test_normal_quantile_is_the_inverse_of_the_cdf(p: float) -> None:
    assert normal_quantile(p) == pytest.approx(NormalDist().inv_cdf(p), abs=1e-7)
    assert normal_cdf(normal_quantile(p)) == pytest.approx(p, rel=1e-8)


def test_known_quantiles() -> None:
    assert normal_quantile(0.95) == pytest.approx(Z95, abs=1e-12)
    assert normal_quantile(0.999) == pytest.approx(3.090232306167813, abs=1e-10)
    assert normal_quantile(0.5) == 0


@given(two_points)
def test_both_percentiles_are_honoured(points: tuple[int, int]) -> None:
    p50, p95 = points
    model = length_model(Lengths(p50, p95))
    assert model.quantile(0.5) == pytest.approx(p50, rel=1e-9)
    assert model.quantile(0.95) == pytest.approx(p95, rel=1e-9)
    assert model.share_above(p95) == pytest.approx(0.05, abs=1e-9)


@given(two_points, st.floats(0.2, 40))
def test_cells_keep_probability_and_the_mean(points: tuple[int, int], cap: float) -> None:
    for model in (length_model(Lengths(*points)), length_model(Lengths(*points), cap=max(1.0, points[0] * cap))):
        cells = model.cells()
        assert sum(p for _, p in cells) == pytest.approx(1, abs=1e-9)
        assert sum(p * x for x, p in cells) == pytest.approx(model.mean, rel=1e-6)


def test_log_normal_mean_in_closed_form() -> None:
    model = length_model(Lengths(600, 1600))
    assert isinstance(model, LogNormalLength)
    assert model.mean == pytest.approx(600 * exp(model.sigma**2 / 2))
    assert model.sigma == pytest.approx(0.5963, abs=1e-4)


def test_cap_moves_what_is_longer_onto_it() -> None:
    model = length_model(Lengths(600, 1600, maximum=1600))
    assert model.quantile(0.99) == 1600
    assert model.share_above(1600) == 0
    assert model.cells()[-1] == (1600, pytest.approx(0.05, abs=1e-9))
    assert model.mean < length_model(Lengths(600, 1600)).mean


def test_cells_keep_the_variance() -> None:
    model = length_model(Lengths(600, 1600))
    assert isinstance(model, LogNormalLength)
    mean = model.mean
    spread = sqrt(sum(p * (x - mean) ** 2 for x, p in model.cells()))
    assert spread == pytest.approx(mean * sqrt(exp(model.sigma**2) - 1), rel=0.01)


def test_one_percentile_is_constant() -> None:
    assert length_model(Lengths(p95=2048)) == ConstantLength(2048)
    assert length_model(Lengths(p50=300), cap=200) == ConstantLength(200)
    assert length_model(Lengths(p50=300, p95=300)) == ConstantLength(300)
    assert length_model(Lengths(maximum=900)) == ConstantLength(900)


@pytest.mark.parametrize("lengths", [Lengths(), Lengths(600, 500), Lengths(0, 5), Lengths(-3), Lengths(5, 9, 0)])
def test_refusals(lengths: Lengths) -> None:
    with pytest.raises(InputError):
        length_model(lengths)


def test_no_cap_is_infinite() -> None:
    model = length_model(Lengths(10, 20))
    assert isinstance(model, LogNormalLength)
    assert model.maximum == inf
