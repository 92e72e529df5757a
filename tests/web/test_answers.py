"""The page answers what the commands answer, byte for byte."""

from __future__ import annotations

import base64
import json
import random
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from gguf import GGUFWriter

from cotenant.cli.root import cli
from tests.web.conftest import LLAMA, Page

ROOT = Path(__file__).resolve().parents[2]


def printed(*arguments: str) -> bytes:
    """stdout of a command."""
    result = CliRunner().invoke(cli, [*arguments, "--json"], prog_name="cotenant")
    assert result.exit_code in (0, 1, 3), result.output
    return result.stdout_bytes


ESTIMATES = [
    ({}, []),
    ({"engine": "vllm@0.21", "max_model_len": 8192, "gpu_memory_utilization": 0.85},
     ["--engine", "vllm@0.21", "--max-model-len", "8192", "--gpu-memory-utilization", "0.85"]),
    ({"concurrent": 8, "context_tokens": {"p50": 700, "p95": 2048}, "tpot": "80ms", "kv_overflow": "2%"},
     ["--concurrent", "8", "--context-p50", "700", "--context-p95", "2048", "--tpot", "80ms", "--kv-overflow",
      "2%"]),
    ({"requests_per_second": 2, "input_tokens": {"p95": 600},
      "output_tokens": {"p50": 10, "p95": 99, "max": 400}},
     ["--requests-per-second", "2", "--input-p95", "600", "--output-p50", "10", "--output-p95", "99",
      "--output-max", "400"]),
    ({"engine": "ollama", "options": {"num_ctx": 8192}}, ["--engine", "ollama", "--set", "num_ctx=8192"]),
    ({"engine": "sglang", "options": {"mem_fraction_static": 0.7, "disable_cuda_graph": True}},
     ["--engine", "sglang", "--mem-fraction-static", "0.7", "--disable-cuda-graph"]),
    ({"engine": "llama.cpp", "options": {"n_gpu_layers": 0}}, ["--engine", "llama.cpp", "--n-gpu-layers", "0"]),
    ({"quantization": "fp8", "used": "2GiB", "tensor_parallel_size": 2, "enforce_eager": True},
     ["--quantization", "fp8", "--used", "2GiB", "-tp", "2", "--enforce-eager"]),
    ({"max_model_len": -5}, ["--max-model-len", "-5"]),
    ({"gpu": "A100-80GB-SMX"}, ["--gpu", "A100-80GB-SMX"]),
]  # fmt: skip


@pytest.mark.parametrize(("words", "arguments"), ESTIMATES)
def test_estimates(page: Page, words: dict[str, object], arguments: list[str]) -> None:
    answer = page.post("/api/estimate", {"model": LLAMA, "gpu": "L40S", **words})
    assert answer.body == printed("estimate", LLAMA, "--gpu", "L40S", *arguments)
    assert answer.status == (422 if b'"errors"' in answer.body[:20] else 200)


@pytest.mark.parametrize("example", ["a100-trio", "does-not-fit"])
def test_a_plan_and_what_follows_from_it(page: Page, example: str, tmp_path: Path) -> None:
    file = ROOT / "examples" / f"{example}.yaml"
    answer = page.job("/api/plan", {"fleet": file.read_text()})
    assert answer.body == printed("plan", str(file))
    plan = tmp_path / "plan.json"
    plan.write_bytes(answer.body)
    replay = page.job("/api/simulate", {"plan": answer.document, "duration": "5s", "seed": 3})
    assert replay.body == printed("simulate", str(plan), "--duration", "5s", "--seed", "3")
    files = page.post("/api/deploy", {"plan": answer.document, "target": "compose"})
    assert files.body == printed("deploy", str(plan), "--to", "compose")


def test_a_replay_under_conditions_is_the_command_lines(page: Page) -> None:
    """Arrivals, failures, clients that leave, who takes a request, who gives way: in one test."""
    fleet = str(ROOT / "examples" / "raw-figures.yaml")
    asked: dict[str, Any] = {
        "arrivals": "gamma:3", "timeout": "20s", "residency": "2s", "dispatch": "best-fit", "preempt": "cheapest",
        "patience": "3s", "hold": "1s", "policy": "swap", "fail": ["mtbf:60s+5s"], "duration": "40s", "seed": 5,
    }  # fmt: skip
    words = [word for key, value in asked.items() if key != "fail" for word in (f"--{key}", str(value))]
    theirs = printed("simulate", fleet, *words, "--fail", "mtbf:60s+5s")
    assert page.job("/api/simulate", {"fleet": Path(fleet).read_text(), **asked}).body == theirs
    refused = page.job("/api/simulate", {"fleet": Path(fleet).read_text(), "dispatch": "at-random", "fail": ["x"]})
    assert refused.status == 422
    assert refused.errors == ["no dispatch 'at-random'"]


def test_a_fleet_as_a_mapping_is_the_same_question(page: Page) -> None:
    text = (ROOT / "examples" / "a100-trio.json").read_text()
    assert page.job("/api/plan", {"fleet": json.loads(text)}).body == page.job("/api/plan", {"fleet": text}).body


def test_faults_of_a_fleet_come_all_at_once(page: Page, tmp_path: Path) -> None:
    text = "gpus: [{type: L4X, count: 0}]\nmodels: [{name: 'a b', model: nope, traffic: {}}]\n"
    (tmp_path / "fleet.yaml").write_text(text)
    theirs = json.loads(printed("plan", str(tmp_path / "fleet.yaml")))["errors"]
    ours = page.job("/api/plan", {"fleet": text})
    assert ours.status == 422
    assert [one["path"] for one in ours.document["errors"]] == [one["path"] for one in theirs]
    assert len(theirs) >= 3


def test_a_log_is_explained(page: Page) -> None:
    log = (ROOT / "tests" / "cli" / "short.log").read_text()
    answer = page.post("/api/explain", {"log": log, "gpu": "A100-80GB-SXM"})
    assert answer.body == printed("explain", str(ROOT / "tests" / "cli" / "short.log"), "--gpu", "A100-80GB-SXM")
    for path in ("/etc/passwd", "-", "tests/cli/short.log", "~/x", ""):
        refused = page.post("/api/explain", {"log": path})
        assert refused.status == 422
        assert "cannot read" not in refused.errors[0]


def test_a_hub_id_of_the_catalogue_is_inspected(page: Page) -> None:
    answer = page.post("/api/models", {"hub": LLAMA})
    assert answer.status == 201
    assert answer.document["id"] == LLAMA
    assert answer.document["inspect"] == json.loads(printed("inspect", LLAMA))


def test_an_upload_is_a_model_like_any_other(page: Page) -> None:
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "vocab_size": 32000,
        "intermediate_size": 11008, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
        "max_position_embeddings": 8192, "torch_dtype": "bfloat16",
    }  # fmt: skip
    for given in (config, json.dumps(config)):
        answer = page.post(
            "/api/models", {"config": given, "name": "C:\\evil\\..\\<script>alert(1)</script>.json"}
        )
        assert answer.status == 201
        told = answer.document
        assert told["id"].startswith("upload-")
        assert not set(told["name"]) & set("<>\\/()")
        assert told["inspect"]["kv_bytes_per_token"] == 2 * 32 * 8 * 128 * 2
    estimate = page.post("/api/estimate", {"model": told["id"], "gpu": "L40S"})
    assert estimate.status == 200
    assert estimate.document["fits"]
    fleet = {
        "gpus": [{"type": "L40S", "count": 1}],
        "models": [
            {"name": "own", "model": told["id"], "traffic": {"concurrent": 2, "context_tokens": {"p95": 999}}}
        ],
    }
    plan = page.job("/api/plan", {"fleet": fleet}).document
    assert plan["feasible"]
    assert page.job("/api/simulate", {"plan": plan, "duration": "2s"}).status == 200
    assert page.post("/api/check", {"plan": plan}).document["ok"]
    lost = page.post("/api/estimate", {"model": "upload-" + "0" * 32, "gpu": "L40S"})
    assert lost.errors == [f"no upload upload-{'0' * 32}: it was forgotten, or never came"]


def test_the_head_of_a_gguf_is_enough(page: Page, tmp_path: Path) -> None:
    writer = GGUFWriter(tmp_path / "m.gguf", "llama")
    writer.add_block_count(1)
    writer.add_context_length(4096)
    writer.add_embedding_length(64)
    writer.add_feed_forward_length(128)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_token_list([b"a", b"b"])
    import numpy

    writer.add_tensor("token_embd.weight", numpy.zeros((2, 64), dtype=numpy.float32))
    writer.add_tensor("blk.0.attn_q.weight", numpy.zeros((64, 64), dtype=numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    whole = (tmp_path / "m.gguf").read_bytes()
    head = base64.b64encode(whole[: len(whole) - 64 * 64 * 4]).decode()
    answer = page.post("/api/models", {"gguf": head, "size_bytes": len(whole), "name": "m.gguf"})
    assert answer.status == 201, answer.body
    assert answer.document["name"] == "m"
    assert answer.document["inspect"]["kv_bytes_per_token"] == 2 * 2 * 16 * 2
    short = page.post("/api/models", {"gguf": base64.b64encode(whole[:100]).decode(), "size_bytes": len(whole)})
    assert short.status == 422
    assert "ends early" in short.errors[0] or "goes on past the 100 bytes" in short.errors[0]
    assert page.post("/api/models", {"gguf": "!!!"}).status == 422


def test_random_fleets_have_the_same_bytes(page: Page, tmp_path: Path) -> None:
    """A few of the benchmark's `same_bytes`."""
    from bench.page import drawn_fleet

    for seed in range(3):
        fleet = drawn_fleet(random.Random(seed))
        (tmp_path / "fleet.json").write_text(json.dumps(fleet))
        assert page.job("/api/plan", {"fleet": fleet}).body == printed("plan", str(tmp_path / "fleet.json"))


def test_a_plan_is_replayed_under_another_fleets_traffic(page: Page) -> None:
    """As the page asks once a slider was turned: the plan drawn stays as it is, moved by hand or not."""
    fleet = json.loads((ROOT / "examples" / "a100-trio.json").read_text())
    plan = page.job("/api/plan", {"fleet": fleet}).document
    words = {"duration": "20s", "seed": 3}
    same = page.job("/api/simulate", {"plan": plan, "fleet": fleet, **words})
    assert same.document["models"] == page.job("/api/simulate", {"plan": plan, **words}).document["models"]
    busier = json.loads(json.dumps(fleet))
    for model in busier["models"]:
        model["traffic"]["requests_per_second"] = 3 * model["traffic"]["requests_per_second"]
    more = page.job("/api/simulate", {"plan": plan, "fleet": busier, **words}).document
    assert [one["id"] for one in more["replicas"]] == [one["id"] for one in plan["replicas"]]
    for before, after in zip(same.document["models"], more["models"], strict=True):
        assert after["requests"] > before["requests"]
    assert page.post("/api/simulate", words).status == 422
