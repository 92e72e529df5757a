"""One measured configuration anchors the others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.catalogue.gpus import find_gpu
from cotenant.catalogue.models import find_entry
from cotenant.domain.calibration import DECODE, FIRST_TOKEN, CalibrationProfile
from cotenant.errors import InputError
from cotenant.estimation.anchor import anchored, profile_of
from cotenant.estimation.roofline import Roofline
from cotenant.estimation.step_time import linear, roofline
from cotenant.readers.model_config import read_model_config


def exact() -> Roofline:
    entry = find_entry("meta-llama/Llama-3.1-8B-Instruct")
    assert entry is not None
    model = read_model_config(entry.config, name="llama", source=entry.config_source)
    return roofline(model, find_gpu("L40S"), engine="vllm")


def profile(**pairs: list[tuple[float, float]]) -> CalibrationProfile:
    terms = {DECODE: pairs.get("decode", []), FIRST_TOKEN: pairs.get("first", [])}
    return profile_of(terms, engine="vllm", version="0.21", gpu="L40S", family="llama", provenance="ours, 2026")


def test_a_measured_step_is_met_and_the_interval_shrinks() -> None:
    plain = exact()
    measured = 1.3 * plain.decode_step_s(8, 8000)
    found = anchored(plain, profile(decode=[(measured, plain.decode_step_s(8, 8000))]))
    assert found.decode_step_s(8, 8000) == pytest.approx(measured)
    assert found.decode_step_s(1, 10) == pytest.approx(1.3 * plain.decode_step_s(1, 10))
    assert found.high / found.low < plain.high / plain.low
    assert "ours, 2026" in found.why


def test_first_tokens_have_a_factor_of_their_own() -> None:
    plain = exact()
    found = anchored(plain, profile(decode=[(2.0, 1.0)], first=[(3.0, 1.0), (3.0, 1.0)]))
    assert found.prefill_s(1000) == pytest.approx(3 * plain.prefill_s(1000))
    assert found.first_token_s == pytest.approx(3 * plain.first_token_s)
    assert anchored(plain, profile(decode=[(2.0, 1.0)])).prefill_s(1000) == pytest.approx(
        2 * plain.prefill_s(1000)
    )


@given(st.floats(0.1, 8), st.integers(1, 60), st.integers(0, 2000))
def test_straight_lines_scale_as_the_roofline_does(factor: float, batch: int, context: int) -> None:
    plain = exact()
    scaled = anchored(plain, profile(decode=[(factor, 1.0)]))
    ranges = ((1, 64), (256, 2048), (256, 4096))
    one, two = linear(plain, *ranges), linear(scaled, *ranges)
    total = batch * context
    assert two.decode_step_s(batch, total) == pytest.approx(factor * one.decode_step_s(batch, total), rel=1e-6)
    assert two.prefill_s(1024) == pytest.approx(factor * one.prefill_s(1024), rel=1e-6)


def test_measurements_that_disagree_leave_more_open() -> None:
    alike = profile(decode=[(1.0, 1.0), (1.1, 1.0), (1.05, 1.0)]).factors[DECODE]
    apart = profile(decode=[(1.0, 1.0), (3.0, 1.0), (1.0, 2.0)]).factors[DECODE]
    assert alike.value == pytest.approx(1.05)
    assert apart.value == pytest.approx(1.0)
    assert apart.low <= 0.5 < alike.low
    assert apart.high >= 3 - 1e-9 > alike.high


def test_what_is_no_measurement_is_refused() -> None:
    for wrong in ([(0.0, 1.0)], [(1.0, -1.0)], [(100.0, 1.0)], []):
        with pytest.raises(InputError):
            profile(decode=wrong)


def test_a_profile_speaks_of_its_own_engine_and_card() -> None:
    found = profile(decode=[(1.0, 1.0)])
    assert found.matches("vllm", "0.21", "L40S", "llama")
    assert not found.matches("vllm", "0.22", "L40S", "llama")
