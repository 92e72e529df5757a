"""What TensorRT-LLM prints about memory.

Sources: cpp/tensorrt_llm/batch_manager/kvCacheManager.cpp, cpp/tensorrt_llm/common/memoryUtils,
tensorrt_llm/_torch/pyexecutor/{_util,py_executor_creator,resource_manager}.py.
"""

from __future__ import annotations

from cotenant.engines.logs.line import EngineLog, LogLine

_KEYS = {
    "max_seq_len": "max_model_len",
    "max_num_requests": "max_num_seqs",
    "max_num_tokens": "max_num_batched_tokens",
    "free_gpu_memory_fraction": "gpu_memory_utilization",
}

TENSORRT_LLM = EngineLog(
    engine="tensorrt-llm",
    title="TensorRT-LLM",
    signs=("[TensorRT-LLM]", "[TRT-LLM]", "tensorrt_llm"),
    lines=(
        LogLine("TensorRT-LLM version:", r"TensorRT-LLM version: (?P<engine_version>[\w.+]+)"),
        LogLine("TensorRT LLM version:", r"TensorRT LLM version: (?P<engine_version>[\w.+]+)"),
        LogLine("GB for model weights", r"Use (?P<weights_printed_gib><N>) GB for model weights"),
        LogLine("Memory used after loading model weights (inside torch)", r"profiling: (?P<weights_gib><N>) GiB"),
        LogLine(
            "Memory used after loading model weights (outside torch)",
            r"profiling: (?P<outside_torch_after_load_gib><N>) GiB",
        ),
        LogLine("dynamically allocated during inference", r"profiling: (?P<activation_peak_gib><N>) GiB"),
        LogLine("Memory used outside torch", r"profiling: (?P<non_torch_gib><N>) GiB"),
        LogLine(
            "Peak memory during memory usage profiling",
            r"non-torch\): (?P<peak_gib><N>) GiB, available KV cache memory when calculating max tokens: "
            r"(?P<room_for_kv_gib><N>) GiB, fraction is set (?P<gpu_memory_utilization><N>), kv size is "
            r"(?P<kv_bytes_per_token><N>)(?:.*?device total memory (?P<gpu_mem_gib><N>) GiB)?",
        ),
        LogLine(
            "Memory usage when calculating max tokens",
            r"total: (?P<gpu_mem_gib><N>) GiB, available: (?P<free_gib><N>) GiB",
        ),
        LogLine("KV cache primary pool", r"primary pool: (?P<gpu_blocks><N>)"),
        LogLine("Number of tokens per block", r"tokens per block: (?P<block_size><N>)"),
        LogLine(
            "for max tokens in paged KV cache",
            r"Allocated (?P<available_kv_gib><N>) GiB for max tokens in paged KV cache "
            r"\((?P<kv_cache_tokens><N>)\)",
            ready=True,
        ),
        LogLine(  # 0.8 and before
            "bytes for k/v cache",
            r"Allocate (?P<available_kv_gib><N>) (?P<available_kv_gib_unit>bytes) for k/v cache",
        ),
        LogLine(
            "tokens in paged KV cache", r"Using (?P<kv_cache_tokens><N>) tokens in paged KV cache", ready=True
        ),
        LogLine("max_num_requests=", keys=_KEYS),
        LogLine("insufficient GPU memory", r"Executor creation failed", failure="out_of_memory"),
        LogLine("Cannot allocate enough memory", failure="out_of_memory"),
        LogLine("Impossible to fit in any sequence in kvCache", failure="pool_below_one_sequence"),
    ),
)
