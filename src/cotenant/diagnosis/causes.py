"""Why it ran out, in one sentence, by how much, and what an engine's own makers would try first."""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.domain.estimate import Estimate
from cotenant.domain.measurement import Failure, Measurement
from cotenant.units import GIB, format_bytes, format_gib

_TRY = {
    "vllm": ("a smaller --max-model-len", "a larger --gpu-memory-utilization", "--kv-cache-dtype fp8",
             "a quantised checkpoint", "--tensor-parallel-size 2"),
    "sglang": ("a larger --mem-fraction-static", "a smaller --context-length or --chunked-prefill-size",
               "a smaller --cuda-graph-max-bs", "--tp-size 2"),
    "tgi": ("a smaller --max-batch-prefill-tokens", "a smaller --max-total-tokens", "--quantize",
            "--num-shard 2"),
    "tensorrt-llm": ("a larger free_gpu_memory_fraction", "a smaller max_seq_len or max_num_tokens",
                     "a quantised checkpoint"),
    "llama.cpp": ("a smaller --ctx-size", "fewer --n-gpu-layers", "--cache-type-k q8_0 --cache-type-v q8_0",
                  "a smaller --ubatch-size"),
    "ollama": ("a smaller num_ctx", "OLLAMA_KV_CACHE_TYPE=q8_0 with OLLAMA_FLASH_ATTENTION=1",
               "a smaller OLLAMA_NUM_PARALLEL", "a smaller quantisation"),
}  # fmt: skip
_AT_PEAK = {
    "vllm": ("a smaller --gpu-memory-utilization", "a smaller --max-num-seqs or --max-num-batched-tokens",
             "--enforce-eager"),
    "sglang": ("a smaller --mem-fraction-static", "a smaller --chunked-prefill-size",
               "a smaller --cuda-graph-max-bs"),
    "tgi": ("a smaller --max-batch-prefill-tokens", "a smaller --cuda-memory-fraction"),
    "tensorrt-llm": ("a smaller free_gpu_memory_fraction", "a smaller max_batch_size or max_num_tokens",
                     "smaller cuda_graph_config batch sizes"),
}  # fmt: skip

_IN_FLIGHT = {
    "vllm": ("a smaller --max-num-seqs", "a larger --gpu-memory-utilization"),
    "sglang": ("a smaller --max-running-requests", "a larger --schedule-conservativeness",
               "a larger --mem-fraction-static"),
    "tgi": ("a smaller --max-batch-total-tokens", "a newer release: later ones count blocks before they admit"),
}  # fmt: skip
_LENGTHS = {"vllm": "--max-model-len", "sglang": "--context-length", "tgi": "--max-total-tokens"}
_BESIDE_OTHERS = (
    "a smaller --gpu-memory-utilization",
    "starting this engine before the others",
    "waiting until the others are up",
)


@dataclass(frozen=True, slots=True)
class Cause:
    """`shortfall_bytes`: 0 where nothing is short, None where the log does not say. `kind` is the failure's, ""
    for none. `loading`: it failed before the pool was sized."""

    kind: str
    sentence: str
    shortfall_bytes: int | None
    advice: tuple[str, ...] = ()
    loading: bool = False


def cause(found: Measurement, predicted: Estimate | None) -> Cause:
    """The first line that names a cause; what is printed after it follows from it."""
    if not found.failures:
        return Cause("", _calm(found), 0 if found.outcome is not None else None)
    failure = min(found.failures, key=lambda one: (_VAGUE.get(one.kind, 0), one.line))
    loading = found.first("available_kv_gib") is None and found.first("kv_cache_tokens") is None
    sentence, shortfall = _SENTENCES.get(failure.kind, _other)(failure, found, predicted)
    at_peak = failure.kind.startswith("out_of_memory") and not loading
    advice = (_AT_PEAK if at_peak else _TRY).get(found.engine, _TRY.get(found.engine, ()))
    if failure.kind in ("not_free_at_start", "others_changed_memory"):
        advice = _beside_others(failure, predicted)
    elif failure.kind == "pool_below_one_sequence" and (fits := found.value("estimated_max_len")):
        advice = (
            f"{_LENGTHS.get(found.engine, 'a length')} {fits:.0f}, which the engine says would fit",
            *advice[1:],
        )
    elif failure.kind == "pool_ran_out":
        advice = _IN_FLIGHT.get(found.engine, advice)
    elif failure.kind == "unbalanced":
        advice = ("cards that nothing else uses", "SGLANG_ENABLE_TP_MEMORY_INBALANCE_CHECK=false")
    return Cause(failure.kind, sentence, shortfall, _wider(_not_yet_done(advice, found), found), loading)


def _not_yet_done(advice: tuple[str, ...], found: Measurement) -> tuple[str, ...]:
    """Without what the log shows to be so already."""
    cache = found.first("kv_cache_mib")
    types = {str(found.settings.get("type_k", "")), "" if cache is None else cache.labels.get("type_k", "")}
    done = {
        "--cache-type-k": any(name.startswith("q") for name in types),
        "OLLAMA_KV_CACHE_TYPE": any(name.startswith("q") for name in types),
        "--kv-cache-dtype fp8": str(found.settings.get("kv_cache_dtype", "")).startswith("fp8"),
        "--enforce-eager": found.settings.get("enforce_eager") is True,
    }
    return tuple(one for one in advice if not any(so and one.startswith(words) for words, so in done.items()))


def _beside_others(failure: Failure, predicted: Estimate | None) -> tuple[str, ...]:
    """No share of the card helps where the weights alone are larger than what is free."""
    free = failure.figures.get("free_gib")
    weights = 0 if predicted is None else predicted.per_gpu[0].weights.bytes.value
    if free is None or weights <= free * GIB:
        return _BESIDE_OTHERS
    return (
        f"a smaller checkpoint together with a smaller --gpu-memory-utilization (the weights alone take "
        f"{format_gib(weights)}, {free:.2f} GiB are free)",
        "a card with more free memory",
    )


def _wider(advice: tuple[str, ...], found: Measurement) -> tuple[str, ...]:
    """The same, where more GPUs are advised: twice as many as the log names."""
    ranks = found.settings.get("tensor_parallel_size")
    if not isinstance(ranks, int) or ranks < 2:
        return advice
    return tuple(
        f"{one.removesuffix(' 2')} {2 * ranks}" if one.endswith(("-size 2", "-shard 2")) else one for one in advice
    )


_VAGUE = {
    "out_of_memory_in_graphs": 1, "out_of_memory_warming_up": 1, "warm_up_prefill": 0, "no_room_for_pool": 0,
    "out_of_memory_at_start": 2,
}  # fmt: skip


_SAY_READY = frozenset({"llama.cpp", "ollama"})  # buffers are printed one by one, before anything is used


def _calm(found: Measurement) -> str:
    if found.outcome is None:
        end = "its server was ready" if found.engine in _SAY_READY else "the engine had sized its KV cache"
        return f"The log ends before {end}; nothing in it says that memory ran out."
    return "Nothing in the log says that memory ran out."


def _pool(failure: Failure, found: Measurement, predicted: Estimate | None) -> tuple[str, int | None]:
    length = failure.figures.get("needed_kv_seq_len")
    needed, there = failure.figures.get("needed_kv_gib"), failure.figures.get("available_kv_gib")
    tokens = failure.figures.get("kv_cache_tokens")
    said = f"one sequence of {length:,.0f} tokens" if length else "one sequence"
    if needed is not None and there is not None:
        missing = round((needed - there) * GIB)
        return f"The KV cache of {said} needs {needed:.2f} GiB and {there:.2f} GiB are left for it.", missing
    if length and tokens is not None:
        short: int | None = None
        if predicted is not None and predicted.kv_cache.bytes_per_token:
            short = round((length - tokens) * predicted.kv_cache.bytes_per_token)
        return f"The KV cache holds {tokens:,.0f} tokens, {said} does not fit.", short
    return f"The KV cache cannot hold {said}.", None


def _no_pool(failure: Failure, found: Measurement, predicted: Estimate | None) -> tuple[str, int | None]:
    pool = found.smallest("available_kv_gib")
    need = predicted.kv_cache.minimum_bytes if predicted is not None else 0
    share = "budget" if found.engine == "vllm" else "static share"
    if pool is None:
        return f"Weights and activations fill the engine's whole {share}; nothing is left for the KV cache.", None
    return (
        f"Weights and activations fill the engine's {share}: {pool.text} GiB are left for the KV cache.",
        max(0, need - pool.bytes),
    )


def _not_free(failure: Failure, found: Measurement, predicted: Estimate | None) -> tuple[str, int | None]:
    free, total = failure.figures.get("free_gib", 0.0), failure.figures.get("gpu_mem_gib", 0.0)
    budget = failure.figures.get("budget_gib", 0.0)
    return (
        f"The engine asks for {budget:.2f} GiB at start and {free:.2f} of {total:.2f} GiB are free: "
        f"{total - free:.2f} GiB of the card are taken already.",
        max(1, round((budget - free) * GIB)),
    )


def _changed(failure: Failure, found: Measurement, predicted: Estimate | None) -> tuple[str, int | None]:
    return (
        "Another process gave memory back while the engine measured its own: two engines started at once. "
        "Start one after the other, or give --kv-cache-memory-bytes.",
        None,
    )


def _allocation(failure: Failure, found: Measurement, predicted: Estimate | None) -> tuple[str, int | None]:
    """PyTorch's or a backend's own words."""
    free, size = failure.figures.get("oom_free_gib"), _asked_bytes(failure)
    when = _when(found, failure)
    if size is None:
        return f"An allocation failed {when}.", None
    if free is None:
        return f"An allocation of {format_bytes(size)} failed {when}.", None
    own = failure.figures.get("oom_allocated_gib")
    held = "" if own is None else f"; PyTorch itself held {format_gib(round(own * GIB))}"
    left = round(free * GIB)
    sentence = f"An allocation of {format_bytes(size)} failed {when} with {format_bytes(left)} free{held}."
    return sentence, max(1, size - left)


def _asked_bytes(failure: Failure) -> int | None:
    """What was asked for; a size without a unit in its line is bytes."""
    size, plain = failure.figures.get("asked_gib"), failure.figures.get("asked")
    if size is not None:
        return round(size * GIB)
    return None if plain is None else round(plain)


def _when(found: Measurement, failure: Failure) -> str:
    before = {figure.name for figure in found.figures if figure.line < failure.line}
    if "cudagraph_gib" in before:
        return "while serving, after everything had been reserved"
    if "compute_buffer_mib" in before:  # llama.cpp's last buffer; a failed one of them is of another context
        return "after the buffers had been reserved"
    if before & {"kv_buffer_mib", "kv_total_mib"}:
        return "after the KV cache was reserved"
    if before & {"kv_cache_tokens", "gpu_blocks"}:
        return "after the KV cache was reserved, while graphs were captured or requests served"
    if before & {"weights_gib", "model_buffer_mib"}:
        return "after the weights were loaded"
    return "while the weights were loaded"


def _warm_up(failure: Failure, found: Measurement, predicted: Estimate | None) -> tuple[str, int | None]:
    tokens = failure.figures.get("prefill_tokens_refused", 0)
    return (
        f"The warm-up prefill of {tokens:,.0f} tokens ran out of memory beside the weights: its logits alone are "
        "tokens x vocabulary.",
        None,
    )


def _ran_out(failure: Failure, found: Measurement, predicted: Estimate | None) -> tuple[str, int | None]:
    """Requests in flight that grew past the pool: nothing is wrong with how memory was shared out."""
    tokens = found.value("kv_cache_tokens")
    pool = "KV pool" if tokens is None else f"KV pool of {tokens:,.0f} tokens"
    return f"The {pool} ran out while serving: requests in flight grew past it.", None


def _unbalanced(failure: Failure, found: Measurement, predicted: Estimate | None) -> tuple[str, int | None]:
    least, own = failure.figures.get("least_free_gib"), failure.figures.get("own_free_gib")
    said = "" if least is None or own is None else f": {least:.2f} GiB on the fullest, {own:.2f} on this one"
    return (
        f"Its cards do not have alike much free before the model is loaded{said}. Something else holds some.",
        None,
    )


def _warming_up(failure: Failure, found: Measurement, predicted: Estimate | None) -> tuple[str, int | None]:
    """vLLM's last step before it serves: rows of logits for as many requests as it may run at once."""
    rows = failure.figures.get("dummy_requests")
    many = "" if rows is None else f" with {rows:,.0f} requests at once"
    return f"Memory ran out when the engine, its KV cache in place, warmed up its sampler or pooler{many}.", None


def _component(failure: Failure, found: Measurement, predicted: Estimate | None) -> tuple[str, int | None]:
    """TensorRT-LLM's PyTorch backend says which of its parts could not be made, and what was free before it."""
    free = found.first("free_before_component_gib")
    left = "" if free is None else f", with {free.text} GiB free before it"
    return f"Memory ran out while the engine made its {_PARTS[failure.kind]}{left}.", None


_PARTS = {
    "out_of_memory_loading": "model",
    "out_of_memory_before_pool": "trial run, before the KV cache was sized",
    "out_of_memory_in_pool": "KV cache",
}


def _host(failure: Failure, found: Measurement, predicted: Estimate | None) -> tuple[str, int | None]:
    asked, free = failure.figures.get("asked_gib"), failure.figures.get("oom_free_gib")
    if asked is None:
        return "The model needs more memory than the machine has.", None
    if free is None:
        return f"An allocation of {format_gib(round(asked * GIB))} in the host's own memory failed.", None
    return f"The model needs {asked:g} GiB and the machine has {free:g} GiB.", max(1, round((asked - free) * GIB))


def _other(failure: Failure, found: Measurement, predicted: Estimate | None) -> tuple[str, int | None]:
    return f"The engine ran out of memory: {failure.text[:160]}", None


_SENTENCES = {
    "pool_below_one_sequence": _pool,
    "no_room_for_pool": _no_pool,
    "not_free_at_start": _not_free,
    "others_changed_memory": _changed,
    "out_of_memory": _allocation,
    "warm_up_prefill": _warm_up,
    "pool_ran_out": _ran_out,
    "out_of_memory_warming_up": _warming_up,
    "unbalanced": _unbalanced,
    "out_of_memory_at_start": _allocation,
    **dict.fromkeys(_PARTS, _component),
    "out_of_host_memory": _host,
}
