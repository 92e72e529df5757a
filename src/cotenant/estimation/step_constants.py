"""The constants of the plain roofline, each said once, with where it comes from.

SECTION 3 below stands for a least-squares fit of this roofline to about 1,900 published serving
measurements (InferenceX, NVIDIA's gap analysis and NIM pages, TensorRT-LLM's performance overview, dstack and
others; the project's notes on serving systems, section 3). Unanchored it errs 12 % (median) on the rows
fitted and 20 % on rows kept apart; an engine's version alone moves TPOT by 16 %.
"""

from __future__ import annotations

from typing import Final

# Share of the card's bandwidth that reading weights and cache reaches. SECTION 3.
DENSE_BANDWIDTH: Final = 0.95
MOE_BANDWIDTH: Final = 0.73
KV_BANDWIDTH: Final = 0.82

# Share of the card's dense peak that large matrix products reach. SECTION 3.
COMPUTE: Final = 0.87

# Elements that a head of MLA multiplies per pair of tokens while a prompt is read: qk_nope_head_dim 128 +
# qk_rope_head_dim 64 + v_head_dim 128 (config.json of DeepSeek-V2, V3 and Kimi-K2).
MLA_PREFILL_WIDTH: Final = 320

# Bytes and FLOPs overlap in part: step = (bytes_s^p + flops_s^p)^(1/p). p = 1 is no overlap, infinity all of it.
NORM: Final = 2.0

# Launches, scheduling and sampling, seconds a layer and step. SECTION 3 for the first three; TGI runs the
# same kernels as vLLM under a leaner scheduler, llama.cpp launches one CUDA graph a step: both unmeasured here.
LAYER_OVERHEAD_S: Final = {"vllm": 55e-6, "tensorrt-llm": 24e-6, "sglang": 107e-6, "tgi": 55e-6}
LAYER_OVERHEAD_ELSEWHERE_S: Final = 55e-6

# One all-reduce of tensor parallel: a latency that grows with log2(ranks), two a layer. SECTION 3.
ALL_REDUCE_S: Final = 6.4e-6
ALL_REDUCES_A_LAYER: Final = 2

# What a first token costs besides its prefill. SECTION 3.
FIRST_TOKEN_S: Final = 46e-3

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

# The 90 % interval as factors on a time: a true TPOT of 0.6 to 2 times the estimate. It holds 89 % of the 1,726
# published serving rows that state length, output and concurrency (16 % median error, 57 % at the 90th percentile;
# 95 % of the rows of plain dense and mixture models). Not refitted here.
INTERVAL: Final = (0.6, 2.0)
UNMEASURED: Final = 1.5  # an engine or a kernel without a measured constant: each end this much further out

# PCIe 4.0 x16, one direction, where a card's own figure is missing.
HOST_BANDWIDTH: Final = 32e9

# Starting an engine, seconds, weights apart: (low, value, high). A switch between Qwen3-0.6B and Phi-3-vision
# under vLLM 0.11 on an A100 took 48 s each, weights of a few GB included (vLLM blog, sleep mode, 2025-10-26); a
# 13B took 26.9 s without graph capture (Aegaeon, SOSP'25).
START_UP_S: Final = (15.0, 40.0, 120.0)
# Bytes/s from local NVMe through the loader.
STORAGE_BANDWIDTH: Final = 2e9
