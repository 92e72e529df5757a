# ruff: noqa: E501 - log lines are long
"""Every statement with a memory figure that engines print, by the releases that print it so, and what it says.

Found by reading the calls to loggers in the sources of the releases named: vLLM 0.3.0 to 0.33.0 (worker/,
executor/, v1/), SGLang 0.2.0 to 0.5.23 (srt/model_executor, srt/mem_cache, srt/managers), llama.cpp b500 to b11434,
ik_llama.cpp of August 2026, Ollama 0.1.33 to 0.32, TGI 1.0 to 3.3.7. The words are the engines', the numbers ours.
"""

from __future__ import annotations

from typing import NamedTuple


class Statement(NamedTuple):
    """`figures`: name -> value, as they are read. `failure`: the kind of failure that it tells, if any."""

    engine: str
    releases: str
    line: str
    figures: dict[str, float]
    failure: str = ""


_V, _S, _L, _I, _O, _T = "vllm", "sglang", "llama.cpp", "llama.cpp", "ollama", "tgi"

STATEMENTS = (
    # vLLM
    Statement(_V, "0.3 to 0.6", "INFO 04-01 10:00:00 llm_engine.py:357] # GPU blocks: 7406, # CPU blocks: 2048", {"gpu_blocks": 7406}),
    Statement(_V, "0.8 to 0.9, old core", "INFO 04-01 10:00:00 executor_base.py:112] # cuda blocks: 7406, # CPU blocks: 2048", {"gpu_blocks": 7406}),
    Statement(_V, "0.4 to 0.6, processors", "INFO 04-01 10:00:00 cpu_executor.py:192] # CPU blocks: 4096", {"gpu_blocks": 4096}),
    Statement(_V, "0.3 to 0.8", "ValueError: The model's max seq len (32768) is larger than the maximum number of tokens that can be stored in KV cache (10512). Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine.", {"needed_kv_seq_len": 32768, "kv_cache_tokens": 10512}, "pool_below_one_sequence"),
    Statement(_V, "0.3 to 0.5", "INFO 04-01 10:00:00 model_runner.py:104] Loading model weights took 12.5523 GB", {"weights_gib": 12.5523}),
    Statement(_V, "0.3 to 0.6", "ValueError: Out of memory! No free blocks are available.", {}, "pool_ran_out"),
    Statement(_V, "0.6.4", "INFO 11-15 10:00:00 worker.py:232] Memory profiling results: total_gpu_memory=23.64GiB initial_memory_usage=15.03GiB peak_torch_memory=16.20GiB memory_usage_post_profile=15.12Gib non_torch_memory=0.19GiB kv_cache_size=4.88GiB gpu_memory_utilization=0.90", {"gpu_mem_gib": 23.64, "non_torch_gib": 0.19, "available_kv_gib": 4.88, "utilization_printed": 0.90}),
    Statement(_V, "0.7 to 0.7.3, new core", "ValueError: To serve at least one request with the models's max seq len (131072), (16.00 GB KV cache is needed, which is larger than the available KV cache memory (4.75 GB). Try increasing `gpu_memory_utilization`", {"needed_kv_seq_len": 131072, "needed_kv_gib": 16.0, "available_kv_gib": 4.75}, "pool_below_one_sequence"),
    Statement(_V, "0.8.3 to 0.10", "ValueError: To serve at least one request with the models's max seq len (131072), (16.00 GiB KV cache is needed, which is larger than the available KV cache memory (4.75 GiB). Based on the available memory, the estimated maximum model length is 38912. Try", {"needed_kv_gib": 16.0, "available_kv_gib": 4.75, "estimated_max_len": 38912}, "pool_below_one_sequence"),
    Statement(_V, "0.9 to 0.33, DEBUG", "DEBUG 06-01 10:00:00 [gpu_worker.py:312] Memory profiling takes 4.31 seconds. Total non KV cache memory: 17.13GiB; torch peak memory increase: 1.40GiB; non-torch forward increase memory: 0.53GiB; weights memory: 14.99GiB.", {"activation_peak_gib": 1.40, "weights_gib": 14.99}),
    Statement(_V, "0.33, DEBUG", "DEBUG 11-01 10:00:00 [gpu_worker.py:771] Memory profiling takes 4.31 seconds. Total non KV cache memory: 17.13GiB; torch peak memory increase: 1.4GiB; total consumed (from mem_get_info): 15.6GiB; weights memory: 14.99GiB.", {"activation_peak_gib": 1.4, "weights_gib": 14.99}),
    Statement(_V, "0.10, DEBUG", "DEBUG 07-24 10:00:00 [gpu_worker.py:240] Initial free memory: 23.28 GiB, free memory: 7.11 GiB, requested GPU memory: 21.28 GiB", {"free_gib": 23.28, "budget_gib": 21.28}),
    Statement(_V, "0.10.2 to 0.33, DEBUG", "DEBUG 09-10 10:00:00 [gpu_worker.py:271] Initial free memory: 23.28 GiB; Requested memory: 0.90 (util), 21.28 GiB", {"free_gib": 23.28, "budget_gib": 21.28}),
    Statement(_V, "0.11 to 0.33", "INFO 10-02 10:00:00 [gpu_worker.py:255] Initial free memory 23.28 GiB, reserved 4.00 GiB memory for KV Cache as specified by kv_cache_memory_bytes config and skipped memory profiling. This does not respect the gpu_memory_utilization config.", {"free_gib": 23.28, "given_kv_gib": 4.0}),
    Statement(_V, "0.14 to 0.33", "INFO 02-01 10:00:00 [kv_cache_utils.py:1500] Auto-fit max_model_len: reduced from 131072 to 38912 to fit in available GPU memory (4.75 GiB available for KV cache)", {"fitted_max_len": 38912}),
    Statement(_V, "0.14 to 0.33", "ValueError: Cannot auto-fit max_model_len: not enough GPU memory available to serve even a single token. Try increasing `gpu_memory_utilization`.", {}, "no_room_for_pool"),
    Statement(_V, "0.30 to 0.33", "INFO 11-01 10:00:00 [startup_plan.py:154] Applying persisted startup plan (fingerprint 9f3a): kv_cache_memory_bytes=5100273664 (4.75 GiB), recorded free-memory baseline 23.10 GiB, current 23.28 GiB. Memory profiling will be skipped.", {"available_kv_gib": 4.75}),
    Statement(_V, "0.31 to 0.33", "ValueError: Free memory on device cuda:0 (6.11/23.64 GiB) on startup is less than the engine's budget after excluding external process's weights (0.9, 7.28 GiB). Decrease GPU memory utilization", {"free_gib": 6.11, "gpu_mem_gib": 23.64, "budget_gib": 7.28}, "not_free_at_start"),
    Statement(_V, "0.33", "INFO 11-01 10:00:00 [kv_cache_utils.py:2012] GPU KV cache size: 38,944 tokens, Maximum concurrency for 8,192 tokens per request: 4.75x", {"kv_cache_tokens": 38944, "max_concurrency_len": 8192, "max_concurrency": 4.75}),
    Statement(_V, "0.33, processors", "INFO 11-01 10:00:00 [cpu_worker.py:260] Auto set (20.5/62.7) GiB for KV cache on node 0, with 25.08 GiB requested memory for the worker. 4.58 GiB memory was consumed by non-kv usages.", {"available_kv_gib": 20.5}),
    Statement(_V, "0.26 to 0.33", "INFO 11-01 10:00:00 [mm_encoder_model_runner.py:95] Encoder graph capturing finished in 12 secs, took 0.42 GiB (8 graphs)", {"encoder_graphs_gib": 0.42}),
    # SGLang
    Statement(_S, "0.2 to 0.4.3", "[2025-01-20 10:00:00 TP0] Load weight end. type=LlamaForCausalLM, dtype=torch.bfloat16, avail mem=63.90 GB", {"free_after_weights_gib": 63.90}),
    Statement(_S, "0.4.4 to 0.4.9", "[2025-04-01 10:00:00] Capture cuda graph end. Time elapsed: 12.03 s. avail mem=7.12 GB. mem usage=1.31 GB.", {"cudagraph_gib": 1.31}),
    Statement(_S, "0.4.10 to 0.5.23", "[2025-09-01 10:00:00] Capture cuda graph end. Time elapsed: 12.03 s. mem usage=1.31 GB. avail mem=7.12 GB.", {"cudagraph_gib": 1.31}),
    Statement(_S, "0.5.2 to 0.5.3", "[2025-10-01 10:00:00] Mamba Cache is allocated. conv_state size: 0.15GB, ssm_state size: 5.77GB ", {"conv_states_gib": 0.15, "ssm_states_gib": 5.77}),
    Statement(_S, "0.5.4 to 0.5.23", "[2026-01-01 10:00:00] Mamba Cache is allocated. max_mamba_cache_size: 48, conv_state size: 0.15GB, ssm_state size: 5.77GB intermediate_ssm_state_cache size: 1.44GB intermediate_conv_window_cache size: 0.04GB ", {"conv_states_gib": 0.15, "ssm_states_gib": 5.77, "draft_states_gib": 1.44, "draft_windows_gib": 0.04}),
    Statement(_S, "0.5.11 to 0.5.23", "RuntimeError: Not enough GPU memory for hybrid (mamba/linear-attention) state cache. Computed max_mamba_cache_size=0 (total_rest_memory=-1.20 GB, mamba_cache_per_req=74.25 MB).", {}, "no_room_for_pool"),
    Statement(_S, "0.2 to 0.5.23", "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.", {}, "no_room_for_pool"),
    Statement(_S, "0.3.6 to 0.5.23", "RuntimeError: Prefill out of memory. Try to lower your batch size.", {}, "pool_ran_out"),
    Statement(_S, "0.4.4 to 0.5.23", "RuntimeError: alloc_req_slots runs out of memory. Please set a smaller number for `--max-running-requests`.", {}, "pool_ran_out"),
    Statement(_S, "0.4.7 to 0.5.23", "RuntimeError: The memory capacity is unbalanced. Some GPUs may be occupied by other processes. pre_model_load_memory=60.1, local_gpu_memory=78.6, local_gpu_memory * 0.9=70.7", {"least_free_gib": 60.1, "own_free_gib": 78.6}, "unbalanced"),
    # llama.cpp
    Statement(_L, "May to August 2023", "llama_model_load_internal: mem required  = 5407.72 MB (+ 1026.00 MB per state)", {"host_needed_mib": 5407.72}),
    Statement(_L, "2023", "llama_new_context_with_model: kv self size  =  256.00 MB", {"kv_cache_mib": 256.0}),
    Statement(_L, "August to December 2023", "llama_new_context_with_model: compute buffer total size = 73.69 MB", {"compute_total_mib": 73.69}),
    Statement(_L, "November 2023", "llama_new_context_with_model: total VRAM used: 4099.05 MB (model: 3772.55 MB, context: 326.50 MB)", {"vram_mib": 4099.05, "model_buffer_mib": 3772.55}),
    Statement(_L, "November 2023", "llama_new_context_with_model: VRAM scratch buffer: 70.50 MB", {"compute_buffer_mib": 70.5}),
    Statement(_L, "2024", "llm_load_tensors:      CUDA0 buffer size =  4155.99 MiB", {"model_buffer_mib": 4155.99}),
    Statement(_L, "b4880 on", "load_tensors:        CUDA0 model buffer size =  4168.09 MiB", {"model_buffer_mib": 4168.09}),
    Statement(_L, "2024 on", "llama_adapter_lora_init_impl:      CUDA0 LoRA buffer size =    40.00 MiB", {"lora_buffer_mib": 40.0}),
    Statement(_L, "2026", "llama_kv_cache_dsv4:      CUDA0 DSV4 csa state buffer size =    12.50 MiB", {"rs_buffer_mib": 12.5}),
    Statement(_L, "2026", "load_hparams: model size:         851.25 MiB", {"projector_mib": 851.25}),
    Statement(_L, "2024", "clip_model_load: model size:     595.49 MB", {"projector_mib": 595.49}),
    Statement(_L, "May 2025 to 2026", "alloc_compute_meta:      CUDA0 compute buffer size =   248.10 MiB", {"compute_buffer_mib": 248.1}),
    Statement(_L, "2026", "reserve_compute_meta:      CUDA0 compute buffer size =   248.10 MiB", {"compute_buffer_mib": 248.1}),
    Statement(_L, "all", "  Device 0: NVIDIA GeForce RTX 3090, compute capability 8.6, VMM: yes, VRAM: 24123 MiB", {"device_total_mib": 24123}),
    Statement(_L, "2025 on", "llama_model_load_from_file_impl: using device CUDA0 (NVIDIA GeForce RTX 3090) (0000:01:00.0) - 23871 MiB free", {"device_free_mib": 23871}),
    Statement(_L, "May 2026 on", "0.00.228.419 I   - CUDA0   : NVIDIA GeForce RTX 3090 (24123 MiB, 23755 MiB free)", {"device_total_mib": 24123, "device_free_mib": 23755}),
    Statement(_I, "ik_llama.cpp", "llama_model_loader: using device CUDA0 - 23871 MiB free", {"device_free_mib": 23871}),
    Statement(_I, "ik_llama.cpp", "llama_new_context_with_model: KV self size = 1152.00 MiB, K-only (f16): 1152.00 MiB; independent V-cache: not used", {"kv_cache_mib": 1152.0, "k_mib": 1152.0}),
    Statement(_I, "ik_llama.cpp", "llama_new_context_with_model: KV self indexer size =  122.00 MiB (f16)", {"kv_cache_mib": 122.0}),
    Statement(_I, "ik_llama.cpp", "llama_dsv4_init: DSV4 cache: CSA K=  10.00 MiB (f16), HCA K=   2.00 MiB (f16), LID K=   1.00 MiB (f16), states=   3.00 MiB, total=  16.00 MiB, streams=1", {"kv_cache_mib": 16.0}),
    Statement(_L, "all, CUDA", "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 9216.00 MiB on device 0: cudaMalloc failed: out of memory", {"asked_gib": 9.0}, "out_of_memory"),
    Statement(_L, "2024 on", "ggml_gallocr_reserve_n: failed to allocate CUDA0 buffer of size 9663676416", {"asked": 9663676416}, "out_of_memory"),
    Statement(_L, "2023 on, processors", "ggml_backend_cpu_buffer_type_alloc_buffer: failed to allocate buffer of size 9663676416", {"asked": 9663676416}, "out_of_memory"),
    Statement(_L, "2023 on, Metal", "ggml_metal_buffer_type_alloc_buffer: error: failed to allocate buffer, size =  9216.00 MiB", {"asked_gib": 9.0}, "out_of_memory"),
    Statement(_L, "2023, Metal", "ggml_metal_add_buffer: failed to allocate 'data            ' buffer, size =  9216.00 MB", {"asked_gib": 9.0}, "out_of_memory"),
    Statement(_L, "2024 on", "output_reserve: failed to allocate output buffer of size 512.00 MiB", {"asked_gib": 0.5}, "out_of_memory"),
    Statement(_L, "2023", "llama_new_context_with_model: failed to allocate memory for kv cache", {}, "out_of_memory"),
    Statement(_L, "all, Vulkan", "ggml_vulkan: Device memory allocation of size 1073741824 failed.", {"asked": 1073741824}, "out_of_memory"),
    Statement(_L, "all", "ggml_aligned_malloc: insufficient memory (attempted to allocate 9216.00 MB)", {"asked_gib": 9.0}, "out_of_host_memory"),
    # Ollama
    Statement(_O, "0.5.8 to 0.11", 'time=2025-05-01T10:00:00.000Z level=INFO source=ggml.go:351 msg="model weights" buffer=CUDA0 size="4.1 GiB"', {"model_buffer_mib": 4198.4}),
    Statement(_O, "0.5.8 to 0.9", 'time=2025-07-18T14:50:58.130Z level=INFO source=ggml.go:672 msg="compute graph" backend=CUDA0 buffer_type=CUDA0 size="1.1 GiB"', {"compute_buffer_mib": 1126.4}),
    Statement(_O, "0.11 to 0.24", 'time=2026-01-01T10:00:00.000Z level=INFO source=device.go:240 msg="model weights" device=CUDA0 size="4.1 GiB"', {"model_buffer_mib": 4198.4}),
    Statement(_O, "0.3.14", 'time=2024-10-20T10:00:00.000Z level=INFO source=types.go:123 msg="inference compute" id=GPU-1 library=cuda variant=v12 compute=8.6 driver=12.4 name="NVIDIA GeForce RTX 3090" total="23.7 GiB" available="23.4 GiB"', {"gpu_mem_gib": 23.7, "free_gib": 23.4}),
    Statement(_O, "0.13 to 0.32", 'time=2026-01-01T10:00:00.000Z level=INFO source=types.go:42 msg="inference compute" id=GPU-1 filter_id="" library=CUDA compute=8.6 name=CUDA0 description="NVIDIA GeForce RTX 3090" libdirs=ollama,cuda_v13 driver=13.0 pci_id=0000:01:00.0 type=discrete total="24.0 GiB" available="23.4 GiB"', {"gpu_mem_gib": 24.0, "free_gib": 23.4}),
    Statement(_O, "0.3 to 0.24", 'time=2025-05-01T10:00:00.000Z level=INFO source=server.go:410 msg="starting llama server" cmd="/usr/lib/ollama/runners/cuda_v12/ollama_llama_server runner --model /root/.ollama/models/blobs/sha256-abc --ctx-size 32768 --batch-size 512 --n-gpu-layers 33 --threads 8 --parallel 4 --port 41234"', {"kv_cells": 32768, "n_parallel": 4}),
    Statement(_O, "0.30 to 0.32", 'time=2026-08-01T10:00:00.000Z level=INFO source=llama_server.go:433 msg="starting llama-server" cmd="/usr/lib/ollama/llama-server --model /root/.ollama/models/blobs/sha256-abc --port 41234 -c 16384 -np 2 -b 1024 -ub 1024 --flash-attn auto"', {"kv_cells": 16384, "n_parallel": 2, "n_ubatch": 1024}),
    Statement(_O, "0.11 to 0.24", 'time=2026-01-01T10:00:00.000Z level=INFO source=runner.go:1278 msg=load request="{Operation:commit LoraPath:[] Parallel:2 BatchSize:512 FlashAttention:true KvSize:16384 KvCacheType: NumThreads:8 GPULayers:29[ID:GPU-1 Layers:29(0..28)] MultiUserCache:false}"', {"kv_cells": 16384, "n_parallel": 2, "n_ubatch": 512}),
    Statement(_O, "0.30 to 0.32", 'Error: llama-server reported out-of-memory during startup: cudaMalloc failed: out of memory', {}, "out_of_memory"),
    # TGI
    Statement(_T, "1.0 to 3.3", "RuntimeError: Not enough memory to handle 4096 prefill tokens. You need to decrease `--max-batch-prefill-tokens`", {"prefill_tokens_refused": 4096}, "warm_up_prefill"),
    Statement(_T, "1.0 to 2.0", "RuntimeError: Out of available cache blocks: asked 260, only 12 free blocks", {"blocks_asked": 260, "blocks_free": 12}, "pool_ran_out"),
    Statement(_T, "2.4 to 3.3", "2025-01-01T10:00:00.000000Z  INFO text_generation_launcher: KV-cache blocks: 30742, size: 1", {"gpu_blocks": 30742, "block_size": 1}),
)  # fmt: skip
