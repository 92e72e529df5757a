"""The benchmark that holds the log reader to records: what counts as equal, as a miss and as misread."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.explain import check_gpu, check_llama, main, report

EMPTY: dict[str, Any] = dict.fromkeys(
    ("weights_gib", "activation_peak_gib", "non_torch_gib", "cudagraph_gib", "available_kv_gib", "kv_cache_tokens")
)
ROW = {
    **EMPTY,
    "id": "a",
    "engine": "vllm",
    "weights_gib": 14.9889,
    "available_kv_gib": 55.1461,
    "raw": [
        "Model loading took 14.9889 GiB and 3 seconds",
        "Current kv cache memory in use is 59212694937 bytes.",
    ],
}


def test_equal_to_the_digits_of_the_record() -> None:
    assert [(one.field, one.reason) for one in check_gpu(ROW)] == [("weights_gib", ""), ("available_kv_gib", "")]


def test_another_figure_is_misread() -> None:
    (weights, _) = check_gpu({**ROW, "weights_gib": 14.99})
    assert weights.reason == ""  # the record was rounded
    (weights, _) = check_gpu({**ROW, "weights_gib": 14.9})
    assert weights.reason == "read otherwise"
    assert report([weights])["misread"] == 1


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (["it took 14.9889 GiB"], "a sentence of the post"),
        (["| weights | 14.9889 |"], "a table in the post"),
        (["no figure"], "do not hold it"),
    ],
)
def test_why_a_figure_was_not_read(raw: list[str], reason: str) -> None:
    (checked,) = check_gpu({**ROW, "available_kv_gib": None, "raw": raw})
    assert reason in checked.reason


def test_buffers_by_device() -> None:
    measured = {"model_buffer_mib": {"CUDA0": 5060.88}, "kv_buffer_mib": {"CUDA0": 512.0}, "kv_total_mib": 512.0}
    raw = ["load_tensors:        CUDA0 model buffer size =  5060.88 MiB",
           "llama_kv_cache:      CUDA0 KV buffer size =   512.00 MiB"]  # fmt: skip
    assert [one.reason for one in check_llama({"id": "b", "measured": measured, "raw": raw})] == ["", "", ""]


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    records = tmp_path / "r.jsonl"
    records.write_text(json.dumps(ROW) + "\n")
    assert main(["--gpu-records", str(records), "--json"]) == 0
    parts = json.loads(capsys.readouterr().out)
    assert sum(part["equal"] for part in parts.values()) == 2
    assert main(["--gpu-records", str(records)]) == 0
    assert "2 of 2 fields equal (100.0%), 0 read otherwise" in capsys.readouterr().out
