"""The constants of the plain roofline, each said once, with where it comes from.

`Fitted` holds what no data sheet says. `python -m bench.step_time --refit` fits it again to published serving
measurements, leaving one publication out at a time; docs/step-times.md has both figures.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Fitted:
    """What a roofline reaches of a card's data sheet, and what an engine adds.

    The `_bandwidth` fields are shares of the card's memory bandwidth, the `compute_` fields shares of its dense
    peak (in 16 bits, in 8 or fewer, and, on top of either, in a mixture's grouped products). `_s` are seconds.
    """

    dense_bandwidth: float = 0.887
    moe_bandwidth: float = 0.799
    weight_only_moe: float = 0.797  # of `moe_bandwidth`, where experts are widened to 16 bits on the way
    kv_bandwidth: float = 0.97
    compute_16: float = 0.802
    compute_8: float = 0.551
    compute_moe: float = 0.446  # grouped products: small matrices, uneven experts
    fused_compute_moe: float = 0.654  # the same in kernels that are one call
    vllm_layer_s: float = 37.6e-6
    tensorrt_llm_layer_s: float = 34.6e-6
    sglang_layer_s: float = 73.3e-6
    moe_layer_s: float = 33.4e-6  # on top, where a layer routes: gate, sort, permute
    fused_moe_layer_s: float = 20.9e-6  # the same where one call does all of it
    all_reduce_s: float = 8.8e-6  # x sqrt(log2(ranks)), two a layer
    fused_all_reduce_s: float = 7.7e-6  # TensorRT-LLM's, fused with the norm that follows
    link: float = 0.401  # of a link's bandwidth, in all-reduces
    sequence_s: float = 8e-6  # a step, for each sequence: scheduling and sampling, not split over ranks
    eager_layer_s: float = 91.5e-6  # launching a layer of a prefill, which no CUDA graph holds
    vllm_release: float = 1.054  # overhead of a minor release over the next one's
    cdna_pace: float = 2.14  # how much longer steps take on AMD's CDNA than its data sheet says
    first_token_s: float = 8.75e-3
    closed_queue: float = 1.81  # prefills that a first token waits for in a closed loop, besides its own


FITTED: Final = Fitted()

# Elements that a head of MLA multiplies per pair of tokens while a prompt is read: qk_nope_head_dim 128 +
# qk_rope_head_dim 64 + v_head_dim 128 (config.json of DeepSeek-V2, V3 and Kimi-K2).
MLA_PREFILL_WIDTH: Final = 320

# Bytes and FLOPs overlap in part: step = (bytes_s^p + flops_s^p)^(1/p). p = 1 is no overlap, infinity all of it.
NORM: Final = 2.0

# The engines whose overhead a layer was measured; TGI runs the same kernels as vLLM under a leaner scheduler,
# llama.cpp launches one CUDA graph a step: both are taken to be as vLLM, with a wider interval.
MEASURED_ENGINES: Final = ("vllm", "tensorrt-llm", "sglang")

# The architectures that nearly all of those rows ran on.
MEASURED_ARCHITECTURES: Final = ("Hopper", "Blackwell")

# FLOP/s in 16 bits that a data centre Blackwell has for kernels that do not use its own tcgen05 instructions, as
# Marlin's for 4-bit weights: those of a Hopper card, since tcgen05 is 2 to 4 times as fast as what came before
# (CUTLASS, media/docs/cpp/blackwell_functionality.md) and 2,250 TFLOP/s are of it.
MMA_SYNC_FLOPS: Final = 989e12

ALL_REDUCES_A_LAYER: Final = 2

# vLLM's overhead was measured from 0.12 to 0.19: newer ones count as that, older ones as eight releases back.
VLLM_RELEASE: Final = 19
MOST_RELEASES_BACK: Final = 8

# How much longer than this roofline matrix products take in a slow kernel, by the catalogue's kernel names. On
# Qwen2.5-32B, H200, vLLM, Marlin gave 741 tok/s on AWQ weights, AWQ's first kernel 67 on the same, the in-tree
# GGUF kernels 93 on Q4_K_M (docs.jarvislabs.ai/blog/vllm-quantization-complete-guide-benchmarks, as the second
# article quotes it; not re-run).
SLOW_KERNELS: Final = {"AWQ GEMM (plain)": 741 / 67, "GGUF (in tree)": 741 / 93}
# Other slow kernels as bitsandbytes: NF4 gives 0.63 of BF16's speed where a fast 4-bit kernel gives 1.6 times
# (hf.co/datasets/derekl35/quantization-benchmarks: 24.35 against 38.82 tok/s; 741 against 461 above).
SLOW_KERNEL_ELSEWHERE: Final = 741 / 461 * 38.82 / 24.35

# gamma in TPOT = step + gamma (B - 1) x prefill / output length: every other running request was prefilled once
# during one's own decode. 1 is that argument; of 0, 0.5 and 1 it also leaves the least error on SECTION 3's rows.
INTERFERENCE: Final = 1.0

# The 90 % interval as factors on a time: a true TPOT of 0.72 to 1.56 times the estimate, where engine, card and
# kernel were measured. docs/step-times.md says how many published rows it holds, and how many of publications that
# were left out of the fit.
INTERVAL: Final = (0.72, 1.56)
# Median |ours / published - 1| of TPOTs of publications that the constants never saw (docs/step-times.md).
OWN_ERROR: Final = 0.137
# A first token queues, and no record says how: its interval is that much wider at each end.
FIRST_TOKEN_WIDER: Final = (0.65, 2.0)
# What stays open once one configuration was measured: how far other loads of it lie, after scaling to one of them
# (1,643 published TPOTs, 1,647 TTFTs: `python -m bench.step_time`, the rows that end in _anchored).
ANCHORED: Final = (0.74, 1.27)
ANCHORED_FIRST_TOKEN: Final = (0.58, 2.2)
UNMEASURED: Final = (
    1.5  # an engine, a card's architecture or a kernel that was not: each end this much further out
)
