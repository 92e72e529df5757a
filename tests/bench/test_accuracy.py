import json
from pathlib import Path

import pytest

from bench import accuracy
from tests.estimation.conftest import LLAMA_8B

IDS = {
    "kv_bytes_within_1pct", "weights_within_2pct", "weights_within_5pct", "kv_pool_median", "kv_pool_p90",
    "false_fits", "false_oom", "uncertain", "llama_kv_within", "llama_compute_median", "llama_compute_p90",
    "interval_coverage", "interval_width_median",
}  # fmt: skip
FIELDS = [
    "id", "engine", "engine_version", "model", "gpu", "gpu_mem_gib", "num_gpus", "tensor_parallel",
    "pipeline_parallel", "data_parallel", "expert_parallel", "dtype", "quantization", "kv_cache_dtype",
    "max_model_len", "max_num_seqs", "max_num_batched_tokens", "gpu_memory_utilization", "block_size",
    "enforce_eager", "lora", "speculative", "weights_gib", "available_kv_gib", "kv_cache_tokens",
    "max_concurrency", "max_concurrency_len", "needed_kv_gib", "needed_kv_seq_len", "outcome", "raw",
    "config_file", "config_exact", "sglang_k_gib", "sglang_v_gib",
]  # fmt: skip


def record(**given) -> dict:
    """What an L4 printed for Llama-3.1-8B on vLLM 0.11.0, unless said otherwise."""
    usual = {
        "id": "one", "engine": "vllm", "engine_version": "0.11.0", "model": "Llama-3.1-8B", "gpu": "L4",
        "num_gpus": 1, "tensor_parallel": 1, "max_model_len": 32000, "max_num_seqs": 128,
        "max_num_batched_tokens": 2048, "gpu_memory_utilization": 0.92, "weights_gib": 14.9889,
        "available_kv_gib": 4.75, "kv_cache_tokens": 38944, "outcome": "fits", "config_file": "llama.json",
        "config_exact": True, "raw": ["Available KV cache memory: 4.75 GiB"],
    }  # fmt: skip
    return {**dict.fromkeys(FIELDS), **usual, **given}


@pytest.fixture
def measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    def run(*records: dict) -> dict:
        (tmp_path / "llama.json").write_text(json.dumps(LLAMA_8B))
        rows = tmp_path / "rows.jsonl"
        rows.write_text("\n".join(map(json.dumps, records)))
        argv = ["--gpu-records", str(rows), "--llama-records", str(rows), "--configs", str(tmp_path), "--json"]
        assert accuracy.main(argv) == 0
        return {entry["id"]: entry for entry in json.loads(capsys.readouterr().out)}

    return run


def test_every_id_is_there_and_a_right_row_holds(measured):
    found = measured(record())
    assert set(found) == IDS
    for name in ("kv_bytes_within_1pct", "weights_within_2pct", "false_oom", "interval_coverage"):
        assert found[name]["holds"], found[name]
        assert found[name]["eligible"] == found[name]["answered"]
    assert found["kv_pool_median"]["value"] < 0.015
    assert found["llama_kv_within"]["holds"] is None
    assert found["llama_kv_within"]["reason"] == "no eligible row"


def test_a_refusal_counts_as_wrong(measured):
    found = measured(record(), record(id="two", num_gpus=3, tensor_parallel=3))
    assert found["weights_within_2pct"]["value"] == 0.5
    assert found["weights_within_2pct"]["eligible"] == 2
    assert found["weights_within_2pct"]["answered"] == 1
    assert found["kv_pool_p90"]["value"] == 1.0
    assert not found["false_oom"]["holds"]


def test_measured_fields_change_no_estimate(measured):
    right = measured(record())
    wrong = measured(record(weights_gib=7.0, available_kv_gib=9.0, kv_cache_tokens=1000))
    assert wrong["weights_within_2pct"]["value"] == 0
    assert wrong["interval_width_median"]["value"] == right["interval_width_median"]["value"]


def test_fits_said_of_a_row_that_ran_out_is_the_worst(measured):
    found = measured(record(outcome="oom"))
    assert found["false_fits"]["value"] == 1
    assert not found["false_fits"]["holds"]


def test_what_a_metric_needs_must_not_be_null(measured):
    found = measured(record(tensor_parallel=None, num_gpus=None), record(id="no-config", config_file=None))
    assert found["weights_within_2pct"]["eligible"] == 0
    assert found["weights_within_2pct"]["holds"] is None


@pytest.mark.parametrize(
    "given",
    [
        {"engine_version": "nightly"},
        {"engine_version": "0.2.7"},
        {"engine_version": "0.15.2rc1.dev93+g11a4c9d30"},
        {"quantization": "compressed-tensors"},
        {"quantization": "torchao"},
        {"kv_cache_dtype": "turboquant (k8v4)"},
        {"gpu_memory_utilization": 92},
        {"gpu": "1x NVIDIA L4 (cloud)"},
    ],
    ids=str,
)
def test_a_record_in_peoples_words_is_answered(measured, given):
    assert measured(record(**given))["kv_pool_median"]["answered"] == 1
