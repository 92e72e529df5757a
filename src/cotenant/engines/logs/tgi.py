"""What text-generation-inference prints about memory.

Sources: launcher/src/main.rs, router/src/{main,server,lib}.rs, backends/v3/src/backend.rs,
server/text_generation_server/models/flash_causal_lm.py. 16,000 "max batch total tokens" after "does not support
automatic" is a fallback constant, not a measurement.
"""

from __future__ import annotations

from cotenant.engines.logs.line import EngineLog, LogLine

_KEYS = {
    "model_id": "model",
    "num_shard": "tensor_parallel_size",
    "quantize": "quantization",
    "dtype": "dtype",
    "max_input_tokens": "max_input_tokens",
    "max_input_length": "max_input_tokens",
    "max_total_tokens": "max_model_len",
    "max_batch_prefill_tokens": "max_num_batched_tokens",
    "max_prefill_tokens": "max_num_batched_tokens",
    "max_batch_total_tokens": "max_batch_total_tokens",
    "max_concurrent_requests": "max_num_seqs",
    "cuda_memory_fraction": "gpu_memory_utilization",
    "kv_cache_dtype": "kv_cache_dtype",
}

TGI = EngineLog(
    engine="tgi",
    title="TGI",
    signs=("text_generation_server", "text_generation_router", "text_generation_launcher", "text-generation-"),
    lines=(
        LogLine("Args {", keys=_KEYS, starts=True),
        LogLine("model_id: ", keys=_KEYS),
        LogLine("text-generation-launcher ", flags=_KEYS),
        LogLine("Docker label:", r"Docker label: (?P<engine_version>[\w.-]+)"),
        LogLine("warmup{", keys=_KEYS),
        LogLine("--max-batch-prefill-tokens", flags=_KEYS),
        LogLine("Sharding model on", r"Sharding model on (?P<tensor_parallel_size><N>) processes"),
        LogLine("compute for card", r"compute for card (?P<gpu>[\w.+ -]{2,60})"),
        LogLine("Default `max_batch_prefill_tokens` to", r"tokens` to (?P<max_num_batched_tokens><N>)"),
        LogLine("Default `max_input_tokens` to", r"tokens` to (?P<max_input_tokens><N>)"),
        LogLine("Default `max_total_tokens` to", r"tokens` to (?P<max_model_len><N>)"),
        LogLine("Maximum input tokens defaulted to", r"defaulted to (?P<max_input_tokens><N>)"),
        LogLine("Maximum total tokens defaulted to", r"defaulted to (?P<max_model_len><N>)"),
        LogLine("MAX_BATCH_PREFILL_TOKENS", r"MAX_BATCH_PREFILL_TOKENS[ =](?P<max_num_batched_tokens><N>)"),
        LogLine("Setting max batch total tokens", r"total tokens to (?P<kv_cache_tokens><N>)"),
        LogLine("Setting max batch total tokens", r"total tokens to \S+", ready=True),
        LogLine("Inferred max batch total tokens", r"total tokens: (?P<kv_cache_tokens><N>)"),
        LogLine(
            "must be <= `max_batch_total_tokens`",
            r"Given: (?P<needed_kv_seq_len><N>) and (?P<kv_cache_tokens><N>)",
            failure="pool_below_one_sequence",
        ),
        LogLine("does not support automatic max batch total tokens", r"(?P<fallback>automatic)"),
        LogLine("KV-cache blocks:", r"KV-cache blocks: (?P<gpu_blocks><N>), size: (?P<block_size><N>)"),
        LogLine(
            "Not enough memory to handle",
            r"Not enough memory to handle (?:(?P<total_tokens_refused><N>) total tokens with )?"
            r"(?P<prefill_tokens_refused><N>) prefill tokens",
            failure="warm_up_prefill",
        ),
        LogLine(
            "Out of available cache blocks",
            r"asked (?P<blocks_asked><N>), only (?P<blocks_free><N>)",
            failure="pool_ran_out",
        ),
        LogLine(
            "Not enough memory to handle `max_total_tokens",
            r"max_total_tokens=(?P<total_tokens_refused><N>)",
            failure="pool_below_one_sequence",
        ),
    ),
)
