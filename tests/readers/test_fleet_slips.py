"""Slips in fleet files: met with the line that was meant, and never a reason to keep other faults back."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from tests.readers.test_fleet import faults, one


@pytest.mark.parametrize(
    ("change", "path", "hint"),
    [
        ({"slo": {"ttft": "3s", "percentile": 0.95}}, "slo.percentile", "did you mean 95?"),
        ({"slo": {"ttft": "3s", "percentile": 0.999}}, "slo.percentile", "did you mean 99.9?"),
        ({"slo": "3s"}, "slo", "{ttft: 3s} or {tpot: 3s}"),
        ({"replicas": 2}, "replicas", "{min: 2, max: 2}"),
        ({"pin": 0}, "pin", "{gpus: [0]}"),
        ({"quality": "1%"}, "quality", "{max_loss: 1%}"),
        ({"quantization": "fp8"}, "quantization", "[fp8]"),
        ({"traffic": 5}, "traffic", "{key: value}"),
    ],
)
def test_a_slip_is_met_with_what_was_meant(change: dict[str, Any], path: str, hint: str) -> None:
    (fault,) = faults(one(**change)).values()
    assert fault.path == f"$.models[0].{path}"
    assert hint in fault.hint


@pytest.mark.parametrize("key", ["input_tokens", "output_tokens"])
def test_a_figure_where_a_distribution_is_asked(key: str) -> None:
    """Nothing but that: no `needs output_tokens` beside it."""
    traffic = {"requests_per_second": 1, "input_tokens": {"p50": 600, "p95": 900}, "output_tokens": {"p50": 9}}
    (fault,) = faults(one(traffic=traffic | {key: 150})).values()
    assert fault.path == f"$.models[0].traffic.{key}"
    assert "{p50: 150, p95: ...}" in fault.hint
    assert "{p95: 150}" in fault.hint


def test_no_limit_is_a_float() -> None:
    (fault,) = faults(one(slo={"ttft": "3s", "percentile": 100})).values()
    assert fault.message == "must be at most 99.99, not 100"
    (fault,) = faults(one(slo={"ttft": "3s", "percentile": 0.2})).values()
    assert "at least 1," in fault.message


WRONG: dict[str, dict[str, Any]] = {
    "traffic": {"traffic": {"concurrent": 8, "requests_per_second": 1, "context_tokens": {"p50": 9, "p95": 4}}},
    "slo.tpot": {"slo": {"tpot": "0ms"}},
    "task": {"task": "nothing"},
    "quantization[0]": {"quantization": ["fp9"]},
    "apart_from[0]": {"apart_from": ["zzz"]},
    "pin.gpus[0]": {"pin": {"gpus": [4]}},
    "pin.gpus": {"replicas": {"min": 3, "max": 2}},
    "replicas.max": {},
}
"""Faults of meaning, by where they stand."""


def all_wrong() -> dict[str, Any]:
    """A fleet with all of them."""
    return one(**deepcopy({key: value for each in WRONG.values() for key, value in each.items()}))


@pytest.mark.parametrize("where", ["$", "gpus", "model", "traffic", "slo"])
def test_an_unknown_key_keeps_no_other_fault_back(where: str) -> None:
    fleet = all_wrong()
    places = {
        "$": fleet, "gpus": fleet["gpus"][0], "model": fleet["models"][0],
        "traffic": fleet["models"][0]["traffic"], "slo": fleet["models"][0]["slo"],
    }  # fmt: skip
    alone = faults(fleet)
    assert {f"$.models[0].{path}" for path in WRONG} <= set(alone)
    assert "$.models[0].traffic.context_tokens.p95" in alone
    places[where]["colour"] = "red"
    both = faults(fleet)
    assert set(both) - set(alone) == {path for path in both if path.endswith(".colour")}
    assert len(both) == len(alone) + 1


@pytest.mark.parametrize("key", ["name", "model", "traffic"])
def test_a_missing_or_misspelt_key_keeps_no_other_fault_back(key: str) -> None:
    """`trafic` is said to be none, and that `traffic` is missing; how much there is, is not asked."""
    fleet = all_wrong()
    model = fleet["models"][0]
    model[key[:-1]] = model.pop(key)
    found = faults(fleet)
    assert f"$.models[0].{key[:-1]}" in found
    assert f"{key!r} is missing" in found[f"$.models[0].{key}"].message
    kept = {path for path in WRONG if not path.startswith(key)}
    assert {f"$.models[0].{path}" for path in kept} <= set(found)
    assert set(found) <= {f"$.models[0].{path}" for path in (*kept, key, key[:-1], "traffic.context_tokens.p95")}


def test_what_is_misspelt_is_not_also_missed() -> None:
    fleet = one(traffic={"concurent": 8, "context_tokens": {"p95": 2048}})
    assert list(faults(fleet)) == ["$.models[0].traffic.concurent"]
    fleet = one()
    fleet["gpus"][0] = {"type": "L4", "cuont": 2}
    assert list(faults(fleet)) == ["$.gpus[0].cuont"]


def test_pins_are_not_counted_against_a_broken_count() -> None:
    fleet = one(pin={"gpus": [4]})
    fleet["gpus"][0]["count"] = "eight"
    assert list(faults(fleet)) == ["$.gpus[0].count"]


@pytest.mark.parametrize(
    ("zone", "hint"),
    [("Asia/Tokio", "did you mean 'Asia/Tokyo'?"), ("Mars/Olympus", "such as UTC or Europe/Berlin")],
)
def test_a_time_zone_that_is_none_meets_the_nearest(zone: str, hint: str) -> None:
    lengths = {"input_tokens": {"p95": 100}, "output_tokens": {"p95": 100}}
    found = faults(one(traffic={"requests_per_second": 1, **lengths, "by_hour": [1] * 24, "timezone": zone}))
    assert (found["$.models[0].traffic.timezone"].message, found["$.models[0].traffic.timezone"].hint) == (
        f"no time zone is called {zone!r}", hint,
    )  # fmt: skip
