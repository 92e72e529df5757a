"""The second article, continued: precisions and kernels, the table of one A100, and scheduling."""

from __future__ import annotations

from bench.claim import (
    GPU,
    L8B,
    L70B,
    M7B,
    Claim,
    capacity,
    confirmed,
    corrected,
    planned,
    rank,
    unverified,
    weights,
)
from bench.markdown import gb, gib, percent
from cotenant.catalogue.gpus import find_gpu
from cotenant.catalogue.quantization import kernel, quality, speed_figures
from cotenant.domain.engine import Version
from cotenant.domain.quantization import Speed
from cotenant.engines.starting import starting
from cotenant.estimation.cold_start import FIRST, MEASURED_BYTES, Kept, cold_start

GUIDE = "docs.jarvislabs.ai/blog/vllm-quantization-complete-guide-benchmarks (Qwen2.5-32B-Instruct, one H200)"
SWAP = "developer.nvidia.com/blog/?p=105254 (GPU memory swap, L40S)"
ALADDIN = "arXiv 2405.06856, abstract"


def claims() -> list[Claim]:
    """In the article's order."""
    return [*_fp8(), *_int4(), *_kernels(), *_table(), *_swapping(), *_scheduling()]


def _fp8() -> list[Claim]:
    (perplexity,) = [one for one in quality("fp8") if "perplexity" in one.metric and one.loss_percent is not None][
        :1
    ]
    halves = [f"{percent(weights(model, 'fp8') / weights(model, 'bf16'))} ({name})"
              for model, name in ((L70B, "70B"), (M7B, "Mistral-7B"), (L8B, "8B"))]  # fmt: skip
    support = [f"{gpu} {_speed('fp8', gpu)}" for gpu in ("H100-80GB-SXM", "H200-SXM", "B200-SXM", "L40S", GPU)]
    return [
        unverified(
            "FP8 raises perplexity by less than 0.5 % on most benchmarks",
            f"one published perplexity at hand: {perplexity.model}, {perplexity.metric}, "
            f"{perplexity.loss_percent} %",
            f"{perplexity.source}; which benchmarks are meant is not said",
        ),
        corrected("FP8 halves the weights", ", ".join(halves) + " of 16 bits",
                  "embedding and head stay in 16 bits; one scale for each output"),
        confirmed(
            "H100, H200, B100 run FP8 natively, without losing throughput",
            "; ".join(support),
            "kernel support by compute capability; on an A100 it saves bytes alone (weights are widened first)",
        ),
    ]  # fmt: skip


def _speed(form: str, gpu: str) -> str:
    found = kernel("vllm", form, find_gpu(gpu))
    if found is None:
        return "refused"
    native = "" if find_gpu(gpu).has_native("fp8") else ", memory only"
    return ("fast" if found.speed is Speed.FAST else str(found.speed)) + native


def _int4() -> list[Claim]:
    times = [f"{weights(model, 'bf16') / weights(model, 'awq-int4'):.2f} x ({name})"
             for model, name in ((L70B, "70B"), (M7B, "Mistral-7B"), (L8B, "8B"))]  # fmt: skip
    losses = sorted(one.loss_percent for one in quality("awq-int4") if one.loss_percent is not None)
    return [
        corrected("AWQ cuts the weights 4 times", ", ".join(times), "scales, zeros, embedding and head"),
        unverified(
            "AWQ keeps about 95 % of quality on general tasks",
            f"published losses at hand run from {losses[0]:.1f} to {losses[-1]:.1f} % over {len(losses)} "
            "figures of "
            "different metrics",
            "no metric or model is named, and figures of different metrics are not compared",
        ),
        confirmed("AWQ with Marlin: 741 tok/s against 461 in 16 bits, 60 % faster",
                  f"741 / 461 - 1 = {percent(741 / 461 - 1)}",
                  "741 as quoted from the guide below, 461 as claimed; one model, one card: not a property of "
                  "the format"),
        confirmed("AWQ loses 7.7 % of HumanEval pass@1 (56.1 to 51.8)", "(56.1 - 51.8) / 56.1 = "
                                                                        f"{percent(4.3 / 56.1)}",
                  f"arithmetic; figures as claimed from {GUIDE}, whose table we have not seen"),
        confirmed("GPTQ falls to 46.3, a loss of 17 %", f"(56.1 - 46.3) / 56.1 = {percent(9.8 / 56.1)}",
                  "arithmetic; figures as above"),
        unverified("GPTQ with Marlin: 712 tok/s", f"712 / 461 = {712 / 461:.2f} x 16 bits", "claimed from "
                                                                                            f"{GUIDE}"),
        unverified("GGUF Q4_K_M in vLLM: 93 tok/s, first token after 958 ms",
                   f"93 / 461 = {93 / 461:.2f} x 16 bits; GGUF is refused on vLLM", f"claimed from {GUIDE}"),
        unverified("Q4_K_M is as good as AWQ", _perplexities(),
                   "two models' perplexities over different texts cannot be compared"),
        unverified("FP8 attention with INT4 feed-forward lowers perplexity by 0.14", "shown as claimed, never "
                                                                                     "used to choose",
                   "no model, text or baseline is named; no source found"),
        corrected("that mix compresses almost as much as INT4",
                  f"{gb(weights(L70B, 'mixed-fp8-int4'))} against {gb(weights(L70B, 'awq-int4'))} for the 70B: "
                  f"{percent(weights(L70B, 'mixed-fp8-int4') / weights(L70B, 'awq-int4') - 1)} more",
                  "attention is 12.1 of 68.5 billion quantised parameters"),
    ]  # fmt: skip


def _perplexities() -> str:
    shown = []
    for form in ("gguf-q4_k_m", "awq-int4"):
        known = (one for one in quality(form) if "erplexity" in one.metric and one.loss_percent is not None)
        one = next(known)
        shown.append(f"{form} {one.loss_percent} % on {one.metric} ({one.model})")
    return "; ".join(shown)


def _kernels() -> list[Claim]:
    plain = next(one.value for one in speed_figures() if one.format == "awq-int4" and "plain" in one.kernel)
    return [
        corrected("the same AWQ weights: 67 tok/s with the plain kernel, 741 with Marlin, 10.9 times",
                  f"741 / 67 = {741 / 67:.1f}; the quoted source prints {plain:g}, and 741 / {plain:g} = "
                  f"{741 / plain:.1f}",
                  GUIDE),
        confirmed("check kernels: a wrong one costs 10 times",
                  "each choice names its kernel; one that only works, or is slow, says so",
                  "same figures; support tables by engine, version and compute capability"),
    ]  # fmt: skip


_ROWS = (
    ("70B FP16", 140, 5, 2, 147, False),
    ("70B INT4", 35, 5, 2, 42, True),
    ("70B and Mistral-7B INT4", 38.5, 5.5, 3, 47, True),
    ("70B and two 7B INT4", 42, 6, 4, 52, True),
    ("four 7B INT4", 14, 2, 5, 21, True),
)


def _table() -> list[Claim]:
    context = rank(L70B, "awq-int4").runtime.bytes
    rows = [_row(number, *row) for number, row in enumerate(_ROWS, 1)]
    alone = planned("article-a100/row4").naive
    cards = alone.cards if alone else 0
    return [
        corrected(
            "an A100-80GB leaves about 77 GB after CUDA",
            f"CUDA reports {gib(capacity())} = {gb(capacity())}; a process takes {gib(context.value)} of it, "
            "and vLLM "
            f"0.92 = {gib(0.92 * capacity())} by default",
            "77 is near in GiB, with two processes; GB and GiB are mixed",
        ),
        *rows,
        corrected(
            "one FP16 model usually gets the hardware that holds a 70B and two 7B in INT4: three times too much",
            "FP16 does not fit that card at all; row 4 takes 1 card, the usual sizing (FP16, full context x "
            f"16) {cards}",
            "with 8 x 2K in FP16: 2 cards for the 70B and 1 for each 7B, four times as many",
        ),
    ]


def _row(number: int, name: str, files: float, cache: float, rest: float, total: float, fits: bool) -> Claim:
    plan = planned(f"article-a100/row{number}")
    if plan.feasible:
        shares = [share for gpu in plan.gpus for share in gpu.shares]
        parts = [sum(getattr(share, f"{term}_bytes") for share in shares) for term in ("weights", "kv_cache")]
        others = sum(share.activations_bytes + share.runtime_bytes for share in shares)
    else:
        found = rank(L70B, "bf16")
        parts = [found.weights.bytes.value, found.kv_cache.bytes.value]
        others = found.activations.bytes.value + found.runtime.bytes.value
    ours = sum(parts) + others
    verdict = "fits" if plan.feasible else "does not fit"
    left = f", {gib(capacity() - ours)} left" if plan.feasible else f", {gib(ours - capacity())} too much"
    near = abs(ours / 1e9 / total - 1) < 0.05 and plan.feasible == fits
    say = confirmed if near else corrected
    return say(
        f"row {number}, {name}, 8 x 2K each: {files:g} + {cache:g} + {rest:g} = {total:g} GB, "
        f"{'fits' if fits else 'does not fit'}",
        f"{' + '.join(gib(part) for part in (*parts, others))} = {gib(ours)} = {gb(ours)}: {verdict}{left}",
        f"examples/article-a100/row{number}.yaml" + (_WHY.get(number, "")),
    )


_WHY = {
    1: "; the verdict stands",
    2: "; the verdict stands, AWQ's 16-bit parts are missing",
    3: "; the verdict stands, a 7B caches 2 GiB, not 0.5",
    4: "; the verdict stands, two 7B cache 4 GiB, not 1",
    5: "; the verdict stands, four 7B cache 8 GiB, not 2: with the article's other terms 27 GB",
}


def _cold_starts() -> str:
    """Of both models on that card with nothing kept, by an engine that does not compile, at the pod's storage."""
    card, how = find_gpu("L40S"), starting("vllm", Version.parse("0.6"))
    seconds = [
        cold_start(
            weights(model, "bf16"),
            how,
            kept=Kept.NOTHING,
            gpu=card,
            storage_bandwidth=MEASURED_BYTES / FIRST.weights_s,
        ).total_s
        for model in (M7B, L8B)
    ]
    return f"{seconds[0]:.0f} and {seconds[1]:.0f} s with nothing kept (Mistral-7B, Llama-3.1-8B; disks decide)"


def _swapping() -> list[Claim]:
    card = find_gpu("L40S")
    link = card.host_bandwidth or 1.0
    both = weights(L8B, "bf16") + weights(M7B, "bf16")
    return [
        confirmed(
            "GPU memory swap reactivates a model in 2 to 3 s",
            f"reading 16 bits of the 8B over {link / 1e9:.0f} GB/s takes at least "
            f"{weights(L8B, 'bf16') / link:.2f} s",
            f"as published in {SWAP}; not measured by us",
        ),
        confirmed("a cold start takes 140 to 208 s", _cold_starts(),
                  f"as published: above 140 s for small models, above 200 s for larger ones in {SWAP}"),
        confirmed("swapping is 50 to 66 times faster than that", f"140 / 50 = {140 / 50:.1f} s, 208 / 66 = "
                                                                 f"{208 / 66:.1f} s",
                  "consistent with 2 to 3 s; as published there"),
        corrected(
            "Llama-3.1-8B (32 GB) and Mistral-7B (27.5 GB): weights that exceed a 48 GB L40S together",
            f"{gb(weights(L8B, 'bf16'))} + {gb(weights(M7B, 'bf16'))} = {gb(both)} of weights in 16 bits, on "
            f"{gb(card.cuda_bytes.value)}",
            "the figures are whole processes with their caches (or 32-bit weights: "
            f"{gb(weights(L8B, 'fp32'))}), not weights",
        ),
    ]  # fmt: skip


def _scheduling() -> list[Claim]:
    found = rank(L70B, "awq-int4")
    total = found.footprint_bytes
    wide = sum(term.bytes.high - term.bytes.value for term in found.terms.values())
    trio = planned("a100-trio")
    return [
        unverified("token-level scheduling over models raises efficiency (Aegaeon, SOSP '25)", "not part of "
                                                                                               "this plan",
                   "doi 10.1145/3731569.3764815; no figure is given"),
        confirmed("Aladdin saves up to 71 % of cost while holding its SLOs", "as published",
                  f"{ALADDIN}: of a single model, against its baselines; the article reads as if of many models"),
        confirmed("keep 10 to 15 % free", "12 % by default; the doubts of the 70B's four terms add up to "
                                          f"{percent(wide / total)}",
                  "a margin for bursts and fragments: a choice, not a measurement"),
        unverified("who counts serves 3 to 4 times as many models on a GPU",
                   f"examples/a100-trio.yaml: {len(trio.replicas)} models on {len(trio.gpus)} card; the usual "
                   "sizing takes "
                   f"{trio.naive.cards if trio.naive else 0} cards",
                   "no data is given; the ratio is whatever one compares with"),
    ]  # fmt: skip
