"""What SGLang prints about memory. Its "GB" are bytes / 2^30.

Sources: srt/model_executor/model_runner.py, srt/mem_cache/memory_pool.py, srt/managers/scheduler.py,
srt/server_args.py. The first "Load weight end" and "KV Cache is allocated" are the model's, later ones a draft's.
"""

from __future__ import annotations

from cotenant.engines.logs.line import EngineLog, LogLine

_KEYS = {
    "model_path": "model",
    "context_length": "max_model_len",
    "context_len": "max_model_len",
    "mem_fraction_static": "gpu_memory_utilization",
    "chunked_prefill_size": "max_num_batched_tokens",
    "max_running_requests": "max_num_seqs",
    "tp_size": "tensor_parallel_size",
    "pp_size": "pipeline_parallel_size",
    "dp_size": "data_parallel_size",
    "dtype": "dtype",
    "quantization": "quantization",
    "kv_cache_dtype": "kv_cache_dtype",
    "page_size": "block_size",
    "disable_cuda_graph": "enforce_eager",
}
_FLAGS = {
    "model-path": "model", "model": "model", "context-length": "max_model_len",
    "mem-fraction-static": "gpu_memory_utilization", "chunked-prefill-size": "max_num_batched_tokens",
    "max-running-requests": "max_num_seqs", "tp": "tensor_parallel_size", "tp-size": "tensor_parallel_size",
    "quantization": "quantization", "kv-cache-dtype": "kv_cache_dtype",
}  # fmt: skip

SGLANG = EngineLog(
    engine="sglang",
    title="SGLang",
    signs=("/sglang/srt/", "sglang.srt."),
    lines=(
        LogLine("server_args=ServerArgs(", keys=_KEYS, starts=True),
        LogLine("sglang.launch_server", flags=_FLAGS),
        LogLine("self.server_args.mem_fraction_static", r"mem_fraction_static (?P<gpu_memory_utilization><N>)"),
        LogLine("Load weight begin", r"avail mem=(?P<free_gib><N>) GB", anchor="avail mem="),
        LogLine(
            "Load weight end",
            r"Load weight end.*?(?:mem usage=(?P<weights_gib><N>) GB|\((?P<weights_gib_2><N>) GB of weights\))",
            anchor="avail mem=",
        ),
        LogLine("Load weight end", r"avail mem=(?P<free_after_weights_gib><N>) GB", anchor="avail mem="),
        LogLine("Using KV cache dtype", r"KV cache dtype: torch\.(?P<kv_cache_dtype>\w+)"),
        LogLine(
            "KV Cache is allocated",
            r"allocated\.(?:.{0,40}?#tokens: (?P<kv_cache_tokens><N>))?"
            r"(?:.{0,20}?K(?: size:)? (?P<sglang_k_gib><N>) GB, V(?: size:)? (?P<sglang_v_gib><N>) GB"
            r"|, KV size: (?P<available_kv_gib><N>) GB)?",
        ),
        LogLine(
            "Physical KV Cache limits",
            r"#tokens: (?P<kv_cache_tokens><N>), K size: (?P<sglang_k_gib><N>) GB, "
            r"V size: (?P<sglang_v_gib><N>) GB",
        ),
        LogLine(
            "tokens -> K ",
            r"(?P<kv_cache_tokens><N>) tokens -> K (?P<sglang_k_gib><N>) GB \+ V (?P<sglang_v_gib><N>) GB",
        ),
        LogLine("SWAKVPool mem usage", r"SWAKVPool mem usage: (?P<available_kv_gib><N>) GB"),
        LogLine(
            "Mamba Cache is allocated",
            r"conv_state size: (?P<conv_states_gib><N>)\s?GB, ssm_state size: (?P<ssm_states_gib><N>)\s?GB"
            r"(?: intermediate_ssm_state_cache size: (?P<draft_states_gib><N>)\s?GB"
            r" intermediate_conv_window_cache size: (?P<draft_windows_gib><N>)\s?GB)?",
        ),
        LogLine("Memory pool end", r"Memory pool end\. avail mem=(?P<left_gib><N>) GB", anchor="avail mem="),
        LogLine("graph end", r"Capture (?:\w+ ){0,4}graph end.{0,80}?mem usage=(?P<cudagraph_gib><N>) GB"),
        LogLine("graphs (`elapsed=", r"graphs \(`elapsed=[\d.]+ s, mem usage=(?P<cudagraph_gib><N>) GB"),
        LogLine("max_total_num_tokens=", r"max_total_num_tokens=(?P<kv_cache_tokens_last><N>)", keys=_KEYS),
        LogLine("max_running_requests=", keys=_KEYS),
        LogLine(
            "Please try to increase --mem-fraction-static",
            r"(?:mem_fraction_static=(?P<gpu_memory_utilization><N>))?",
            failure="no_room_for_pool",
        ),
        LogLine("state cache. Computed max_mamba_cache_size", failure="no_room_for_pool"),
        LogLine("state cache is too small to serve", failure="no_room_for_pool"),
        LogLine(" out of memory. Try to lower your batch size", failure="pool_ran_out"),
        LogLine("alloc_req_slots runs out of memory", failure="pool_ran_out"),
        LogLine("Out of memory even after retracting all other requests", failure="pool_ran_out"),
        LogLine(
            "The memory capacity is unbalanced",
            r"Error: The memory capacity is unbalanced(?:.*?pre_model_load_memory=(?P<least_free_gib><N>)"
            r", local_gpu_memory=(?P<own_free_gib><N>))?",
            failure="unbalanced",
        ),
        LogLine("Capture cuda graph failed", failure="out_of_memory_in_graphs"),
        LogLine("The server is fired up and ready", ready=True),
    ),
)
