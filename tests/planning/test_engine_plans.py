"""Plans for SGLang, TGI and TensorRT-LLM: runnable commands, and fractions that count who starts before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from cotenant import plan
from cotenant.domain.plan import Plan, ReplicaPlan


def fleet(engine: str) -> Mapping[str, Any]:
    traffic = {"concurrent": 8, "context_tokens": {"p95": 4096, "max": 8192}}
    models = ("meta-llama/Llama-3.1-8B-Instruct", "Qwen/Qwen2.5-7B-Instruct")
    return {
        "engine": engine,
        "headroom": "12%",
        "gpus": [{"type": "A100-80GB-SXM", "count": 1}],
        "models": [
            {"name": name, "model": model, "quantization": ["bf16"], "traffic": traffic}
            for name, model in zip(("chat", "code"), models, strict=True)
        ],
    }


def in_order(found: Plan) -> tuple[ReplicaPlan, ReplicaPlan]:
    first, second = sorted(found.replicas, key=lambda one: one.start_order)
    return first, second


def test_sglang_is_given_its_pools_in_tokens() -> None:
    for replica in plan(fleet("sglang@0.5.9")).replicas:
        command = " ".join(replica.command)
        assert command.startswith("python -m sglang.launch_server --model-path ")
        assert f"--max-total-tokens {replica.settings.kv_cache_tokens}" in command
        assert replica.beside_bytes == 0


@pytest.mark.parametrize(("engine", "flag"), [
    ("tgi@3.3", "--cuda-memory-fraction"), ("tgi@2.2", "--cuda-memory-fraction"),
    ("tensorrt-llm", "--kv_cache_free_gpu_memory_fraction"),
])  # fmt: skip
def test_whoever_starts_second_gets_the_fraction_that_it_needs_there(engine: str, flag: str) -> None:
    found = plan(fleet(engine))
    assert found.feasible
    first, second = in_order(found)
    assert first.beside_bytes == 0
    assert second.beside_bytes > 15 * 2**30  # at least the other's weights
    for replica in (first, second):
        share = float(replica.command[replica.command.index(flag) + 1])
        assert share == pytest.approx(replica.settings.gpu_memory_utilization, abs=1e-4)
    if engine.startswith("tgi"):
        usable = 0.9 if engine == "tgi@3.3" else 1.0
        alone = second.settings.gpu_memory_utilization - second.beside_bytes / (
            usable * found.gpus[0].capacity_bytes
        )
        assert 0.2 < alone < 0.4


def test_every_pool_holds_its_need_and_the_headroom_stays() -> None:
    for engine in ("sglang", "tgi", "trtllm"):
        found = plan(fleet(engine))
        gpu = found.gpus[0]
        taken = sum(share.claimed_bytes for share in gpu.shares)
        assert gpu.capacity_bytes - taken >= 0.12 * gpu.capacity_bytes
        needed = {replica.id: replica.kv_needed_bytes for replica in found.replicas}
        assert all(share.kv_cache_bytes >= needed[share.replica] for share in gpu.shares)
