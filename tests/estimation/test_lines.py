"""What the simulator counts with: lines that are right to half a per cent wherever a replica may come."""

from __future__ import annotations

from functools import lru_cache
from math import ceil, hypot

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotenant.api import load_model
from cotenant.catalogue.gpus import find_gpu
from cotenant.domain.step_time import StepTimes
from cotenant.estimation.pieces import BOUND, row
from cotenant.estimation.roofline import Roofline
from cotenant.estimation.step_time import linear, roofline
from cotenant.simulation.costs import FS_PER_S, StepCosts

MODELS = (
    "meta-llama/Llama-3.1-8B-Instruct",  # dense
    "Qwen/Qwen2.5-0.5B-Instruct",  # dense, and so small that its launches count
    "Qwen/Qwen3-30B-A3B",  # a mixture
    "openai/gpt-oss-120b",  # a mixture with windows
    "deepseek-ai/DeepSeek-V3",  # MLA
    "google/gemma-3-27b-it",  # windows
    "Qwen/Qwen3-Next-80B-A3B-Instruct",  # linear attention and a mixture
    "nvidia/Nemotron-H-8B-Base-8K",  # Mamba
)
CARDS = ("A100-80GB-SXM", "H200-SXM", "B200", "L4", "MI300X", "T4")
SEQUENCES, LONGEST, PROMPT, HELD = 512, 131_072, 16_384, 500_000


@lru_cache(maxsize=256)
def exact_of(model: str, card: str, ranks: int) -> Roofline:
    return roofline(load_model(model).spec, find_gpu(card), engine="vllm", tensor_parallel_size=ranks)


def drawn(exact: Roofline) -> StepTimes:
    return linear(exact, (1, SEQUENCES), (1, LONGEST), (1, PROMPT), HELD)


@pytest.mark.parametrize("model", MODELS)
@settings(max_examples=60, deadline=None)
@given(card=st.sampled_from(CARDS), ranks=st.sampled_from([1, 2, 8]), data=st.data())
def test_lines_err_by_half_a_per_cent_at_most(model: str, card: str, ranks: int, data: st.DataObject) -> None:
    """And so do the simulator's whole femtoseconds."""
    exact = exact_of(model, card, ranks)
    times = drawn(exact)
    costs = costs_of(times)
    for batch in data.draw(st.lists(st.integers(1, SEQUENCES), min_size=1, max_size=8)):
        most = min(batch * LONGEST, HELD)
        for share in data.draw(st.lists(st.floats(0, 1), min_size=1, max_size=8)):
            held = batch + round(share**3 * (most - batch))
            step = exact.decode_step_s(batch, held)
            assert times.decode_step_s(batch, held) == pytest.approx(step, rel=BOUND), (batch, held)
            assert costs.step(batch, held, 0, 0) == pytest.approx(step * FS_PER_S, rel=BOUND), (batch, held)
    for tokens in data.draw(st.lists(st.integers(1, PROMPT), min_size=1, max_size=8)):
        for before in (0, 5000):  # a chunk of a prompt, so much of which is read
            squares = (before + tokens) ** 2 - before**2
            read = exact.prefill_s(tokens, squares)
            assert times.prefill_s(tokens, squares) == pytest.approx(read, rel=BOUND), tokens
            assert costs.step(0, 0, tokens, squares) == pytest.approx(read * FS_PER_S, rel=BOUND), tokens


@lru_cache(maxsize=256)
def costs_of(times: StepTimes) -> StepCosts:
    return StepCosts.of(times)


@pytest.mark.parametrize("model", MODELS)
def test_every_end_lies_on_the_roofline_and_lines_are_few(model: str) -> None:
    exact = exact_of(model, "A100-80GB-SXM", 1)
    times = drawn(exact)
    for batch in (1, 7, 64, SEQUENCES):
        for line in times.decode[batch - 1]:
            found = line.base_s + line.each_s * line.until + times.per_sequence_s * batch
            assert found == pytest.approx(exact.decode_step_s(batch, line.until), rel=1e-9)
    assert times.prefill[-1].until == PROMPT
    assert times.decode[-1][-1].until == HELD
    assert len(times.decode) == SEQUENCES
    assert max(map(len, times.decode)) <= 6
    assert len(times.prefill) <= 30


def test_beyond_the_range_the_last_lines_go_on() -> None:
    exact = exact_of("meta-llama/Llama-3.1-8B-Instruct", "H200-SXM", 1)
    times = linear(exact, (1, 8), (100, 1000), (64, 2048))
    last, prefill = times.decode[-1][-1], times.prefill[-1]
    assert times.decode_step_s(8, 10**6) == last.base_s + last.each_s * 10**6 + 8 * times.per_sequence_s
    assert times.decode_step_s(20, 20_000) == last.base_s + last.each_s * 20_000 + 20 * times.per_sequence_s
    assert times.prefill_s(10**5, 0) == prefill.base_s + prefill.each_s * 10**5
    costs = StepCosts.of(times)
    for batch, held in ((8, 10**6), (20, 20_000), (8, 8)):
        assert costs.step(batch, held, 0, 0) == pytest.approx(times.decode_step_s(batch, held) * FS_PER_S)
    for tokens in (10**5, 1):
        assert costs.step(0, 0, tokens, 0) == pytest.approx(times.prefill_s(tokens, 0) * FS_PER_S)


@given(
    st.floats(0.1, 100), st.floats(1e-5, 1), st.floats(0, 1e-3), st.lists(st.integers(2, 9_999), max_size=3),
    st.integers(50, 10_000), st.lists(st.floats(1, 10_000), max_size=3),
)  # fmt: skip
def test_any_curve_of_reading_and_multiplying_is_met(
    base: float, reading: float, multiplying: float, bends: list[int], last: int, ends: list[float]
) -> None:
    """Reading that slows down at each bend, against multiplying; whatever ends a like curve had."""

    def curve(tokens: int) -> float:
        read = base + reading * (tokens + sum(min(tokens, bend) for bend in bends))
        return hypot(read, 100 * multiplying * tokens)

    lines = row(curve, 1, last, sorted(set(bends)), sorted(set(map(ceil, ends))))
    assert [line.until for line in lines] == sorted({line.until for line in lines})
    assert lines[-1].until == last
    for tokens in {*range(1, last + 1, 1 + last // 500), *(bend for bend in bends if bend <= last)}:
        line = next(one for one in lines if tokens <= one.until)
        assert line.base_s + line.each_s * tokens == pytest.approx(curve(tokens), rel=BOUND), tokens


def test_a_straight_curve_is_one_line() -> None:
    assert [line.until for line in row(lambda tokens: 3.0 + 2.0 * tokens, 1, 10**6)] == [10**6]
    assert [line.until for line in row(lambda tokens: 3.0 + min(tokens, 500), 1, 1000, [500])] == [500, 1000]
