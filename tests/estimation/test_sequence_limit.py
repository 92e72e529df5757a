import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.domain.workload import Lengths
from cotenant.estimation.lengths import length_model
from cotenant.estimation.sequence_limit import longest_sequence, sequence_limit

MODEL = 131_072


def test_a_declared_maximum_holds() -> None:
    limit = sequence_limit((Lengths(600, 1600, 8000), Lengths(150, 400, 1000)), MODEL)
    assert (limit.tokens, limit.refused_share, limit.is_minimum, limit.warning) == (9008, 0, False, "")


def test_two_percentiles_give_the_999th_of_the_sum() -> None:
    parts = (Lengths(600, 1600), Lengths(150, 400))
    limit = sequence_limit(parts, MODEL)
    assert limit.refused_share == pytest.approx(0.001, abs=3e-5)
    apart = sum(length_model(part).quantile(0.999) for part in parts)
    assert length_model(parts[0]).quantile(0.999) < limit.tokens < apart
    assert limit.tokens % 16 == 0
    assert not limit.is_minimum


def test_a_declared_input_with_a_log_normal_output() -> None:
    limit = sequence_limit((Lengths(600, 1600, 8000), Lengths(150, 400)), MODEL)
    assert limit.tokens == -(-(8000 + length_model(Lengths(150, 400)).quantile(0.999)) // 16) * 16
    assert limit.refused_share < 0.001


def test_one_percentile_alone_warns_and_may_grow() -> None:
    limit = sequence_limit((Lengths(p95=2048),), MODEL)
    assert (limit.tokens, limit.is_minimum, limit.refused_share) == (4096, True, 0.05)
    assert "only p95" in limit.warning
    assert "5%" in limit.warning


def test_the_models_limit_refuses_and_says_how_many() -> None:
    limit = sequence_limit((Lengths(3000, 12000),), 8192)
    assert limit.tokens == 8192
    assert limit.refused_share == pytest.approx(length_model(Lengths(3000, 12000)).share_above(8192))
    assert "longer than the model's 8,192 tokens" in limit.warning


@given(st.integers(1, 4000), st.floats(1.05, 20), st.integers(1, 2000), st.floats(1.05, 20))
def test_never_refuses_more_than_a_thousandth_by_choice(p50: int, wide: float, out: int, out_wide: float) -> None:
    parts = (Lengths(p50, int(p50 * wide) + 1), Lengths(out, int(out * out_wide) + 1))
    assert sequence_limit(parts, 10**9).refused_share <= 0.00105


def test_longest_sequence_fills_the_pool() -> None:
    def plain(tokens: int) -> int:
        return -(-tokens // 16) * 16 * 1000

    assert longest_sequence(10_000_000, plain, percentile=2048, model_limit=MODEL) == 10_000
    assert longest_sequence(1_000_000, plain, percentile=2048, model_limit=MODEL) == 4096
    assert longest_sequence(10**12, plain, percentile=2048, model_limit=MODEL) == MODEL
    assert longest_sequence(1_000_000, plain, percentile=2048, model_limit=3000) == 3000


def test_absurdly_wide_lengths_come_to_an_end() -> None:
    """Bisection among numbers that lie further apart than one."""
    for part in (Lengths(1, 10**9), Lengths(1, 10**7), Lengths(10**9, 2 * 10**9)):
        assert sequence_limit((part,), 131_072).tokens == 131_072
        assert sequence_limit((part, part), 131_072).tokens == 131_072


@given(st.integers(1, 10**8), st.integers(0, 10**5))
def test_longest_sequence_with_a_window_and_a_fixed_part(pool: int, fixed: int) -> None:
    def hybrid(tokens: int) -> int:
        return fixed + min(tokens, 1024) * 500 + tokens * 100

    found = longest_sequence(pool, hybrid, percentile=100, model_limit=40_000)
    assert 208 <= found <= 40_000
    assert found == 208 or hybrid(found) <= pool
    assert found == 40_000 or hybrid(found + 16) > pool or found + 16 > 40_000
