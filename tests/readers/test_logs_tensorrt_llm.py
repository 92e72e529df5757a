# ruff: noqa: E501 - log lines are long
"""Lines of TensorRT-LLM, old and new: its pools, its buffers, and what could not be made."""

from __future__ import annotations

import pytest

from cotenant.domain.measurement import Outcome
from tests.readers.logs import one, values


def test_an_old_tensorrt_llm() -> None:
    found = one(
        "[TensorRT-LLM][INFO] Allocate 69524783104 bytes for k/v cache. \n"
        "[TensorRT-LLM][INFO] Using 132608 tokens in paged KV cache.\n"
    )
    assert found.engine == "tensorrt-llm"
    assert found.value("available_kv_gib") == pytest.approx(64.75)
    assert found.value("kv_cache_tokens") == 132608


def test_the_trial_pool_of_tensorrt_llm_is_no_pool() -> None:
    found = one(
        "[TensorRT-LLM] TensorRT-LLM version: 1.1.0rc3\n"
        "Starting trtllm-serve for model openai/gpt-oss-120b on port 8355...\n"
        "[TensorRT-LLM][INFO] [MemUsageChange] Allocated 0.56 GiB for max tokens in paged KV cache (8224).\n"
        "[12/20/2025-04:21:51] [TRT-LLM] [I] Peak memory during memory usage profiling (torch + non-torch): 113.65 GiB, available KV cache memory when calculating max tokens: 5.95 GiB, fraction is set 0.8999999761581421, kv size is 73728. device total memory 119.70 GiB, , tmp kv_mem 0.56 GiB\n"
        "[TensorRT-LLM][INFO] [MemUsageChange] Allocated 5.95 GiB for max tokens in paged KV cache (86720).\n"
    )
    assert found.model == "openai/gpt-oss-120b"
    assert values(found, "available_kv_gib", "kv_cache_tokens", "trial_kv_gib") == [5.95, 86720, 0.56]


def test_every_buffer_of_a_built_engine() -> None:
    found = one(
        "[TensorRT-LLM][INFO] Engine version 0.12.0 found in the config file, assuming engine(s) built by new builder API.\n"
        "[TensorRT-LLM][INFO] TRTGptModel maxBatchSize: 256\n"
        "[TensorRT-LLM][INFO] TRTGptModel maxSequenceLen: 2048\n"
        "[TensorRT-LLM][INFO] Loaded engine size: 6695 MiB\n"
        "[TensorRT-LLM][INFO] [MemUsageChange] Allocated 1134.01 MiB for execution context memory.\n"
        "[TensorRT-LLM][INFO] [MemUsageChange] TensorRT-managed allocation in IExecutionContext creation: CPU +0, GPU +0, now: CPU 0, GPU 6678 (MiB)\n"
        "[TensorRT-LLM][INFO] [MemUsageChange] Allocated 43.29 MB GPU memory for runtime buffers.\n"
        "[TensorRT-LLM][INFO] [MemUsageChange] Allocated 180.30 MB GPU memory for decoder.\n"
        "[TensorRT-LLM][INFO] Memory usage when calculating max tokens in paged kv cache: total: 79.10 GiB, available: 70.48 GiB\n"
        "[TensorRT-LLM][INFO] Number of blocks in KV cache primary pool: 4060\n"
        "[TensorRT-LLM][INFO] [MemUsageChange] Allocated 63.44 GiB for max tokens in paged KV cache (259840).\n"
    )
    assert found.engine_version == "0.12.0"
    assert found.settings["max_num_seqs"] == 256
    assert found.settings["max_model_len"] == 2048
    names = ("engine_file_mib", "activation_peak_gib", "weights_gib", "runtime_buffers_gib", "decoder_buffers_gib")
    wanted = [6695, 1134.01 / 1024, 6678 / 1024, 43.29 / 1024, 180.30 / 1024]
    assert values(found, *names) == pytest.approx(wanted)
    assert values(found, "free_gib", "gpu_blocks", "available_kv_gib") == [70.48, 4060, 63.44]


@pytest.mark.parametrize(
    ("part", "kind"),
    [
        ("Model", "out_of_memory_loading"),
        ("KV cache", "out_of_memory_in_pool"),
        ("Initial KV cache (temporary for KV cache size estimation)", "out_of_memory_before_pool"),
        ("Additional executor resources (temporary for KV cache size estimation)", "out_of_memory_before_pool"),
        ("Additional executor resources", "out_of_memory_in_graphs"),
    ],
)
def test_tensorrt_llm_says_which_part_could_not_be_made(part: str, kind: str) -> None:
    found = one(
        "[TRT-LLM] [E] Failed to initialize executor on rank 1: Executor creation failed due to insufficient GPU memory.\n\n"
        f"The following component could not be created: {part}\n"
        "Total GPU memory (GiB): 140.06\nFree GPU memory before component creation attempt (GiB): 108.86\n\n"
        "Previously created components and free GPU memory before/after creation (GiB):\nModel: 139.55 / 110.70\n"
    )
    assert {failure.kind for failure in found.failures} == {"out_of_memory_at_start", kind}
    assert values(found, "gpu_mem_gib", "free_before_component_gib") == [140.06, 108.86]


BENCH = (
    "[TensorRT-LLM] TensorRT-LLM version: 0.20.0\n"
    '[06/02/2026-03:50:11] [TRT-LLM] [I] Validating KV Cache config against kv_cache_dtype="auto"\n'
    "[06/02/2026-03:50:12] [TRT-LLM] [I] Rank 0 prefetching /models/Llama-3.1-8B-FP8/model-00001-of-00002.safetensors to memory...\n"
    "[TensorRT-LLM][INFO] [MemUsageChange] Allocated 0.56 GiB for max tokens in paged KV cache (9216).\n"
    "[06/02/2026-03:50:40] [TRT-LLM] [I] Memory used after loading model weights (inside torch) in memory usage profiling: 8.55 GiB\n"
    "[06/02/2026-03:50:40] [TRT-LLM] [I] Peak memory during memory usage profiling (torch + non-torch): 11.86 GiB, available KV cache memory when calculating max tokens: 64.49 GiB, fraction is set 0.95, kv size is 65536. device total memory 79.18 GiB, , tmp kv_mem 0.56 GiB\n"
)
POOL = "[TensorRT-LLM][INFO] [MemUsageChange] Allocated 64.49 GiB for max tokens in paged KV cache (1056640).\n"


def test_a_word_of_vllm_in_its_lines_begins_no_second_engine() -> None:
    """`kv_cache_dtype=` stands in both engines' lines; PyTorch's own words belong to the engine that runs."""
    found = one(BENCH + POOL + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1002.00 MiB. GPU 0 has a "
                "total capacity of 79.18 GiB of which 586.38 MiB is free.\n")  # fmt: skip
    assert (found.engine, found.model) == ("tensorrt-llm", "/models/Llama-3.1-8B-FP8")
    assert [failure.kind for failure in found.failures] == ["out_of_memory"]


def test_who_dies_between_the_trial_and_the_pool_never_served() -> None:
    assert one(BENCH + POOL).outcome is Outcome.FITS
    died = one(BENCH)
    assert died.outcome is None
    assert values(died, "room_for_kv_gib", "available_kv_gib") == [64.49, None]
