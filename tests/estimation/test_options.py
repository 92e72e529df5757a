"""Options are read or refused, all faults at once, whatever is thrown at them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotenant.domain.engine import AdapterSlots, EngineSettings
from cotenant.domain.workload import Adapter
from cotenant.errors import CotenantError, InputError, InputErrors
from cotenant.estimation.options import adapters_from, engine_settings, overflow_from, slo_from, traffic_from

NAMES = (*EngineSettings.__dataclass_fields__, "enable_lora", "max_loras", "max_lora_rank")
JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from([1, 8, 8192, 0.9, "fp8"]),
)


def test_nothing_given_is_the_engines_own() -> None:
    assert engine_settings({}) == EngineSettings()


def test_lora_is_implied_by_its_options_and_by_adapters() -> None:
    assert engine_settings({"enable_lora": True}).adapters == AdapterSlots(1, 16)
    assert engine_settings({"max_loras": 4}).adapters == AdapterSlots(4, 16)
    two = (Adapter("a", 8), Adapter("b", 64))
    assert engine_settings({}, two).adapters == AdapterSlots(2, 64)
    assert engine_settings({"max_lora_rank": 128}, two).adapters == AdapterSlots(2, 128)


def test_every_fault_is_named() -> None:
    with pytest.raises(InputErrors) as refused:
        engine_settings({"max_model_len": 0, "gpu_memory_utilization": 1.5, "dtype": "int2"})
    assert [fault.message.split()[0] for fault in refused.value.faults()] == [
        "max_model_len", "dtype", "gpu_memory_utilization",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "described",
    [
        {"concurrent": 8},
        {"concurrent": 8, "requests_per_second": 1.0, "context_tokens": {"p95": 9}},
        {"requests_per_second": 1.0, "context_tokens": {"p95": 9}},
        {"context_tokens": {"p95": 9}},
        {"concurrent": 8, "context_tokens": {"max": 9}},
        {"concurrent": 8, "context_tokens": {"p50": 9, "p95": 8}},
        {"concurrent": 8, "context_tokens": {"p99": 9}},
        {"concurrent": 0, "context_tokens": {"p95": 9}},
        {"concurrent": True, "context_tokens": {"p95": 9}},
        {"requests_per_second": float("nan"), "input_tokens": {"p95": 9}},
        {"requests_per_second": 5e-324, "input_tokens": {"p95": 9}, "output_tokens": {"p95": 9}},
    ],
)
def test_traffic_that_says_too_little_or_too_much(described: dict[str, Any]) -> None:
    with pytest.raises(InputErrors):
        traffic_from(**described)


def test_no_traffic_is_none() -> None:
    assert traffic_from() is None
    assert slo_from(None, None) is None


def test_targets_and_probabilities_have_units() -> None:
    found = slo_from("3s", "80ms", 99)
    assert found is not None
    assert (found.ttft_s, found.tpot_s, found.percentile) == (3.0, 0.08, 99)
    assert overflow_from("1%") == 0.01
    for text in ("0%", "100%", "1", 0.01):
        with pytest.raises(InputError):
            overflow_from(text)
    with pytest.raises(InputErrors):
        slo_from("0s", None)


def test_adapters_are_mappings_or_values() -> None:
    found = adapters_from([{"name": "legal", "rank": 16, "share": "20%"}, Adapter("own", 8)])
    assert [(adapter.name, adapter.rank, adapter.share) for adapter in found] == [
        ("legal", 16, 0.2),
        ("own", 8, None),
    ]
    for wrong in ({"name": "x"}, {"rank": 8}, {"name": "x", "rank": 0}, {"name": "x", "rank": 8, "size": 1}):
        with pytest.raises(InputError):
            adapters_from([wrong])


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(st.sampled_from(NAMES).filter(lambda name: name != "adapters"), JUNK))
def test_any_options_are_read_or_refused(options: dict[str, Any]) -> None:
    try:
        found = engine_settings(options)
    except CotenantError:
        return
    assert found.max_model_len is None or found.max_model_len >= 1
    assert found.gpu_memory_utilization is None or 0 < found.gpu_memory_utilization <= 1


@settings(max_examples=300, deadline=None)
@given(
    described=st.dictionaries(
        st.sampled_from(["concurrent", "requests_per_second", "context_tokens", "input_tokens", "output_tokens"]),
        st.one_of(JUNK, st.dictionaries(st.sampled_from(["p50", "p95", "max", "p99"]), JUNK, max_size=3)),
    )
)
def test_any_traffic_is_read_or_refused(described: dict[str, Any]) -> None:
    try:
        found = traffic_from(**described)
    except CotenantError:
        return
    assert found is None or (found.concurrent is None) != (found.requests_per_second is None)


def test_one_of_its_options_switches_lora_on() -> None:
    """As the Python face passes it: enable_lora is False unless it is said."""
    assert engine_settings({"enable_lora": False, "max_loras": 2}).adapters == AdapterSlots(2, 16)
    assert engine_settings({"enable_lora": False}).adapters is None
