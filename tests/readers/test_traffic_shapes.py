"""Arrivals, histograms and lengths from files, as fleet files say them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.domain.workload import Arrivals, Lengths, Trace, Traffic
from cotenant.edge.models import open_model
from cotenant.errors import CotenantError, InputErrors
from cotenant.estimation.demand import busiest_rate
from cotenant.estimation.lengths import HistogramLength, length_model
from cotenant.estimation.options import arrivals_from
from cotenant.readers.fleet import fleet_from
from cotenant.readers.traces import read_trace

LENGTHS = {"p50": 100, "p95": 300}
bars = st.lists(st.tuples(st.integers(1, 5000), st.floats(0.1, 100)), min_size=1, max_size=30)


def traffic_of(**traffic: Any) -> Traffic:
    def trace(name: str) -> Trace:
        return read_trace(['{"prompt_tokens_count": 10, "output_tokens_count": 5}\n'] * 3, name=name)

    model = {"name": "a", "model": "meta-llama/Llama-3.1-8B-Instruct", "traffic": traffic}
    fleet = {"gpus": [{"type": "L4", "count": 1}], "models": [model]}
    return fleet_from(fleet, load_model=open_model, load_trace=trace).models[0].traffic


def rate(**more: Any) -> Traffic:
    return traffic_of(requests_per_second=2, input_tokens=LENGTHS, output_tokens=LENGTHS, **more)


def test_rates_come_as_the_file_says() -> None:
    assert rate().arrivals == rate(arrivals="poisson").arrivals == Arrivals()
    assert rate(arrivals={"gamma": 2.5}).arrivals == Arrivals("gamma", variation=2.5)
    spells = rate(arrivals={"on": "30s", "off": "90s"})
    assert spells.arrivals == Arrivals("on-off", on_s=30, off_s=90)
    assert busiest_rate(spells) == pytest.approx(8)  # all of an hour's requests in a quarter of it


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"arrivals": "bursty"}, "poisson"),
        ({"arrivals": {}}, "must be poisson"),
        ({"arrivals": {"gamma": 2, "on": "1s", "off": "1s"}}, "needs gamma"),
        ({"arrivals": {"on": "1s"}}, "needs gamma"),
        ({"arrivals": {"on": "0s", "off": "1s"}}, "above zero"),
        ({"arrivals": {"gamma": 0}}, "0.05"),
        ({"arrivals": {"gamma": 2}, "by_hour": [1] * 24}, "do not go together"),
        ({"arrivals": {"gamma": 2, "every": 3}}, "every"),
    ],
)
def test_arrivals_that_are_none_are_refused(more: dict[str, Any], says: str) -> None:
    with pytest.raises(InputErrors, match=says):
        rate(**more)


def test_the_command_says_it_in_a_word() -> None:
    assert arrivals_from(None) is None
    assert arrivals_from("poisson") == Arrivals()
    assert arrivals_from("gamma:2") == Arrivals("gamma", variation=2)
    assert arrivals_from("on-off:30s/1.5min") == Arrivals("on-off", on_s=30, off_s=90)
    for wrong in ("", "gamma", "gamma:x", "gamma:0", "on-off:30s", "on-off:0s/1s", "on-off:1/2", "poisson:3", "²"):
        with pytest.raises(CotenantError):
            arrivals_from(wrong)


def test_a_histogram_is_drawn_and_sized_as_it_stands() -> None:
    traffic = traffic_of(
        requests_per_second=2,
        input_tokens={"histogram": [[2000, 5], [100, 90], [500, 5]]},
        output_tokens={"histogram": [[20, 1]], "max": 64},
    )
    assert traffic.input_tokens is not None
    assert (traffic.input_tokens.p50, traffic.input_tokens.p95, traffic.input_tokens.maximum) == (100, 500, 2000)
    assert traffic.output_tokens is not None
    assert traffic.output_tokens.maximum == 64
    model = length_model(traffic.input_tokens)
    assert model.mean == pytest.approx(0.9 * 100 + 0.05 * 500 + 0.05 * 2000)
    assert [model.quantile(p) for p in (0.1, 0.9, 0.94, 0.96)] == [100, 100, 500, 2000]
    assert model.share_above(499) == pytest.approx(0.1)


@pytest.mark.parametrize(
    "histogram",
    [[], [[0, 1]], [[1, -1]], [[1, 0]], [[1.5, 1]], [["a", 1]], {"100": 5}, [[1, 1, 1]], [[1, True]], 5],
)
def test_histograms_that_are_none_are_refused(histogram: object) -> None:
    with pytest.raises(InputErrors):
        traffic_of(requests_per_second=1, input_tokens={"histogram": histogram}, output_tokens=LENGTHS)


@given(bars)
def test_a_histogram_is_a_distribution(pairs: list[tuple[int, float]]) -> None:
    model = length_model(Lengths.of(tuple(pairs)))
    assert isinstance(model, HistogramLength)
    assert sum(share for _, share in model.cells()) == pytest.approx(1)
    assert model.mean == pytest.approx(sum(n * w for n, w in pairs) / sum(w for _, w in pairs))
    for p in (0.01, 0.5, 0.95, 0.999):
        assert model.share_above(model.quantile(p)) <= 1 - p + 1e-9
    assert Lengths.of(tuple(pairs)).p50 == model.quantile(0.5)


def test_lengths_of_a_file_at_a_rate() -> None:
    traffic = traffic_of(requests_per_second=3, trace="lengths.jsonl")
    assert traffic.trace is None
    assert traffic.input_tokens == Lengths(10, 10, 10, ((10, 3.0),))
    with pytest.raises(InputErrors, match="without times"):
        traffic_of(trace="lengths.jsonl")


def test_what_benchmarks_take_is_read() -> None:
    def read(*rows: dict[str, object]) -> Trace:
        return read_trace([json.dumps(row) + "\n" for row in rows], name="t.jsonl")

    custom = read({"prompt": "x" * 400, "output_tokens": 7})
    assert (custom.timed, custom.input_tokens, custom.output_tokens) == (False, (100,), (7,))
    guide = read({"prompt": "words", "prompt_tokens_count": 12, "output_tokens_count": 3})
    assert (guide.input_tokens, guide.output_tokens) == ((12,), (3,))
    perf = read({"text_input": "abcdefgh", "output_length": 4}, {"text_input": "x", "output_length": 1})
    assert (perf.timed, perf.input_tokens) == (False, (2, 1))


def test_prompts_that_begin_alike() -> None:
    rows = [([1, 2, 3], 1400), ([1, 2, 9], 1500), ([1, 2, 3], 1100), ([8, 2], 600)]
    lines = [
        json.dumps({"timestamp": n, "input_length": tokens, "output_length": 1, "hash_ids": ids}) + "\n"
        for n, (ids, tokens) in enumerate(rows)
    ]
    assert read_trace(lines, name="t").seen_tokens == (0, 1024, 1100, 0)
