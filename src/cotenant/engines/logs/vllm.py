"""What vLLM prints about memory, 0.3 to 0.33.

Sources: worker/worker.py and executor/*_executor.py (V0), v1/worker/gpu_worker.py, v1/worker/gpu_model_runner.py,
v1/core/kv_cache_utils.py, v1/worker/utils.py, entrypoints/utils.py, engine/llm_engine.py, v1/engine/core.py.
"GB" of the old lines is bytes / 2^30 as well.
"""

from __future__ import annotations

from cotenant.engines.logs.line import EngineLog, LogLine

_KEYS = {
    "model": "model",
    "model_tag": "model",
    "max_seq_len": "max_model_len",
    "max_model_len": "max_model_len",
    "tensor_parallel_size": "tensor_parallel_size",
    "pipeline_parallel_size": "pipeline_parallel_size",
    "data_parallel_size": "data_parallel_size",
    "decode_context_parallel_size": "decode_context_parallel_size",
    "enable_expert_parallel": "enable_expert_parallel",
    "language_model_only": "language_model_only",
    "dtype": "dtype",
    "quantization": "quantization",
    "kv_cache_dtype": "kv_cache_dtype",
    "enforce_eager": "enforce_eager",
    "enable_prefix_caching": "enable_prefix_caching",
    "max_num_seqs": "max_num_seqs",
    "max_num_batched_tokens": "max_num_batched_tokens",
    "gpu_memory_utilization": "gpu_memory_utilization",
    "kv_cache_memory_bytes": "kv_cache_memory_bytes",
    "block_size": "block_size",
    "enable_lora": "enable_lora",
    "max_loras": "max_loras",
    "max_lora_rank": "max_lora_rank",
}
# As on the command line, short forms included (engine/arg_utils.py).
_FLAGS = {
    **_KEYS, "tp": "tensor_parallel_size", "pp": "pipeline_parallel_size", "dp": "data_parallel_size",
    "dcp": "decode_context_parallel_size",
}  # fmt: skip
# Parts of the two lines above as people quote them, one a line.
_PRINTED_ALONE = {
    "max_seq_len=": "", "tensor_parallel_size=": "_parallel_size=", "pipeline_parallel_size=": "_parallel_size=",
    "data_parallel_size=": "_parallel_size=", "decode_context_parallel_size=": "_parallel_size=",
    "kv_cache_dtype=": "", "enforce_eager=": "", "dtype=torch.": "",
    "enable_prefix_caching=": "",
    "quantization=": "", "'gpu_memory_utilization':": "", "'max_num_seqs':": "'max_",
    "'max_num_batched_tokens':": "'max_", "'enable_lora':": "", "'max_lora_rank':": "'max_",
    "max_num_batched_tokens=": "",
}  # fmt: skip

VLLM = EngineLog(
    engine="vllm",
    title="vLLM",
    signs=("/vllm/v1/", "/vllm/worker/", "/vllm/engine/", "/vllm/executor/", "vllm.engine.", "EngineCore"),
    styles=(
        ("Desired GPU memory utilization", "0.9.2"),
        ("equivalent to --gpu-memory-utilization", "0.21.0"),
        ("Estimated CUDA graph memory", "0.21.0"),
        ("the current vLLM instance can use", "0.7.3"),
        ("model weights take", "0.7.3"),
        ("# GPU blocks", "0.6.3"),
        ("GiB memory and", "0.12.0"),
        ("Available KV cache memory", "0.12.0"),
        ("GPU KV cache size", "0.10.0"),
        ("Model loading took", "0.10.0"),
    ),
    lines=(
        LogLine("vLLM API server version", r"vLLM API server version v?(?P<engine_version>[\w.+]+)", starts=True),
        LogLine(
            "vLLM server version ",
            r"server version v?(?P<engine_version>[\w.+]+), serving model (?P<model>[^\s,]{1,300})",
            starts=True,
        ),
        LogLine("▀▄▀ █", r"█\s+version\s+v?(?P<engine_version>\d[\w.+]*)", starts=True),  # its banner
        LogLine("█▄█▀ █", r"█\s+model\s+(?P<model>[^\s]{1,300})"),
        LogLine("LLM engine (v", r"LLM engine \(v(?P<engine_version>[\w.+]+)\)", keys=_KEYS, starts=True),
        LogLine("LLM engine with config", keys=_KEYS, starts=True),
        LogLine("non-default args", keys=_KEYS),
        LogLine("args: Namespace(", keys=_KEYS),
        *(LogLine(text, keys=_KEYS, anchor=anchor) for text, anchor in _PRINTED_ALONE.items()),
        LogLine("Starting to load model", r"Starting to load model (?P<model>[^\s]+?)\.\.\."),
        LogLine("device_name=", r"device_name=(?P<gpu>[\w-]+)"),
        LogLine("Model loading took", r"Model loading took (?P<weights_gib><N>) Gi?B"),
        LogLine("Loading model weights took", r"Loading model weights took (?P<weights_gib><N>) Gi?B"),
        LogLine(
            "vLLM instance can use",
            r"vLLM instance can use(?: total_gpu_memory \((?P<gpu_mem_gib><N>)\s?GiB\) x gpu_memory_utilization "
            r"\((?P<utilization_printed><N>)\) =)?\s*(?P<budget_gib><N>)\s?GiB",
        ),
        LogLine("total_gpu_memory", r"total_gpu_memory\s+(?P<gpu_mem_gib><N>)\s?GiB"),
        LogLine(
            "model weights take",
            r"model weights take\s+(?P<weights_gib><N>)\s?GiB"
            r"(?:; non_torch_memory takes (?P<non_torch_gib><N>)\s?GiB"
            r"; PyTorch activation peak memory takes (?P<activation_peak_gib><N>)\s?GiB"
            r"; the rest of the memory reserved for KV Cache is (?P<available_kv_gib><N>)\s?GiB)?",
        ),
        LogLine("non_torch_memory", r"non_torch_memory(?: takes)?\s+(?P<non_torch_gib><N>)\s?GiB"),
        LogLine(
            "activation peak memory",
            r"activation peak memory(?: takes)?\s+(?P<activation_peak_gib><N>)\s?GiB",
        ),
        LogLine("reserved for KV Cache is", r"reserved for KV Cache is\s+(?P<available_kv_gib><N>)\s?GiB"),
        LogLine("available_kv_cache_memory", r"available_kv_cache_memory\s+(?P<available_kv_gib><N>)\s?GiB"),
        LogLine(
            "Memory profiling results",
            r"total_gpu_memory=(?P<gpu_mem_gib><N>)\s?GiB.*?non_torch_memory=(?P<non_torch_gib><N>)\s?GiB"
            r".*?kv_cache_size=(?P<available_kv_gib><N>)\s?GiB"
            r"(?:.*?gpu_memory_utilization=(?P<utilization_printed><N>))?",
        ),
        LogLine(
            "memory for KV Cache as specified",
            r"free memory (?P<free_gib><N>)\s?GiB, reserved (?P<given_kv_gib><N>)\s?GiB memory for KV Cache",
        ),
        LogLine(
            "Applying persisted startup plan",
            r"kv_cache_memory_bytes=\d+ \((?P<available_kv_gib><N>) GiB\)",
            keys={"kv_cache_memory_bytes": "kv_cache_memory_bytes"},
        ),
        LogLine("Auto-fit max_model_len", r"(?:reduced from \d+ to|context length) (?P<fitted_max_len><N>)"),
        LogLine("Multiplying the GPU KV cache size", r"dcp_world_size (?P<decode_context_parallel_size><N>)"),
        # At level DEBUG.
        LogLine(
            "Initial free memory: ",
            r"Initial free memory: (?P<free_gib><N>) GiB(?:; Requested memory: (?P<gpu_memory_utilization><N>) "
            r"\(util\), (?P<budget_gib><N>) GiB|.*?requested GPU memory: (?P<budget_gib_2><N>) GiB)",
        ),
        LogLine(
            "torch peak memory increase: ",
            r"increase: (?P<activation_peak_gib><N>)\s?GiB(?:.*?weights memory: (?P<weights_gib><N>)\s?GiB)?",
        ),
        LogLine("vailable KV cache memory", r"available KV cache memory: (?P<available_kv_gib><N>) GiB"),
        LogLine("KV cache size:", r"GPU KV cache size: (?P<kv_cache_tokens><N>) tokens"),
        LogLine("blocks: ", r"# ?(?:GPU|CUDA|ROCM|XPU|HPU|TPU|NPU|CPU|neuron|device) blocks: (?P<gpu_blocks><N>)"),
        LogLine("num_gpu_blocks is", r"num_gpu_blocks is:? (?P<gpu_blocks><N>)"),
        LogLine(
            "Maximum concurrency for",
            r"Maximum concurrency for (?P<max_concurrency_len><N>) tokens per request: (?P<max_concurrency><N>)x",
        ),
        LogLine("Graph capturing finished", r"Graph capturing finished in .*?took (?P<cudagraph_gib><N>) GiB"),
        LogLine("Encoder graph capturing finished", r"took (?P<encoder_graphs_gib><N>) GiB"),
        LogLine("Estimated CUDA graph memory", r"CUDA graph memory: (?P<cudagraph_estimated_gib><N>) GiB"),
        LogLine(
            "CUDA graph pool memory",
            r"pool memory: (?P<cudagraph_gib><N>) GiB \(actual\), "
            r"(?P<cudagraph_estimated_gib><N>) GiB \(estimated",
        ),
        LogLine(
            "Free memory on device",
            r"Free memory on device.{0,12} \((?P<free_gib><N>)/(?P<gpu_mem_gib><N>) GiB\) on startup\. "
            r"Desired GPU memory utilization is \((?P<gpu_memory_utilization><N>), (?P<budget_gib><N>) GiB\)",
        ),
        LogLine(
            "Actual usage is",
            r"Actual usage is (?P<weights_gib><N>) GiB for weight, (?P<activation_peak_gib><N>) GiB for peak "
            r"activation, (?P<non_torch_gib><N>) GiB for non-torch memory"
            r"(?:, and (?P<cudagraph_gib><N>) GiB for CUDAGraph)?",
        ),
        LogLine(
            "for consumed memory",
            r"(?P<consumed_weights_plus_nontorch_gib><N>) GiB for consumed memory \(weights \+ non-torch\), "
            r"(?P<activation_peak_gib><N>) GiB for peak activation"
            r"(?:, and (?P<cudagraph_gib><N>) GiB for CUDAGraph)?",
        ),
        LogLine(
            "kv cache memory in use is",
            r"kv cache memory in use is (?P<available_kv_gib><N>) (?P<available_kv_gib_unit>GiB|bytes)",
        ),
        LogLine("Setting attention block size", r"attention block size to (?P<attention_block_tokens><N>) tokens"),
        LogLine("Padding mamba page size", r"Padding mamba page size by (?P<page_padding_percent><N>)%"),
        LogLine(
            "available KV cache memory (",
            r"max seq len \((?P<needed_kv_seq_len><N>)\), \(?(?P<needed_kv_gib><N>) Gi?B (?:of )?KV cache is "
            r"needed"
            r".*?available KV cache memory \((?P<available_kv_gib><N>) Gi?B\)"
            r"(?:.*?estimated maximum model length is (?P<estimated_max_len><N>))?",
            failure="pool_below_one_sequence",
        ),
        LogLine(
            "that can be stored in KV cache",
            r"max seq len \((?P<needed_kv_seq_len><N>)\) is larger than the maximum number of tokens that can be "
            r"stored in KV cache \((?P<kv_cache_tokens><N>)\)",
            failure="pool_below_one_sequence",
        ),
        LogLine("No available memory for the cache blocks", failure="no_room_for_pool"),
        LogLine("Cannot auto-fit max_model_len", failure="no_room_for_pool"),
        LogLine("Externally held weights on device", r"GiB\) exceed the", failure="no_room_for_pool"),
        LogLine("Out of memory! No free blocks are available", failure="pool_ran_out"),
        LogLine(
            "is less than desired GPU memory utilization",
            r"\((?P<free_gib><N>)/(?P<gpu_mem_gib><N>) GiB\) on startup is less than desired GPU memory "
            r"utilization \((?P<gpu_memory_utilization><N>), (?P<budget_gib><N>) GiB\)",
            failure="not_free_at_start",
        ),
        LogLine(  # another process holds its weights
            "is less than the engine's budget after",
            r"\((?P<free_gib><N>)/(?P<gpu_mem_gib><N>) GiB\) on startup is less than .{1,90}? "
            r"\((?P<gpu_memory_utilization><N>), (?P<budget_gib><N>) GiB\)",
            failure="not_free_at_start",
        ),
        LogLine(  # its backend for processors
            "is less than desired CPU memory utilization",
            r"\((?P<oom_free_gib><N>)/<N> GiB\).*?utilization \(<N>, (?P<asked_gib><N>) GiB\)",
            failure="out_of_host_memory",
        ),
        LogLine(") GiB for KV cache", r"set \((?P<available_kv_gib><N>)/<N>\) GiB for KV cache"),
        LogLine(
            "Error in memory profiling",
            r"Initial free memory (?P<initial_free_gib><N>)(?: GiB)?, current free memory "
            r"(?P<current_free_gib><N>)(?: GiB)?",
            failure="others_changed_memory",
        ),
        LogLine(
            "CUDA out of memory occurred when warming up",
            r"warming up .{1,60}?(?:with (?P<dummy_requests><N>) dummy requests|$)",
            failure="out_of_memory_warming_up",
        ),
        # The same terms as people tabulate them.
        LogLine(
            "weights + non-torch)",
            r"non-torch\)\s*\|\s*(?P<consumed_weights_plus_nontorch_gib><N>)(?: GiB)?\s*(?:\||$)",
        ),
        LogLine("peak activation |", r"activation\s*\|\s*(?P<activation_peak_gib><N>)"),
        LogLine("CUDAGraph |", r"CUDAGraph\s*\|\s*(?P<cudagraph_gib><N>)"),
        LogLine(
            "weights+non-torch",
            r"weights\+non-torch (?P<consumed_weights_plus_nontorch_gib><N>) GiB, activation peak "
            r"(?P<activation_peak_gib><N>) GiB, KV (?P<available_kv_gib><N>) GiB",
        ),
        LogLine(" GiB pool", r"\d+ x (?P<available_kv_gib><N>) = <N> GiB pool"),
        LogLine(" tokens in ", r"KV cache holds (?:only )?\S{1,20} tokens in (?P<available_kv_gib><N>) GiB"),
        LogLine("Chunked prefill is enabled", keys=_KEYS),
        LogLine("Application startup complete", ready=True),
        LogLine("init engine (profile, create kv cache", ready=True),
        LogLine("vllm serve ", r"vllm serve (?P<model>[\w.][\w./:@+-]*)", flags=_FLAGS),
        LogLine("--gpu-memory-utilization ", flags=_FLAGS),
        LogLine("vllm.entrypoints.", flags=_FLAGS),
    ),
)
