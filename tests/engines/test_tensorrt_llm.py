"""TensorRT-LLM's rules against figures that its logs print."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant import estimate
from cotenant.catalogue.gpus import find_gpu
from cotenant.catalogue.quantization import find_format
from cotenant.domain.engine import AdapterSlots, EngineSettings, Version
from cotenant.domain.interval import Interval
from cotenant.domain.workload import Adapter
from cotenant.engines import find_engine
from cotenant.engines.tensorrt_llm import TENSORRT_LLM, extra_options
from cotenant.errors import UnsupportedError
from cotenant.estimation.inverse import beside, settings_for_pool
from cotenant.estimation.kv_cache import cache_layout
from cotenant.estimation.memory_terms import replica_memory
from cotenant.estimation.pool import room_of
from cotenant.units import GIB

A100, H200 = find_gpu("A100-80GB-SXM"), find_gpu("H200")
LLAMA = "meta-llama/Meta-Llama-3-8B-Instruct"
V12 = Version.parse("1.2.0rc4")


@pytest.mark.parametrize(
    ("share", "total", "spent", "pool"),
    [
        (0.9, 139.80, 17.76, 109.84),  # peak memory 17.76 GiB (torch and not); the log rounds up by its trial pool
        (0.25, 8.73, 0.0, 2.18),  # Qwen2.5-0.5B: a quarter of 8.73 GiB that were free
        (0.45, 16.25, 0.0, 7.31),
        (0.9, 17.83, 0.0, 16.05),
    ],
)
def test_the_pool_is_the_fraction_of_what_is_free_after_the_peak(share, total, spent, pool):
    room = room_of(
        TENSORRT_LLM, EngineSettings(gpu_memory_utilization=share), TENSORRT_LLM.rules(V12).pool,
        capacity=Interval.exact(round(total * GIB)), others=0, before=Interval.exact(0),
        spent=Interval.exact(round(spent * GIB)), first=0,
    )  # fmt: skip
    assert room.pool.value / GIB == pytest.approx(pool, abs=0.011)


@pytest.mark.parametrize(
    ("model", "tokens", "gib"),
    [
        (LLAMA, 900_800, 109.96),
        ("Qwen/Qwen2.5-0.5B-Instruct", 190_656, 2.18),
        ("Qwen/Qwen2.5-1.5B-Instruct", 273_792, 7.31),
    ],
)
def test_blocks_of_32_tokens_take_what_the_log_prints(spec, model, tokens, gib):
    loaded = spec(model)
    settings = TENSORRT_LLM.resolve(loaded, H200, EngineSettings(), V12)
    layout = cache_layout(loaded, settings, TENSORRT_LLM.rules(V12).cache)
    assert layout.groups[0].block_size == 32
    assert layout.bytes_of_tokens(tokens) / GIB == pytest.approx(gib, abs=0.006)
    assert layout.tokens_as_printed(tokens // 32, 1025, 1024) == tokens


def test_a_launch_is_answered_from_flags_alone(spec):
    """H200, 32 requests, 1,024 tokens, 0.9: 109.96 GiB for 900,800 tokens; weights 15.06 inside torch."""
    asked = EngineSettings(max_num_seqs=32, max_num_batched_tokens=1024, max_model_len=1025)
    memory = replica_memory(spec(LLAMA), H200, asked, engine=TENSORRT_LLM, version=V12, format=find_format("bf16"))
    room = memory.stages[0].room
    assert room.low <= 109.96 * GIB <= room.high
    assert room.value / GIB == pytest.approx(109.96, rel=0.01)


def test_defaults_are_those_of_trtllm_serve(spec):
    settings = TENSORRT_LLM.resolve(spec(LLAMA), A100, EngineSettings(), V12)
    assert (settings.max_num_seqs, settings.max_num_batched_tokens) == (2048, 8192)
    assert settings.gpu_memory_utilization == 0.9
    assert settings.max_model_len == 8192


def test_the_fraction_for_a_need_holds_it_and_more_of_it_beside_a_neighbour(spec):
    model, bf16 = spec(LLAMA), find_format("bf16")
    sizing = settings_for_pool(
        model, A100, EngineSettings(max_num_seqs=8, max_model_len=8192), engine=TENSORRT_LLM, version=V12,
        format=bf16, kv_bytes=4 * GIB,
    )  # fmt: skip
    alone = replica_memory(model, A100, sizing.settings, engine=TENSORRT_LLM, version=V12, format=bf16)
    assert alone.stages[0].room.low >= 4 * GIB
    assert alone.stages[0].room.value < 5 * GIB
    raised = beside(alone, 30 * GIB)
    together = replica_memory(
        model, A100, raised, engine=TENSORRT_LLM, version=V12, format=bf16, used_bytes=30 * GIB
    )
    assert together.stages[0].room.value == pytest.approx(alone.stages[0].room.value, abs=0.02 * GIB)


def test_arguments_and_the_file_of_what_has_no_flag():
    settings = EngineSettings(
        tensor_parallel_size=2, max_model_len=8192, max_num_seqs=64, max_num_batched_tokens=4096,
        gpu_memory_utilization=0.8,
    )  # fmt: skip
    argv = TENSORRT_LLM.arguments(settings, version=V12, model_path="m", port=8000)
    assert argv == (
        "trtllm-serve", "m", "--port", "8000", "--backend", "pytorch", "--tp_size", "2", "--max_seq_len", "8192",
        "--max_batch_size", "64", "--max_num_tokens", "4096", "--kv_cache_free_gpu_memory_fraction", "0.8",
    )  # fmt: skip
    assert not extra_options(settings)
    told = EngineSettings(
        kv_cache_tokens=100_000, block_size=64, kv_cache_dtype="fp8", enforce_eager=True,
        adapters=AdapterSlots(2, 16),
    )  # fmt: skip
    assert extra_options(told, (Adapter("a", 16, source="x/a"),)) == {
        "kv_cache_config": {"max_tokens": 100_000, "tokens_per_block": 64, "dtype": "fp8"},
        "cuda_graph_config": None,
        "lora_config": {"max_loras": 2, "max_lora_rank": 16, "lora_dir": ["x/a"]},
    }
    assert "--extra_llm_api_options" in TENSORRT_LLM.arguments(told, version=V12, model_path="m")


def test_it_runs_on_nvidia_alone(spec):
    with pytest.raises(UnsupportedError, match="NVIDIA"):
        TENSORRT_LLM.resolve(spec(LLAMA), find_gpu("MI300X"), EngineSettings(), V12)


def test_it_is_found_by_its_names():
    for name in ("trtllm", "tensorrt_llm@1.2", "TensorRT-LLM"):
        assert find_engine(name)[0] is TENSORRT_LLM


def test_a_checkpoint_with_an_fp8_cache_keeps_it(spec):
    """nvidia/Llama-3.1-8B-Instruct-FP8: 52.51 GiB for 860,320 tokens."""
    model = replace(spec(LLAMA), cache_dtype="fp8")
    settings = TENSORRT_LLM.resolve(model, H200, EngineSettings(), V12)
    layout = cache_layout(model, settings, TENSORRT_LLM.rules(V12).cache)
    assert layout.bytes_of_tokens(860_320) / GIB == pytest.approx(52.51, abs=0.006)


@pytest.mark.parametrize(
    ("version", "name", "form", "card", "asked", "weights", "pool"),
    [  # "Loaded engine size", "now: ... GPU 6678 (MiB)", "Allocated ... for max tokens in paged KV cache"
        ("0.12.0", "meta-llama/Llama-2-7b-hf", "fp8", "A100-80GB-SXM",
         {"max_model_len": 2048, "max_num_seqs": 256, "kv_cache_dtype": "fp8"}, 6678 / 1024, 63.44),
        ("0.14.0", "Qwen/Qwen2.5-0.5B-Instruct", "int8", "RTX A4000", {}, 869 / 1024, 4.53),
    ],
)  # fmt: skip
def test_a_built_engine_keeps_buffers_for_every_slot(spec, version, name, form, card, asked, weights, pool):
    """The second fills 16 GB with half a billion parameters: 2,048 slots of 151,936 logits take 8 GiB."""
    memory = replica_memory(
        spec(name), find_gpu(card), EngineSettings(**asked), engine=TENSORRT_LLM, version=Version.parse(version),
        format=find_format(form),
    )  # fmt: skip
    (stage,) = memory.stages
    assert stage.weights.bytes.value / GIB == pytest.approx(weights, rel=0.01)
    assert stage.room.low <= pool * GIB <= stage.room.high
    assert stage.room.value / GIB == pytest.approx(pool, abs=0.6)


def test_mxfp4_experts_are_padded_to_128(spec):
    """gpt-oss-120b on a GB10: "Memory used after loading model weights (inside torch)": 63.52 GiB."""
    memory = replica_memory(
        spec("openai/gpt-oss-120b"), find_gpu("GB10"), EngineSettings(max_num_seqs=64), engine=TENSORRT_LLM,
        version=Version.parse("1.1.0"), format=find_format("mxfp4"),
    )  # fmt: skip
    assert memory.stages[0].weights.bytes.value / GIB == pytest.approx(63.52, rel=0.005)


@pytest.mark.parametrize(("version", "built"), [("0.12", True), ("1.2", False)])
def test_what_a_built_engine_fixes_is_said(version, built):
    found = estimate("meta-llama/Llama-3.1-8B-Instruct", gpu="H100-80GB-SXM", engine=f"trtllm@{version}")
    assert any("trtllm-build" in warning for warning in found.warnings) is built
