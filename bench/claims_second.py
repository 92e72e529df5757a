"""The second article: several models on shared GPUs, and the three times too many that teams pay for."""

from __future__ import annotations

from bench.claim import (
    GPU,
    L8B,
    L70B,
    L405B,
    M7B,
    Claim,
    capacity,
    confirmed,
    corrected,
    linear,
    rank,
    replica,
    spec,
    token,
    weights,
)
from bench.markdown import gb, gib, percent, whole
from cotenant import api
from cotenant.domain.estimate import RankEstimate

FULL = 131_072


def claims() -> list[Claim]:
    """The four terms and the cache, in the article's order."""
    return [*_weights(), *_cache(), *_other_terms(), *_waste(), *_sizes()]


def _weights() -> list[Claim]:
    awq, plain = weights(L70B, "awq-int4"), weights(L70B, "bf16")
    rest = (spec(L70B).num_parameters - linear(L70B)) * 2
    return [
        confirmed(
            "70B in FP16: 140 GB",
            f"{gb(plain)} = {gib(plain)}",
            f"2 x {whole(spec(L70B).num_parameters)} parameters",
        ),
        corrected(
            "70B in INT4: 35 GB",
            f"{gb(awq)} = {gib(awq)} (AWQ, groups of 128)",
            f"{gb(linear(L70B) / 2)} of 4-bit values, {gb(awq - linear(L70B) / 2 - rest)} of scales and zeros, "
            f"{gb(rest)} of embedding, head and norms in 16 bits",
        ),
        corrected(
            "INT4 takes 0.5 bytes a parameter",
            ", ".join(
                f"{weights(model, 'awq-int4') / spec(model).num_parameters:.3f} B ({name})"
                for model, name in ((L70B, "70B"), (M7B, "Mistral-7B"), (L8B, "8B"))
            ),
            "the smaller the model and the larger its vocabulary, the less is quantised",
        ),
        confirmed(
            "weights alone are where most sizings stop, and fall short",
            f"the 70B in AWQ with 8 x 2,048 takes {percent(rank(L70B, 'awq-int4').footprint_bytes / awq - 1)} "
            "more "
            "than its file",
            "the cache grows with the traffic: without limit, but for the card",
        ),
    ]


def _cache() -> list[Claim]:
    one, files = FULL * token(L70B), weights(L70B, "bf16")
    return [
        confirmed("0.31 MB of cache a token for Llama-3.1-70B (in MiB)", f"{whole(token(L70B))} B = {_mib(L70B)}",
                  "2 x 80 x 8 x 128 x 2"),
        confirmed("about 40 GB for one request of 128K (in GiB)", f"{gib(one)} = {gb(one)}",
                  f"131,072 x {whole(token(L70B))}"),
        confirmed("160 GB for four of them, more than the weights (in GiB)", f"{gib(4 * one)} against "
                                                                             f"{gib(files)}",
                  "4 x 40 GiB"),
        corrected(
            "weights dominate up to 2K tokens, the cache from 32K on",
            f"it is the tokens in flight: {files // token(L70B):,} equal the 70B's weights in BF16, "
            f"{weights(L70B, 'awq-int4') // token(L70B):,} in AWQ",
            f"one request of 32K takes {gib(32768 * token(L70B), 0)}; {files / token(L70B) / 32768:.1f} of them "
            "equal "
            "the weights in BF16",
        ),
        confirmed("grouped queries: 8 KV heads instead of 64 cut the cache 8 times", _heads(),
                  "query heads / KV heads"),
    ]  # fmt: skip


def _mib(model: str) -> str:
    return f"{token(model) / 2**20:.4g} MiB"


def _heads() -> str:
    (group,) = spec(L70B).layer_groups
    return f"{group.query_heads} / {group.kv_heads} = {group.query_heads / group.kv_heads:g}"


def _other_terms() -> list[Claim]:
    cases = ((L70B, "bf16", "70B BF16"), (L70B, "awq-int4", "70B AWQ"), (M7B, "awq-int4", "Mistral-7B AWQ"))
    shares = [f"{percent(_share(rank(model, form)))} ({name})" for model, form, name in cases]
    single, pair = rank(L70B, "awq-int4").runtime.bytes, replica(L70B, "bf16", ranks=2).per_gpu[0].runtime.bytes
    return [
        corrected(
            "activations: 5 to 15 % of the weights, growing with batch and sequence length",
            ", ".join(shares),
            "max_num_batched_tokens through the widest layer, or max_num_seqs rows of logits; not the weights",
        ),
        corrected(
            "framework: 1 to 3 GB a loaded model",
            f"{gib(single.value)} ({gib(single.low)} to {gib(single.high)}) on one GPU, {gib(pair.value)} "
            f"({gib(pair.low)} to {gib(pair.high)}) a GPU with two",
            "CUDA context, kernels, communicators, graphs of vLLM; Python itself takes none of the GPU",
        ),
    ]


def _share(found: RankEstimate) -> float:
    return found.activations.bytes.value / found.weights.bytes.value


def _waste() -> list[Claim]:
    pair = replica(L70B, "bf16", slots=16, length=4096, ranks=2)
    seen = api.estimate(
        L70B, gpu=GPU, quantization="awq-int4", concurrent=16, context_tokens={"p50": 1200, "p95": 4096}
    ).kv_cache.needed_bytes
    pools = [_pool(length) for length in (8192, FULL)]
    need = weights(L70B, "bf16") + 16 * FULL * token(L70B)
    return [
        corrected(
            "engines reserve context x slots: 16 x 40 GB = 640 GB for 16 slots of 128K",
            f"{gib(16 * FULL * token(L70B), 0)} is right; vLLM reserves what its budget leaves, whatever the "
            "slots, "
            "and asks that one longest sequence fits",
            "pages are given out as requests grow; a plan of slots x context buys the cards all the same",
        ),
        confirmed("4K tokens at p95: about 1.25 GB a slot (in GiB)", gib(4096 * token(L70B)),
                  f"4,096 x {whole(token(L70B))}"),
        confirmed("16 such slots: 20 GB (in GiB)", gib(16 * 4096 * token(L70B)), "16 x 1.25 GiB"),
        corrected(
            "size every slot by p95",
            f"{gib(seen or 0)} for 16 requests with p50 1,200 and p95 4,096 (1 % overflow), not 20 GiB",
            "not all 16 are at their 95th percentile; and p95 as max_model_len would refuse one request in 20",
        ),
        corrected(
            "eight A100 become two (70B FP16, 16 slots of 4K instead of 128K)",
            f"{need / capacity():.1f} cards' worth of bytes, 16 cards in powers of two, become 2: "
            f"{gib(pair.per_gpu[0].footprint_bytes)} of {gib(capacity())} each, {pair.verdict}",
            f"{gib(need, 0)} of weights and cache before; two cards leave "
            f"{percent(pair.per_gpu[0].headroom.value / capacity())} of headroom, below the 10 % asked for later",
        ),
        corrected(
            "a careful (large) max_model_len wastes memory in vLLM",
            f"the pool of an 8B is {gib(pools[0])} with max_model_len 8,192 and {gib(pools[1])} with 131,072",
            "plain attention: the pool does not depend on it; only the smallest pool that starts does",
        ),
    ]  # fmt: skip


def _pool(length: int) -> int:
    return api.estimate(L8B, gpu=GPU, max_model_len=length, max_num_seqs=16).kv_cache.reserved_bytes


def _sizes() -> list[Claim]:
    said = (
        (L8B, "Llama-3.1-8B", 0.03),
        (M7B, "Mistral-7B", 0.03),
        (L70B, "Llama-3.1-70B", 0.31),
        (L405B, "Llama-3.1-405B", 0.49),
    )
    found = []
    for model, name, figure in said:
        (group,) = spec(model).layer_groups
        ours = 2 * group.num_layers * group.kv_heads * group.key_width * 2
        right = abs(ours / 2**20 - figure) < 0.005
        off = "" if right else f"; {ours / 2**20 / figure:.1f} times the article's"
        say = confirmed if right else corrected
        found.append(
            say(f"{name}: about {figure} MB of cache a token", f"{whole(ours)} B = {ours / 2**20:.4g} MiB{off}",
                f"2 x {group.num_layers} x {group.kv_heads} x {group.key_width} x 2")
        )  # fmt: skip
    return found
