"""A steady state over arrays, compiled or not, against that in plain Python: every bit."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from math import inf, log

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotenant.api import load_model
from cotenant.catalogue.gpus import find_gpu
from cotenant.domain.step_time import Scaled
from cotenant.estimation import compound_core, service_core
from cotenant.estimation.compound import poisson_quantile
from cotenant.estimation.compound_arrays import OverArrays, compiled
from cotenant.estimation.in_flight import Quick, held_tokens
from cotenant.estimation.lengths import ConstantLength, LengthModel, LogNormalLength
from cotenant.estimation.roofline import Roofline
from cotenant.estimation.sequence_limit import P999
from cotenant.estimation.service import Work, is_overloaded, steady
from cotenant.estimation.step_time import roofline

IN_PYTHON = OverArrays(compound_core.sums_of_cells, compound_core.total_and_mean, service_core.steady_state)
MODELS = (
    "meta-llama/Llama-3.1-8B-Instruct",  # dense
    "Qwen/Qwen3-30B-A3B",  # a mixture
    "openai/gpt-oss-120b",  # a mixture with windows
    "Qwen/Qwen3-Next-80B-A3B-Instruct",  # states
)
LIMIT = 32_768
Question = tuple[Roofline, float, LengthModel, LengthModel, float]


@lru_cache(maxsize=64)
def times_of(model: str, card: str, ranks: int, step: float = inf) -> Roofline:
    whole = roofline(load_model(model).spec, find_gpu(card), engine="vllm", tensor_parallel_size=ranks)
    return replace(whole, chunk_tokens=step)


def lengths(least: int) -> st.SearchStrategy[LengthModel]:
    wide = st.builds(
        lambda p50, s: LogNormalLength(log(p50), s, float(LIMIT)), st.integers(8, 9000), st.floats(0.05, 1.5)
    )
    return st.one_of(wide, st.integers(least, 9000).map(lambda tokens: ConstantLength(float(tokens))))


questions = st.tuples(
    st.builds(
        times_of,
        st.sampled_from(MODELS),
        st.sampled_from(("L4", "H200-SXM")),
        st.sampled_from((1, 2)),
        st.sampled_from((512.0, 2048.0, 3000.5, inf)),
    ),
    st.floats(-6, 5).map(lambda power: 2.0**power),
    lengths(1),
    lengths(0),
    st.sampled_from((0.5, 0.95, 0.99)),
)


def agree(quick: Quick, question: Question) -> None:
    times, rate, inputs, outputs, share = question
    held = held_tokens(inputs, outputs, LIMIT)
    found = quick.steady(rate, inputs, outputs, held, times, share)
    work = Work.of(inputs, outputs, held, times)
    plain = steady(rate, work)
    if found is None:
        assert plain is None or plain.in_service > 600
        return
    assert plain is not None
    assert found.service == plain
    assert found.at_most == max(1, poisson_quantile(plain.in_service, P999))
    batch = 1 + poisson_quantile(plain.in_service, share)
    assert found.ttft_s == plain.ttft_s(inputs.quantile(share), batch, times)
    assert found.tpot_s == plain.tpot_s(batch, times)
    assert found.doubted == is_overloaded(rate * times.high, work)


@given(questions)
@settings(max_examples=15, deadline=None)
def test_over_arrays_as_in_plain_python(question: Question) -> None:
    agree(IN_PYTHON, question)


@given(questions)
@settings(max_examples=300, deadline=None)
def test_compiled_as_in_plain_python(question: Question) -> None:
    quick = compiled()
    if quick is None:
        pytest.skip("numba is not installed")
    agree(quick, question)


def test_other_step_times_are_left_to_python() -> None:
    inputs, times = ConstantLength(100.0), times_of(MODELS[0], "L4", 1)
    held = held_tokens(inputs, inputs, LIMIT)
    assert IN_PYTHON.steady(0.1, inputs, inputs, held, Scaled(times, 1.5), 0.95) is None
    assert IN_PYTHON.steady(0.1, inputs, inputs, held, times, 0.95) is not None
