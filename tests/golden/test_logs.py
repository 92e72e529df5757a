"""`cotenant explain` on each log of tests/golden/logs prints exactly what stands beside it.

The logs were written from figures that engines printed in public logs. After a change that is meant, write the new
outputs:

    COTENANT_UPDATE_EXAMPLES=1 python -m pytest tests/golden
"""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from cotenant.cli.root import cli

FOLDER = Path(__file__).parent / "logs"
LOGS = sorted(FOLDER.glob("*.log"))
UPDATE = bool(os.environ.get("COTENANT_UPDATE_EXAMPLES"))
# What the log does not say, by its name.
OPTIONS = {
    "sglang-too-little": "--gpu A800-80GB-SXM",
    "tensorrt-llm": "--model meta-llama/Meta-Llama-3-8B-Instruct --gpu H200",
    "tensorrt-llm-engine": "--model meta-llama/Llama-2-7b-chat-hf --gpu A100-80GB-SXM",
    "tgi-fits": "--gpu H100-80GB-SXM",
    "tgi-warm-up": "--gpu RTX-3090",
    "two-services": "--gpu H100-80GB-SXM",
    "vllm-co-located": "--gpu RTX-4080 --model llava-hf/llava-1.5-7b-hf",
    "vllm-hybrid": "--gpu RTX-4090-D",
    "vllm-lora": "--gpu T4",
    "vllm-out-of-memory": "--gpu H100-80GB-SXM",
    "vllm-v0-fits": "--gpu RTX-A5000",
}
# (weights GiB, KV cache GiB, tokens or blocks, outcome) as the record says them; None: not printed.
RECORDED = {
    "llama-cpp": ("llama.cpp", None, None, "fits"),
    "llama-cpp-out-of-memory": ("llama.cpp", None, None, "oom"),
    "ollama": ("ollama", None, None, "fits"),
    "sglang": ("sglang", 15.11, 54.04, "fits"),
    "sglang-too-little": ("sglang", 7.68, None, "oom"),
    "tensorrt-llm": ("tensorrt-llm", 15.06, 109.96, "fits"),
    "tensorrt-llm-engine": ("tensorrt-llm", 6.5215, 63.44, "fits"),
    "tgi-fits": ("tgi", None, None, "fits"),
    "tgi-warm-up": ("tgi", None, None, "oom"),
    "two-services": ("vllm", 14.1062, 56.24, "fits"),
    "vllm-co-located": ("vllm", None, None, "oom"),
    "vllm-hybrid": ("vllm", 8.61, 10.21, "fits"),
    "vllm-lora": ("vllm", 6.2473, 1.74, "fits"),
    "vllm-out-of-memory": ("vllm", 64.38, None, "oom"),
    "vllm-pool-too-small": ("vllm", None, 88.38, "oom"),
    "vllm-v0-fits": ("vllm", 15.3916, None, "fits"),
    "vllm-v1-fits": ("vllm", 56.9342, 18.15, "fits"),
}


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "HF_HOME"):
        monkeypatch.setenv(variable, str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.chdir(FOLDER.parents[2])


def run(log: Path, *more: str) -> str:
    words = ["explain", str(log.relative_to(Path.cwd())), *shlex.split(OPTIONS.get(log.stem, "")), *more]
    result = CliRunner().invoke(cli, words, prog_name="cotenant")
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize("log", LOGS, ids=[log.stem for log in LOGS])
def test_the_output_is_the_one_that_is_kept(log: Path) -> None:
    options = f" {OPTIONS[log.stem]}" if log.stem in OPTIONS else ""
    lines = [line.rstrip() for line in run(log).splitlines()]
    shown = "\n".join([f"$ cotenant explain {log.relative_to(Path.cwd())}{options}", *lines]) + "\n"
    kept = log.with_suffix(".txt")
    if UPDATE:
        kept.write_text(shown, encoding="utf-8")
    assert shown == kept.read_text(encoding="utf-8")


@pytest.mark.parametrize("log", LOGS, ids=[log.stem for log in LOGS])
def test_the_document_holds_the_recorded_figures(log: Path) -> None:
    document = json.loads(run(log, "--json"))
    engine, weights, pool, outcome = RECORDED[log.stem]
    measured = document["measured"]
    assert (measured["engine"], measured["outcome"], document["verdict"]) == (engine, outcome, outcome)
    if engine not in ("llama.cpp", "ollama"):
        assert (measured["weights_gib"], measured["available_kv_gib"]) == (weights, pool)
    assert document["schema"] == "cotenant/explain/1"
    assert (document["shortfall_bytes"] == 0) == (outcome == "fits")
    for change in document["changes"]:
        assert change["spare_bytes"] >= 0
        assert change["estimate"]["schema"] == "cotenant/estimate/1"
        assert change["becomes"] != change["was"]


def test_every_log_has_its_record() -> None:
    assert {log.stem for log in LOGS} == set(RECORDED)
