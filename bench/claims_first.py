"""The first article: a memory budget for several models on TGI."""

from __future__ import annotations

from bench.claim import (
    GPU,
    L8B,
    L70B,
    M7B,
    SLOT,
    SLOTS,
    Claim,
    capacity,
    confirmed,
    corrected,
    linear,
    planned,
    rank,
    replica,
    spec,
    token,
    unverified,
    weights,
)
from bench.markdown import gib, percent, whole
from cotenant import api
from cotenant.catalogue.gpus import find_gpu
from cotenant.domain.engine import AdapterSlots
from cotenant.estimation.adapters import adapter_bytes
from cotenant.units import MIB

GEMMA, DEEPSEEK = "google/gemma-3-27b-it", "deepseek-ai/DeepSeek-V3"
TGI = "TGI source: text_generation_server/models/flash_causal_lm.py, warmup"


def claims() -> list[Claim]:
    """In the article's order."""
    return [*_weights(), *_cache(), *_sharing(), *_skeleton(), *_operation()]


def _weights() -> list[Claim]:
    eight = weights(L8B, "int8")
    return [
        confirmed(
            "FP16 takes about 2 bytes a parameter",
            f"{weights(L70B, 'fp16') / spec(L70B).num_parameters:.3f} B a parameter",
            "all tensors in 16 bits",
        ),
        corrected(
            "INT8 takes about 1 byte a parameter",
            f"{eight / spec(L8B).num_parameters:.3f} B for Llama-3.1-8B, "
            f"{weights(L70B, 'int8') / spec(L70B).num_parameters:.3f} B for the 70B",
            f"embedding and head stay in 16 bits: {percent(1 - linear(L8B) / spec(L8B).num_parameters)} of the "
            "8B's parameters",
        ),
        confirmed(
            "models that are loaded apart add up their weights",
            f"{gib(sum(share.weights_bytes for share in planned('article-a100/row5').gpus[0].shares))} for four "
            f"Mistral-7B in INT4",
            f"4 x {gib(rank(M7B, 'awq-int4').weights.bytes.value)}",
        ),
    ]


def _cache() -> list[Claim]:
    gemma = spec(GEMMA)
    return [
        confirmed(
            "cache = 2 x layers x KV heads x head dimension x length x requests x bytes an element",
            f"{whole(token(L70B))} B a token for Llama-3.1-70B, {whole(token(L8B))} B for the 8B",
            "2 x 80 x 8 x 128 x 2 and 2 x 32 x 8 x 128 x 2; to the byte",
        ),
        corrected(
            "that formula is a lower bound, to which an implementation only adds",
            f"above the truth for windows and latent caches: at 8,192 tokens Gemma-3-27B keeps {_kept(GEMMA)} "
            "of it, "
            f"DeepSeek-V3 {_kept(DEEPSEEK)}",
            f"{sum(g.num_layers for g in gemma.layer_groups if g.window)} of {gemma.num_layers} layers of Gemma "
            "keep "
            f"1,024 tokens; MLA keeps a row of 576 elements a layer, not 128 heads of 192 + 128",
        ),
        corrected(
            "plan for each model's worst case (most requests x longest sequence), then add the models up",
            f"the three models of examples/a100-trio.yaml: {gib(_trio('kv_worst_case_bytes'))} so, "
            f"{gib(_trio('kv_needed_bytes'))} at 1 % overflow",
            "most requests are short, and not all are long at once; what does not fit waits or is preempted",
        ),
    ]


def _kept(model: str) -> str:
    """The share of the textbook's cache that a sequence of 8,192 tokens needs."""
    structure = spec(model)
    found = api.estimate(
        model, gpu="B300-SXM", max_model_len=8192, max_num_seqs=1, kv_cache_memory_bytes=64 * 2**30,
        tensor_parallel_size=1 if model == GEMMA else 8, max_num_batched_tokens=2048,
    ).kv_cache  # fmt: skip
    heads = {GEMMA: (16, 128 + 128), DEEPSEEK: (128, 192 + 128)}[model]
    textbook = structure.num_layers * heads[0] * heads[1] * 2 * 8192
    need = found.bytes_per_sequence + found.bytes_per_token * 8192
    return percent(need / textbook, 1 if need / textbook < 0.1 else 0)


def _trio(name: str) -> int:
    return sum(getattr(one, name) for one in planned("a100-trio").replicas)


def _together(example: str) -> int:
    return sum(share.claimed_bytes for gpu in planned(example).gpus for share in gpu.shares)


def _sharing() -> list[Claim]:
    slot = adapter_bytes(spec(L8B), AdapterSlots(1, 16), 1, 0, 1, on_vocabulary=True)
    vllm, tgi = (
        _together(f"adapters/{kind}-apart") - _together(f"adapters/{kind}-shared") for kind in ("vllm", "tgi-like")
    )
    return [
        confirmed(
            "LoRA adapters in one process: the base once, each adapter's weights, and the cache of all requests",
            f"a slot of rank 16 on Llama-3.1-8B is {slot / MIB:,.0f} MiB beside {gib(weights(L8B, 'bf16'))}",
            "rank x (inputs + outputs) x 2 bytes over all linear layers and the vocabulary, as vLLM reserves it",
        ),
        corrected(
            "the peak caches of all adapters add up",
            f"one pool serves them all: {gib(_needed('adapters/vllm-shared'))} for 8 requests of two adapters, "
            f"{gib(_needed('adapters/vllm-apart'))} for two pools of 4",
            "pages are handed out by request; a larger pool evens out long and short ones",
        ),
        confirmed(
            "two processes do not share weights, not even those of one file",
            f"two adapters apart instead of together cost {gib(vllm)} more (vLLM), {gib(tgi)} (TGI)",
            "each process copies the file into its own device memory (docs/adapters.md)",
        ),
    ]


def _needed(example: str) -> int:
    return sum(one.kv_needed_bytes for one in planned(example).replicas)


def _skeleton() -> list[Claim]:
    sequence = SLOT * token(L8B)
    shares = [_overhead(L70B, "awq-int4"), _overhead(M7B, "awq-int4")]
    return [
        corrected(
            "skeleton: cache = bytes of a sequence x requests x longest sequence",
            f"{gib(sequence * SLOTS)} for 8 sequences of 2,048 of Llama-3.1-8B; the skeleton gives "
            f"{gib(sequence * SLOTS * SLOT, 0)}",
            "a sequence's bytes already hold its length: 2,048 times too much",
        ),
        corrected(
            "skeleton: weights = bytes of one model x number of models",
            "a sum over the models, each with its own bytes",
            "holds only when all models are alike",
        ),
        corrected(
            "skeleton: overhead = 10 % of weights and cache (called a placeholder)",
            f"{percent(shares[0])} for the 70B in AWQ, {percent(shares[1])} for Mistral-7B in AWQ (8 x 2,048)",
            "activations follow the batch and the widest layer, runtime the process: neither follows the weights",
        ),
        corrected(
            "activations, CUDA context and fragmentation cannot be calculated, only measured under load",
            f"the 70B in AWQ: activations {_interval(L70B, 'activations')}, runtime {_interval(L70B, 'runtime')}",
            "counted from the engine's own start-up run, with a 90 % interval; a measurement narrows it",
        ),
    ]


def _overhead(model: str, form: str) -> float:
    found = rank(model, form)
    return (found.activations.bytes.value + found.runtime.bytes.value) / (
        found.weights.bytes.value + found.kv_cache.bytes.value
    )


def _interval(model: str, term: str) -> str:
    found = rank(model, "awq-int4").terms[term].bytes
    return f"{gib(found.low)} to {gib(found.high)}"


def _operation() -> list[Claim]:
    found = replica(L8B, "bf16")
    link = find_gpu(GPU).host_bandwidth or 1.0
    return [
        corrected(
            "TGI's max_input_tokens, max_total_tokens and concurrency set the upper bound of its cache",
            f"the pool is what is left after warm-up; of {gib(capacity())} an 8B leaves about "
            f"{gib(capacity() - found.per_gpu[0].footprint_bytes + found.per_gpu[0].kv_cache.bytes.value, 0)}",
            f"these bound one request and the queue; blocks fill the card ({TGI})",
        ),
        unverified(
            "one model's peak can starve the others of cache inside one deployment",
            "not inside a plan: every process has a pool of fixed bytes",
            "one process of TGI serves one base; its adapters do share a pool, and may",
        ),
        confirmed(
            "swap and host memory are no capacity",
            f"never offered: reading the 8B's weights back takes {weights(L8B, 'bf16') / link:.1f} s at the least",
            f"{whole(weights(L8B, 'bf16'))} B over {link / 1e9:,.0f} GB/s of PCIe",
        ),
        confirmed(
            "if it does not fit: split the deployment, fewer requests at once, shorter sequences",
            f"examples/does-not-fit.yaml: {'; '.join(planned('does-not-fit').shortfalls[0].remedies[:3])}",
            "each remedy is planned before it is offered",
        ),
    ]
