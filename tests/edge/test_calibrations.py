"""Calibrations: kept, fitted anew, used by estimates that are narrower then and say so; set aside when damaged."""

from __future__ import annotations

import json
import multiprocessing
import os
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cotenant
from cotenant.domain.interval import Interval
from cotenant.edge.calibrations import calibrations_dir, keep, saved_calibrations
from cotenant.errors import FormatError, InputError
from cotenant.estimation.calibrated import scaled
from cotenant.verification.fit import factor, residuals

LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
WHERE = {"engine": "vllm", "version": "0.21", "gpu": "L4", "family": "llama"}


@pytest.fixture(autouse=True)
def _alone(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))


def estimate(**more):
    return cotenant.estimate(LLAMA, gpu="L4", engine="vllm@0.21", max_model_len=8192, max_num_seqs=8, **more)


def spread(term) -> float:
    return (term.bytes.high - term.bytes.low) / term.bytes.value


def test_an_estimate_follows_what_was_measured_is_narrower_and_says_so():
    before = estimate()
    assert before.calibration is None
    rank = before.per_gpu[0]
    version = before.engine_version
    where = WHERE | {"version": version, "family": before.model.family}
    for number, share in enumerate((1.1, 1.12, 1.14)):
        pairs = {"runtime": (share * rank.runtime.bytes.value, rank.runtime.bytes.value)}
        keep(pairs, **where, source=f"run {number}")
    after = estimate()
    assert after.calibration is not None
    runtime = after.per_gpu[0].runtime
    assert runtime.bytes.value == pytest.approx(1.12 * rank.runtime.bytes.value, rel=1e-3)
    assert spread(runtime) < 0.5 * spread(rank.runtime)
    assert spread(after.per_gpu[0].kv_cache) < spread(rank.kv_cache)  # what the budget leaves is known better
    assert any("as measured" in text for text in after.warnings)
    assert after.per_gpu[0].weights == rank.weights
    assert estimate(calibration=False) == before


@pytest.mark.parametrize(
    "other", [{"gpu": "A100-80GB-SXM"}, {"engine": "sglang"}, {"version": "0.9"}, {"family": "x"}]
)
def test_another_card_engine_version_or_family_changes_nothing(other):
    before = estimate()
    where = WHERE | {"version": before.engine_version, "family": before.model.family} | other
    keep({"runtime": (2.0, 1.0)}, **where, source="elsewhere")
    assert estimate() == before


def test_the_same_measurement_again_replaces_itself():
    keep({"runtime": (2.0, 1.0)}, **WHERE, source="one")
    keep({"runtime": (1.5, 1.0)}, **WHERE, source="one")
    (found,) = saved_calibrations()
    assert found.factors["runtime"].measurements == 1
    assert found.factors["runtime"].value == pytest.approx(1.5)


def _writer(number: int) -> None:
    for place in range(10):
        keep({"runtime": (1.0 + place / 100, 1.0)}, **WHERE, source=f"{number}/{place}")


def test_two_writers_lose_nothing():
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=_writer, args=(number,)) for number in range(2)]
    for one in writers:
        one.start()
    for one in writers:
        one.join()
        assert one.exitcode == 0
    (found,) = saved_calibrations()
    assert found.factors["runtime"].measurements == 20


def test_a_damaged_file_is_named_and_set_aside():
    keep({"runtime": (2.0, 1.0)}, **WHERE, source="one")
    (path,) = [one for one in calibrations_dir().iterdir() if one.suffix == ".json"]
    path.write_text('{"schema": ')
    with pytest.raises(FormatError, match=r"damaged") as error:
        saved_calibrations()
    assert ".corrupt" in error.value.hint
    assert saved_calibrations() == ()


@pytest.mark.parametrize(
    "document",
    [
        [], 3, {"schema": "cotenant/plan/1"}, {"schema": "cotenant/calibration/1"},
        {"schema": "cotenant/calibration/1", **WHERE, "measurements": []},
        {"schema": "cotenant/calibration/1", **WHERE, "measurements": [{"source": "x", "pairs": {"a": [1, 0]}}]},
        {"schema": "cotenant/calibration/1", **WHERE, "measurements": [{"source": "x", "pairs": {"a": "12"}}]},
    ],
)  # fmt: skip
def test_what_is_no_calibration_is_refused_and_left_alone(document):
    calibrations_dir().mkdir(parents=True)
    path = calibrations_dir() / "mine.json"
    path.write_text(json.dumps(document))
    with pytest.raises(FormatError, match="is no calibration"):
        saved_calibrations()
    assert path.exists()


def test_what_was_something_else_is_refused():
    with pytest.raises(InputError, match="30 times what is predicted"):
        keep({"runtime": (30.0, 1.0)}, **WHERE, source="one")
    with pytest.raises(InputError):
        keep({"runtime": (0.0, 1.0)}, **WHERE, source="one")


def test_one_outlier_does_not_move_a_factor():
    pairs = [(1.10, 1.0), (1.11, 1.0), (1.12, 1.0), (1.13, 1.0), (9.0, 1.0)]
    found = factor("runtime", pairs)
    assert found.value == pytest.approx(1.12)
    assert found.high < 1.2
    assert max(residuals(pairs, found)) > 5


@given(
    st.integers(0, 2**40), st.integers(0, 2**40), st.integers(0, 2**40), st.floats(0.1, 10), st.floats(0.5, 1),
    st.floats(1, 2),
)  # fmt: skip
def test_scaled_is_never_wider(low, value, high, by, below, above):
    from cotenant.domain.calibration import Factor

    low, value, high = sorted((low, value, high))
    before = Interval(low, value, high)
    after = scaled(before, Factor(by, below, above))
    assert after.high - after.low <= before.high - before.low + 2


def test_a_server_on_a_processor_follows_what_its_kernel_said():
    own = {"ctx_size": 4096, "parallel": 2, "n_gpu_layers": 0}

    def on_host(**more):
        return cotenant.estimate(
            LLAMA, gpu="L4", engine="llama.cpp", quantization="gguf-q4_k_m", options=own, **more
        )

    before = on_host()
    where = {"engine": "llama.cpp", "version": before.engine_version, "gpu": "CPU", "family": before.model.family}
    expected = before.host.runtime.value
    for number in range(3):
        keep({"runtime": (1.2 * expected, float(expected))}, **where, source=f"run {number}")
    after = on_host()
    assert after.host.runtime.value == pytest.approx(1.2 * expected, rel=1e-6)
    assert (
        after.host.runtime.high - after.host.runtime.low < (before.host.runtime.high - before.host.runtime.low) / 2
    )
    assert (after.host.weights, after.host.kv_cache) == (before.host.weights, before.host.kv_cache)
    assert after.per_gpu == before.per_gpu or after.calibration
    assert on_host(calibration=False) == before


def test_a_plan_and_its_replay_follow_it_too():
    fleet = {
        "engine": "vllm@0.21",
        "gpus": [{"type": "L4", "count": 1}],
        "models": [{"name": "chat", "model": LLAMA, "quantization": ["fp8"],
                    "traffic": {"requests_per_second": 0.2, "input_tokens": {"p50": 200, "p95": 500},
                                "output_tokens": {"p50": 50, "p95": 100}}}],
    }  # fmt: skip
    before = cotenant.plan(fleet)
    slow = cotenant.simulate(fleet, duration="30s")
    family = cotenant.load_model(LLAMA).spec.family
    where = {"engine": "vllm", "version": before.replicas[0].engine_version, "gpu": "L4", "family": family}
    keep({"decode_step": (0.05, 0.1), "runtime": (1.3, 1.0)}, **where, source="here")
    after = cotenant.plan(fleet)
    assert after.calibration is not None
    assert after.gpus[0].shares[0].runtime_bytes > before.gpus[0].shares[0].runtime_bytes
    fast = cotenant.simulate(fleet, duration="30s")
    assert fast.calibration is not None
    assert fast.models[0].tpot_s.p50 == pytest.approx(slow.models[0].tpot_s.p50 / 2, rel=0.1)
    assert cotenant.simulate(fleet, duration="30s", calibration=False).models == slow.models


def test_what_was_read_is_read_again_when_it_changes():
    keep({"runtime": (2.0, 1.0)}, **WHERE, source="one")
    old = time.time() - 100
    os.utime(calibrations_dir(), (old, old))
    assert saved_calibrations() is saved_calibrations()
    keep({"runtime": (4.0, 1.0)}, **WHERE, source="one")
    assert saved_calibrations()[0].factors["runtime"].value == pytest.approx(4.0)
