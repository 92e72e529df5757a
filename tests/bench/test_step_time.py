"""The benchmark of step times on records made here: what is compared, left out, ordered and fitted."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from bench.step_time import main, rows
from bench.step_time_predict import predict
from bench.step_time_refit import leave_one_out, refit
from bench.step_time_rows import LeftOutError, Record, situation
from bench.step_time_score import Pair, order_everywhere, order_missed, order_right, score
from bench.step_time_steps import read_steps
from cotenant.estimation.step_constants import FITTED

_ABSENT = ("engine_version", "kv_dtype", "request_rate", "latency_s", "output_tps", "total_tps", "note")
_FIGURES = ("ttft_ms", "ttft_ms_p50", "tpot_ms", "tpot_ms_p50", "itl_ms", "itl_ms_p50")
_EMPTY = dict.fromkeys((*_ABSENT, *_FIGURES))


def record(**changes: object) -> Record:
    base = {
        "id": "r1", "pub": "Ours", "arch": "llama3-8b", "precision": "bf16", "gpu": "H100", "tp": 1, "pp": 1,
        "ep": 1, "attn_dp": 1, "engine": "vllm", "kind": "serving", "isl": 1024, "osl": 256, "concurrency": 16,
    }  # fmt: skip
    return _EMPTY | base | changes


def measured_with(fitted, **changes: object) -> Record:
    """A record whose published figures are what `fitted` says."""
    asked = record(**changes)
    found = predict(situation(asked, fitted), fitted)
    return {**asked, "tpot_ms": found.tpot_s * 1e3, "ttft_ms": found.ttft_s * 1e3}


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"arch": None}, "architecture"),
        ({"isl": None}, "input length"),
        ({"note": "prefix caching may flatter TTFT"}, "prefix caching"),
        ({"kind": "serving_mtp"}, "speculative"),
        ({"attn_dp": 8}, "data parallel"),
        ({"tp": 72}, "node"),
        ({"concurrency": None}, "neither a concurrency nor a request rate"),
        ({"pub": "InferenceX-token-position", "arch": "glm-5"}, "MTP"),
        ({"kind": "offline_batch", "latency_s": 1.3, "total_tps": 197.0, "isl": 128, "osl": 128}, "one sequence"),
        ({"arch": "llama3-70b"}, "not one sequence fits"),
    ],
)
def test_a_record_that_does_not_say_enough_is_left_out_with_the_reason(
    changes: dict[str, object], why: str
) -> None:
    with pytest.raises(LeftOutError, match=why):
        predict(situation(record(**changes)))


def test_known_figures_come_out() -> None:
    """Qwen3-32B in BF16 on two H100 under vLLM 0.12 (NVIDIA's gap analysis): 18.0 ms a token at 8 in flight."""
    asked = record(arch="qwen3-32b", tp=2, osl=128, concurrency=8)
    assert predict(situation(asked)).tpot_s == pytest.approx(18.0e-3, rel=0.15)
    asked = record(arch="qwen3-32b", tp=4, isl=4096, osl=512, concurrency=64)
    found = predict(situation(asked))
    assert found.tpot_s == pytest.approx(predict(situation({**asked, "concurrency": 32})).tpot_s, rel=0.8)
    assert found.ttft_s == pytest.approx(0.905, rel=0.35)


def test_requests_beyond_the_cache_queue() -> None:
    few, many = (predict(situation(record(arch="qwen3-32b", concurrency=each))) for each in (4, 4000))
    assert many.batch < 4000
    assert many.ttft_s > 10 * few.ttft_s


def test_scores_and_rows() -> None:
    exact = [measured_with(FITTED, id=f"r{number}", concurrency=number) for number in (1, 4, 16)]
    wrong = {**exact[2], "id": "far", "tpot_ms": exact[2]["tpot_ms"] * 5}
    found = {row.id: row for row in rows(score([*exact, wrong, record(arch=None)]))}
    assert found["tpot_median"].value == pytest.approx(0)
    assert found["tpot_p90"].value == pytest.approx(0.8)
    assert found["interval_coverage"].value == pytest.approx(0.75)
    assert found["throughput_median"].value is None
    assert found["tpot_median"].details["records_left_out"] == 1
    assert set(found) == {
        "tpot_median", "tpot_p90", "ttft_median", "throughput_median", "order_right", "interval_coverage",
        "ttft_coverage", "interval_ratio_median", "tpot_median_anchored", "ttft_median_anchored",
    }  # fmt: skip


def test_order_compares_settings_under_one_load() -> None:
    def pair(tp: int, published: float, ours: float, concurrency: int = 8) -> Pair:
        return Pair(record(tp=tp, concurrency=concurrency), published, ours, 0.7, 1.5)

    pairs = [pair(1, 10, 12), pair(2, 6, 5), pair(4, 5.8, 7), pair(8, 3, 6), pair(8, 100, 1, concurrency=9)]
    assert order_right(pairs) == (4 / 5, 5)  # 6 and 5.8 do not differ; 5 < 6 where 6 > 3 is wrong
    assert order_missed(pairs) == [("tp", 1, 5)]
    assert order_right([pair(1, 10, 5), pair(2, 6, 5)]) == (0, 1)  # a tie is no order
    right, count = order_everywhere(pairs)
    assert (count, right) == (9, pytest.approx(4 / 9))


def test_a_refit_finds_the_constants_that_made_the_records() -> None:
    truth = replace(FITTED, compute_16=0.5, vllm_layer_s=80e-6)
    made = [
        measured_with(truth, id=f"{tokens}-{number}", isl=tokens, concurrency=number, pub=pub)
        for tokens in (512, 4096)
        for number in (2, 16)
        for pub in ("A", "B")
    ]
    found = refit(made, rounds=3)
    before, after = score(made), score(made, found)
    assert max(pair.error for pair in after.tpot) < 0.5 * max(pair.error for pair in before.tpot)
    unseen = leave_one_out(made)
    assert [each.publication for each in unseen] == ["A", "B"]
    assert all(len(each.scored.tpot) == 4 for each in unseen)


def test_the_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "records.jsonl"
    path.write_text("\n".join(json.dumps(measured_with(FITTED, concurrency=number)) for number in (1, 8)))
    steps = tmp_path / "steps.csv"
    steps.write_text(
        "model,device,tp,input_len,batch,prefill_s,decode_step_s\n"
        "llama2_7b,A100,1,1024,8,0.7,0.016\nqwen-7b,A10(sim),1,16,1,0.03,0.03\nnobody,A100,1,16,1,0.03,0.03\n"
    )
    assert main(["--records", str(path), "--step-times", str(steps), "--json"]) in (0, 1)
    found = {row["id"]: row for row in json.loads(capsys.readouterr().out)}
    assert found["tpot_median"]["holds"] is True
    assert found["decode_step_median"]["rows"] == 1
    read = read_steps(steps)
    assert (read.left_out["simulated, not measured"], read.left_out["model not in the catalogue"]) == (1, 1)
    assert read.decode[0] < 0.5
