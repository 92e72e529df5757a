"""A replica sized from traffic: what follows from it, what the user's settings override, what makes it not fit."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cotenant
from cotenant.domain.estimate import Estimate, Verdict

MODEL = "meta-llama/Llama-3.1-8B-Instruct"
BLOCK = 16 * 131_072  # bytes of a block of 16 tokens


def sized(**options: Any) -> Estimate:
    return cotenant.estimate(MODEL, gpu="A100-80GB-SXM", **options)


def test_a_concurrency_with_two_percentiles() -> None:
    found = sized(concurrent=8, context_tokens={"p50": 700, "p95": 2048})
    assert found.demand is not None
    assert found.settings.max_num_seqs == 8
    assert found.settings.max_model_len == found.demand.max_model_len
    assert found.kv_cache.needed_bytes == found.demand.kv_needed_bytes
    assert found.demand.kv_needed_bytes <= found.kv_cache.worst_case_bytes


def test_a_lone_percentile_takes_the_longest_sequence_that_the_pool_holds() -> None:
    found = sized(concurrent=8, context_tokens={"p95": 2048}, gpu_memory_utilization=0.3)
    length = found.settings.max_model_len or 0
    assert 2 * 2048 < length < 131_072
    low = found.per_gpu[0].kv_cache.bytes.low
    assert -(-length // 16) * BLOCK <= low < -(-length // 16) * BLOCK + 2 * BLOCK
    roomy = sized(concurrent=8, context_tokens={"p95": 2048})
    assert roomy.settings.max_model_len == 131_072


def test_a_declared_maximum_is_the_limit() -> None:
    found = sized(concurrent=8, context_tokens={"p95": 2048, "max": 6000})
    assert found.settings.max_model_len == 6000


def test_the_users_settings_stand_and_the_worst_case_follows_them() -> None:
    found = sized(concurrent=8, context_tokens={"p50": 700, "p95": 2048}, max_model_len=8192, max_num_seqs=64)
    assert (found.settings.max_model_len, found.settings.max_num_seqs) == (8192, 64)
    assert found.kv_cache.worst_case_bytes == 64 * 8192 * 131_072


def test_too_few_sequences_are_warned_of() -> None:
    found = sized(concurrent=8, context_tokens={"p95": 2048}, max_num_seqs=4)
    assert any("max_num_seqs 4 is below the 8" in warning for warning in found.warnings)


def test_overload_does_not_fit_whatever_the_memory() -> None:
    found = sized(
        requests_per_second=5000, input_tokens={"p50": 600, "p95": 1600}, output_tokens={"p50": 150, "p95": 400}
    )
    assert found.verdict is Verdict.DOES_NOT_FIT
    assert "saturates" in found.reason


def test_a_broken_target_is_told_once() -> None:
    found = sized(concurrent=8, context_tokens={"p95": 2048}, tpot="1ms")
    assert found.verdict is Verdict.DOES_NOT_FIT
    assert "TPOT" in found.reason
    assert found.reason not in found.warnings


def test_encoders_are_sized_without_a_cache() -> None:
    found = cotenant.estimate(
        "BAAI/bge-m3", gpu="L4", requests_per_second=5, input_tokens={"p50": 200, "p95": 480}
    )
    assert found.kv_cache.needed_bytes == 0
    assert found.demand is not None
    assert found.demand.tpot_s is None


@settings(max_examples=25, deadline=None)
@given(concurrent=st.integers(1, 200), p50=st.integers(50, 2000), factor=st.floats(1.2, 4.0))
def test_more_requests_never_need_less(concurrent: int, p50: int, factor: float) -> None:
    lengths = {"p50": p50, "p95": int(p50 * factor)}
    few, more = (
        sized(concurrent=number, context_tokens=lengths).demand for number in (concurrent, concurrent + 1)
    )
    assert few is not None
    assert more is not None
    assert few.kv_needed_bytes <= more.kv_needed_bytes


@settings(max_examples=40, deadline=None)
@given(used=st.integers(0, 79), extra=st.integers(1, 10))
def test_more_memory_of_others_never_helps(used: int, extra: int) -> None:
    order = [Verdict.DOES_NOT_FIT, Verdict.UNCERTAIN, Verdict.FITS]
    less = sized(max_model_len=4096, gpu_memory_utilization=0.5, used=f"{used}GiB")
    more = sized(max_model_len=4096, gpu_memory_utilization=0.5, used=f"{min(80, used + extra)}GiB")
    assert order.index(more.verdict) <= order.index(less.verdict)


def test_adapters_share_the_base_and_reserve_slots() -> None:
    plain = sized(concurrent=8, context_tokens={"p95": 2048})
    tuned = sized(
        concurrent=8, context_tokens={"p95": 2048}, adapters=[{"name": "legal", "rank": 16, "share": "20%"}]
    )
    assert tuned.settings.adapters is not None
    assert tuned.settings.adapters.max_loras == 1
    assert tuned.per_gpu[0].weights.bytes.value > plain.per_gpu[0].weights.bytes.value
    assert tuned.per_gpu[0].weights.bytes.value < 1.1 * plain.per_gpu[0].weights.bytes.value
    assert "legal=legal" in tuned.arguments
    assert tuned.demand is not None
    assert tuned.demand.kv_by_adapter["legal"] == pytest.approx(0.2 * tuned.demand.kv_needed_bytes, abs=1)
