"""What TensorRT-LLM prints about memory: the PyTorch backend's estimation and the built engines' buffers.

Sources: cpp/tensorrt_llm/batch_manager/{kvCacheManager,trtGptModelInflightBatching}.cpp, cpp/tensorrt_llm/runtime/
{tllmRuntime,tllmLogger}.cpp, tensorrt_llm/_torch/pyexecutor/{_util,py_executor_creator,resource_manager}.py,
tensorrt_llm/_torch/models/modeling_utils.py. The PyTorch backend allocates a pool for a trial first: what it says
of its pool before it has estimated the room is no pool (`readers.logs.assemble`).
"""

from __future__ import annotations

from cotenant.engines.logs.line import EngineLog, LogLine

_KEYS = {
    "max_seq_len": "max_model_len",
    "max_num_requests": "max_num_seqs",
    "max_num_tokens": "max_num_batched_tokens",
    "free_gpu_memory_fraction": "gpu_memory_utilization",
}
_FLAGS = {
    "tp_size": "tensor_parallel_size", "pp_size": "pipeline_parallel_size", "max_seq_len": "max_model_len",
    "max_batch_size": "max_num_seqs", "max_num_tokens": "max_num_batched_tokens",
    "kv_cache_free_gpu_memory_fraction": "gpu_memory_utilization",
    "free_gpu_memory_fraction": "gpu_memory_utilization",
}  # fmt: skip
_SIZE = r"(?P<{0}_gib><N>) (?P<{0}_gib_unit>[KMG]i?B)"
# py_executor_creator.py, observe_creation_stage: the component that could not be created -> what that means.
_STAGES = (
    ("Model", "out_of_memory_loading"),
    ("Initial KV cache", "out_of_memory_before_pool"),
    ("Additional executor resources (temp", "out_of_memory_before_pool"),
    ("KV cache", "out_of_memory_in_pool"),
    ("Sampler", "out_of_memory_before_pool"),
    ("Drafter", "out_of_memory_before_pool"),
    ("Guided decoder", "out_of_memory_before_pool"),
    ("Draft model", "out_of_memory_loading"),
    ("Additional executor resources", "out_of_memory_in_graphs"),
)


def _size(name: str) -> str:
    return _SIZE.replace("{0}", name)


def _created(line: str, kind: str) -> LogLine:
    needle = f"could not be created: {line}"
    rest = r"(?! \(temp)" if line == "Additional executor resources" else ""
    return LogLine(needle, rf"could not be created: {line.replace('(', '[(]')}{rest}", failure=kind)


TENSORRT_LLM = EngineLog(
    engine="tensorrt-llm",
    title="TensorRT-LLM",
    signs=("[TensorRT-LLM]", "[TRT-LLM]", "tensorrt_llm"),
    lines=(
        LogLine("TensorRT-LLM version:", r"TensorRT-LLM version: (?P<engine_version>[\w.+]+)"),
        LogLine("TensorRT LLM version:", r"TensorRT LLM version: (?P<engine_version>[\w.+]+)"),
        LogLine("Engine version ", r"Engine version (?P<engine_version>\d[\w.+]*) found in the config file"),
        LogLine(
            "trtllm-serve",
            r"trtllm-serve(?: serve)? (?:for model )?(?P<model>[\w./-]{1,200}(?<!\.))(?=[\s'\"]|$)",
            flags=_FLAGS,
        ),
        LogLine("refetching ", r"[Pp]refetching (?P<model>/[^\s]{1,300})/[^/\s]+\.(?:safetensors|bin|pth)\b"),
        LogLine("GB for model weights", r"[Uu]ses? (?P<weights_printed_gib><N>) GB for model weights"),
        LogLine("Loaded engine size:", r"Loaded engine size: (?P<engine_file_mib><N>) MiB"),
        LogLine(
            "allocation in IExecutionContext creation",
            r"now: CPU \d+, GPU (?P<weights_gib><N>) \((?P<weights_gib_unit>MiB)\)",
        ),
        LogLine("for execution context memory", rf"Allocated {_size('activation_peak')}"),
        LogLine("GPU memory for runtime buffers", rf"Allocated {_size('runtime_buffers')}"),
        LogLine("GPU memory for decoder", rf"Allocated {_size('decoder_buffers')}"),
        LogLine("TRTGptModel maxBatchSize:", r"maxBatchSize: (?P<max_num_seqs><N>)"),
        LogLine("TRTGptModel maxNumTokens:", r"maxNumTokens: (?P<max_num_batched_tokens><N>)"),
        LogLine("TRTGptModel maxSequenceLen:", r"maxSequenceLen: (?P<max_model_len><N>)"),
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
            r"(?P<room_for_kv_gib><N>) GiB(?:, fraction is set (?P<gpu_memory_utilization><N>), kv size "
            r"(?:per token )?is (?P<kv_bytes_per_token><N>)(?:.*?device total memory (?P<gpu_mem_gib><N>) GiB)?"
            r"(?:.*?(?:tmp kv_mem|cache memory during profiling) (?P<trial_kv_gib><N>) GiB)?)?",
        ),
        LogLine("Estimated max memory in KV cache", r"KV cache ?: (?P<room_for_kv_gib><N>) GiB"),
        LogLine(
            "Memory usage when calculating max tokens",
            r"total: (?P<gpu_mem_gib><N>) GiB, available: (?P<free_gib><N>) GiB",
        ),
        LogLine("KV cache primary pool", r"primary pool: (?P<gpu_blocks><N>)"),
        LogLine(
            "Max KV cache blocks per sequence",
            r"tokens per block=(?P<block_size><N>), primary blocks=(?P<gpu_blocks><N>)",
        ),
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
        LogLine("Total GPU memory (GiB):", r"memory \(GiB\): (?P<gpu_mem_gib><N>)"),
        LogLine(
            "Free GPU memory before component creation",
            r"attempt \(GiB\): (?P<free_before_component_gib><N>)",
        ),
        *(_created(line, kind) for line, kind in _STAGES),
        LogLine("insufficient GPU memory", r"Executor creation failed", failure="out_of_memory_at_start"),
        LogLine("Cannot allocate enough memory", failure="out_of_memory"),
        LogLine(
            "::cudaMalloc", r"CUDA runtime error in ::cudaMalloc.{0,80}out of memory", failure="out_of_memory"
        ),
        LogLine("Impossible to fit in any sequence in kvCache", failure="pool_below_one_sequence"),
    ),
)
