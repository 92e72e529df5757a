"""Another source's step times, combined with the roofline's."""

from __future__ import annotations

from dataclasses import replace
from math import log, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.catalogue.gpus import find_gpu
from cotenant.catalogue.models import find_entry
from cotenant.domain.calibration import DECODE
from cotenant.domain.model import ModelSpec
from cotenant.domain.step_time import OtherTimes, StepQuestion
from cotenant.engines import find_engine
from cotenant.estimation.anchor import profile_of
from cotenant.estimation.calibrated import calibrations
from cotenant.estimation.roofline import Roofline
from cotenant.estimation.second_source import combined, second_source
from cotenant.estimation.step_constants import OWN_ERROR
from cotenant.estimation.step_time import roofline
from cotenant.readers.model_config import read_model_config


def llama() -> ModelSpec:
    entry = find_entry("meta-llama/Llama-3.1-8B-Instruct")
    assert entry is not None
    return read_model_config(entry.config, name="llama", source=entry.config_source)


def plain(gpu: str = "H100-SXM") -> Roofline:
    return roofline(llama(), find_gpu(gpu), engine="vllm")


def other(exact: Roofline, decode: float, prefill: float = 1.0, error: float = 0.18) -> OtherTimes:
    """A source that says so many times what we say, at every load."""
    return OtherTimes(
        "a database", error,
        tuple((b, 1024, decode * exact.decode_step_s(b, b * 1024)) for b in (1, 16, 256)),
        tuple((tokens, prefill * exact.prefill_s(tokens)) for tokens in (512, 4096)),
    )  # fmt: skip


def moved(factor: float, gpu: str = "H100-SXM") -> float:
    """The share of the way, in the logarithm, that a source's factor moves a decode step."""
    exact = plain(gpu)
    found = combined(exact, other(exact, factor))
    return log(found.decode_step_s(8, 8000) / exact.decode_step_s(8, 8000)) / log(factor)


def test_weights_are_the_inverse_squares_of_published_errors() -> None:
    ours, theirs = log(1 + OWN_ERROR), log(1.18)
    assert moved(1.2) == pytest.approx(ours**2 / (ours**2 + theirs**2), rel=1e-9)  # 0.37
    assert moved(1 / 1.2) == pytest.approx(moved(1.2))


def test_where_less_was_measured_of_ours_theirs_weighs_more() -> None:
    assert moved(1.2, "L40S") > 0.7 > moved(1.2)  # nearly all rows ran on Hopper and Blackwell


def test_what_errors_do_not_explain_is_not_followed() -> None:
    assert moved(1.3) > moved(2.0) > moved(4.0)
    assert moved(5.6) < 0.05  # 5.6 times too long stands in one such database for FP4 on a GB200


def width(decode: float, prefill: float = 1.0) -> float:
    """The interval of both as a share of ours, in the logarithm."""
    exact = plain()
    found = combined(exact, other(exact, decode, prefill))
    assert log(found.low) / log(exact.low) == pytest.approx(log(found.high) / log(exact.high))
    return log(found.high) / log(exact.high)


def test_agreement_narrows_the_interval_as_a_weighted_mean_does() -> None:
    ours, theirs = log(1 + OWN_ERROR), log(1.18)
    assert width(1.05, 1.05) == pytest.approx(theirs / sqrt(ours**2 + theirs**2))  # 0.79


def test_contradiction_leaves_ours_and_is_not_charged_twice() -> None:
    """Four times: d = 1.386, our deviation 0.190; sqrt(1 - (0.190 / 1.386)^2) of our interval is left."""
    assert width(4.0) == pytest.approx(sqrt(1 - (log(1 + OWN_ERROR) / 0.6745 / log(4)) ** 2))
    assert 0.99 < width(4.0) < width(100.0) < 1


def test_a_prefill_that_differs_keeps_the_interval_open_too() -> None:
    assert width(1.0, 5.0) == pytest.approx(width(5.0, 1.0))
    assert width(1.0, 5.0) > 0.99 > 0.8 > width(1.0, 1.0)


@given(st.floats(1, 50), st.floats(1, 50), st.floats(0.05, 1))
def test_the_more_they_differ_the_wider_and_never_wider_than_ours(near: float, far: float, error: float) -> None:
    exact = plain()
    widths = [
        log(combined(exact, other(exact, one, two, error)).high) / log(exact.high)
        for one, two in ((1.0, 1.0), (min(near, far), 1.0), (near, far), (max(near, far), max(near, far)))
    ]
    assert widths == pytest.approx(sorted(widths))
    assert 0 < widths[0] <= widths[-1] <= 1


def test_loads_that_the_card_cannot_hold_say_nothing() -> None:
    """16 GB of weights and 131 KB a token: 256 sequences of 1,024 tokens are 34 GB more, of 8,192 275 GB."""
    exact = plain()
    assert exact.held_bytes(1, 1024) == pytest.approx(15.01e9 + 1024 * 131_072, rel=1e-3)
    told = other(exact, 1.1)
    wild = replace(told, decode=(*told.decode, *((256, 8192, 99.0),) * 5))
    assert combined(exact, wild, 80e9).decode_factor == pytest.approx(combined(exact, told).decode_factor)
    assert combined(exact, wild).decode_factor != pytest.approx(combined(exact, told).decode_factor)
    assert combined(exact, wild, 1e9) == exact  # nothing fits at all: ours alone


def test_prefills_follow_their_own_factor() -> None:
    exact = plain()
    found = combined(exact, other(exact, 1.0, 1.2))
    assert found.decode_step_s(8, 8000) == pytest.approx(exact.decode_step_s(8, 8000))
    assert found.prefill_s(1000) > 1.05 * exact.prefill_s(1000)


@given(st.floats(0.2, 5), st.floats(0.01, 2))
def test_the_answer_lies_between_the_two(factor: float, error: float) -> None:
    exact = plain()
    found = combined(exact, other(exact, factor, factor, error)).decode_step_s(8, 8000)
    low, high = sorted((exact.decode_step_s(8, 8000), factor * exact.decode_step_s(8, 8000)))
    assert low * (1 - 1e-9) <= found <= high * (1 + 1e-9)


def test_a_source_is_asked_while_in_force_and_named() -> None:
    asked: list[StepQuestion] = []
    exact = plain()

    def ask(question: StepQuestion) -> OtherTimes:
        asked.append(question)
        return other(exact, 1.2)

    with second_source(ask):
        found = plain()
    assert "a database" in found.why
    assert "+20% a decode step" in found.why
    assert [(one.gpu, one.engine, one.ranks) for one in asked] == [("H100-80GB-SXM", "vllm", 1)]
    assert plain().why == "roofline of H100-80GB-SXM x1, bf16, vllm"


def test_who_does_not_know_changes_nothing() -> None:
    exact = plain()
    with second_source(lambda _: None):
        assert plain() == exact


def test_a_measurement_stands_before_any_other_source() -> None:
    _, version = find_engine("vllm")
    model, gpu = llama(), find_gpu("H100-SXM")
    measured = profile_of(
        {DECODE: [(2.0, 1.0)]}, engine="vllm", version=str(version), gpu=gpu.name, family=model.family,
        provenance="ours",
    )  # fmt: skip
    exact = plain()
    with second_source(lambda _: other(exact, 1.2)), calibrations([measured]):
        found = roofline(model, gpu, engine="vllm", version=version)
    assert found.decode_step_s(8, 8000) == pytest.approx(
        2 * roofline(model, gpu, engine="vllm", version=version).decode_step_s(8, 8000)
    )
    assert "a database" not in found.why


@pytest.mark.parametrize("decode", [(), ((1, 1024, 0.0),), ((1, 1024, float("nan")),)])
def test_times_that_are_none_are_refused(decode: tuple[tuple[int, int, float], ...]) -> None:
    with pytest.raises(ValueError, match="above zero"):
        OtherTimes("x", 0.18, decode, ((512, 0.1),))
