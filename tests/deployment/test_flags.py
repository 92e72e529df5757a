"""Every flag that is written is one that the engine's version takes (tests/contracts/flags, from its source)."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cotenant.deployment.container import arguments
from cotenant.deployment.launch import launches, with_own_ports
from cotenant.domain.engine import AdapterSlots, EngineSettings, Version
from cotenant.domain.llama_cpp import LlamaCppOptions
from cotenant.domain.plan import Plan
from cotenant.domain.workload import Adapter
from cotenant.engines import find_engine
from cotenant.engines.hosting import hosting_of
from tests.deployment.conftest import plan_of

FLAGS = Path(__file__).parents[1] / "contracts" / "flags"
ENGINES = sorted(path.stem for path in FLAGS.glob("*.json"))


def known(engine: str) -> tuple[str, set[str]]:
    """(version, flags) of what was read."""
    found: dict[str, Any] = json.loads((FLAGS / f"{engine}.json").read_text(encoding="utf-8"))
    return found["version"], set(found["flags"])


def flags_of(words: tuple[str, ...] | list[str]) -> set[str]:
    """The words that are flags of the engine; `-m` after `python` is Python's."""
    own = words[1:] if words[0] == "-m" else words[2:] if words[0].startswith("python") else words
    return {word for word in own if word.startswith("-") and not word[1:2].isdigit()}


def everything(engine: str) -> EngineSettings:
    """Settings that ask for every flag that the engine's rules can render."""
    words = LlamaCppOptions(
        n_ctx=8192, n_ctx_slot=2048, n_parallel=4, n_batch=512, n_ubatch=256, n_gpu_layers=99, flash_attn=True,
        type_k="q8_0", type_v="q8_0", kv_unified=True, swa_full=True, kv_offload=False, tensor_split=(1.0, 1.0),
        n_cpu_moe=4,
    )  # fmt: skip
    return EngineSettings(
        tensor_parallel_size=2, pipeline_parallel_size=2, dtype="bf16", kv_cache_dtype="fp8", max_model_len=4096,
        max_num_seqs=8, max_num_batched_tokens=2048, gpu_memory_utilization=0.5, kv_cache_memory_bytes=2**30,
        block_size=16, enforce_eager=engine == "vllm", enable_expert_parallel=True, adapters=AdapterSlots(2, 16),
        data_parallel_size=1 if engine == "vllm" else 2, llama_cpp=words, kv_cache_tokens=4096,
        max_input_tokens=2048, max_graph_batch=8,
    )  # fmt: skip


@pytest.mark.parametrize("engine", ENGINES)
def test_all_that_the_rules_can_say_is_known(engine: str) -> None:
    version, flags = known(engine)
    rules, parsed = find_engine(f"{engine}@{version}")
    argv = rules.arguments(
        everything(engine), version=parsed, model_path="owner/name", port=8000, quantization="fp8",
        served_name="name", adapters=(Adapter("a", 16, "owner/a"),),
    )  # fmt: skip
    unknown = flags_of(argv) - flags
    assert not unknown
    assert len(flags_of(argv)) >= 8


def at_version(plan: Plan, version: str) -> Plan:
    """The plan with its engines' version replaced."""
    return replace(plan, replicas=tuple(replace(one, engine_version=version) for one in plan.replicas))


@pytest.mark.parametrize("engine", ENGINES)
def test_what_exporters_add_is_known_too(engine: str) -> None:
    version, flags = known(engine)
    for one in launches(at_version(plan_of(engine), version)):
        assert flags_of(arguments(with_own_ports(one), metrics=True)) <= flags


@pytest.mark.parametrize(
    ("engine", "told", "image"),
    [
        ("vllm", "0.21", "vllm/vllm-openai:v0.21.0"),
        ("vllm", "v0.8.5.post1", "vllm/vllm-openai:v0.8.5.post1"),
        ("sglang", "0.5.9", "lmsysorg/sglang:v0.5.9"),
        ("tgi", "3.3", "ghcr.io/huggingface/text-generation-inference:3.3.0"),
        ("tensorrt-llm", "1.2.1", "nvcr.io/nvidia/tensorrt-llm/release:1.2.1"),
        ("llama.cpp", "9849", "ghcr.io/ggml-org/llama.cpp:server-cuda-b9849"),
        ("ollama", "0.20.2", "ollama/ollama:0.20.2"),
    ],
)
def test_each_engine_has_its_published_image(engine: str, told: str, image: str) -> None:
    hosting = hosting_of(engine)
    assert hosting.image(Version.parse(told)) == image
    assert hosting.health.startswith("/")
    assert hosting.files_dir.startswith("/")
