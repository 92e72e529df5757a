# ruff: noqa: E501 - log lines are long
"""What explain predicts of a launch that a log tells, and what it says would have worked."""

from __future__ import annotations

import pytest

import cotenant
from cotenant.domain.explanation import Explanation
from cotenant.domain.interval import Interval
from cotenant.units import MIB


def _explained(text: str, gpu: str | None = None) -> Explanation:
    return cotenant.explain(text, gpu=gpu)


def test_a_serving_peak_is_not_mended_by_a_shorter_length() -> None:
    """The pool fills what a shorter length leaves; what the log printed of the pool says how large the rest was."""
    text = (
        "INFO LLM engine (v0.10.2) with config: model='Qwen/Qwen2.5-7B-Instruct', max_seq_len=32768\n"
        "INFO non-default args: {'model': 'Qwen/Qwen2.5-7B-Instruct', 'gpu_memory_utilization': 0.95}\n"
        "INFO Model loading took 14.2487 GiB and 9.1 seconds\nINFO Available KV cache memory: 6.10 GiB\n"
        "INFO GPU KV cache size: 114,208 tokens\nINFO Application startup complete.\n"
        "ERROR torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.30 GiB. GPU 0 has a total capacity of "
        "23.64 GiB of which 640.00 MiB is free.\n"
    )
    told = {change.flag: change.becomes for change in _explained(text, gpu="RTX-3090").changes}
    assert "max_model_len" not in told
    assert 0.9 <= float(told["gpu_memory_utilization"]) < 0.95


def test_a_pool_that_need_not_hold_the_longest_sequence_may_be_smaller() -> None:
    """SGLang refuses an empty pool only: a larger share is the smallest change, if it holds one step's tokens."""
    text = (
        "[2025-09-01 10:00:00] server_args=ServerArgs(model_path='meta-llama/Llama-3.1-70B-Instruct', tp_size=2, "
        "mem_fraction_static=0.85, chunked_prefill_size=8192)\n"
        "[2025-09-01 10:00:10 TP0] Load weight begin. avail mem=78.59 GB\n"
        "[2025-09-01 10:01:10 TP0] Load weight end. type=X, avail mem=12.33 GB, mem usage=66.26 GB.\n"
        "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.\n"
    )
    share = next(c for c in _explained(text, gpu="A100-80GB-SXM").changes if c.flag == "gpu_memory_utilization")
    assert share.argument == "--mem-fraction-static"
    assert 0.85 < float(share.becomes) < 0.9


def test_no_share_of_the_card_is_advised_where_weights_are_larger_than_what_is_free() -> None:
    text = (
        "INFO vLLM API server version 0.11.0\nINFO non-default args: {'model': 'Qwen/Qwen2.5-7B-Instruct'}\n"
        "ValueError: Free memory on device (13.58/23.64 GiB) on startup is less than desired GPU memory utilization "
        "(0.6, 14.18 GiB). Decrease GPU memory utilization\n"
    )
    found = _explained(text, gpu="RTX-3090")
    assert "the weights alone take 14.25 GiB, 13.58 GiB are free" in found.advice[0]


def test_what_the_engine_says_would_fit_comes_first() -> None:
    text = (
        "INFO Model loading took 14.98 GiB and 12 seconds\nValueError: To serve at least one request with the "
        "models's max seq len (131072), (16.00 GiB KV cache is needed, which is larger than the available KV cache "
        "memory (4.75 GiB). Based on the available memory, the estimated maximum model length is 38912.\n"
    )
    found = _explained(text)
    assert found.advice[0].startswith("--max-model-len 38912")
    assert all("--" not in sentence for sentence in found.assumed)  # the page has controls, no options


def test_a_draft_and_a_projector_of_the_log_are_in_the_prediction() -> None:
    text = (
        "build: 9500 (abc) with cc\nusing device CUDA0 (NVIDIA GeForce RTX 3090) (0000:01:00.0) - 23871 MiB free\n"
        "srv    load_model: loading model 'Qwen3-8B-Q4_K_M.gguf'\nprint_info: file type   = Q4_K - Medium\n"
        "load_tensors: offloaded 37/37 layers to GPU\nload_tensors: CUDA0 model buffer size =  4455.34 MiB\n"
        "llama_context: n_seq_max     = 4\nllama_context: n_ctx         = 16384\n"
        "llama_kv_cache:      CUDA0 KV buffer size =  2304.00 MiB\n"
        "llama_context:      CUDA0 compute buffer size =   134.75 MiB\n"
        "srv load_model: loading draft model 'DRAFT'\nload_tensors: CUDA0 model buffer size =   372.65 MiB\n"
        "llama_kv_cache:      CUDA0 KV buffer size =  1792.00 MiB\nload_hparams: model size:         851.25 MiB\n"
        "main: server is listening on http://127.0.0.1:8080\n"
    )
    found = _explained(text.replace("DRAFT", "Qwen3-0.6B-Q4_K_M.gguf"))
    assert [figure.value for figure in found.measurement.every("kv_buffer_mib", "draft")] == [1792.0]
    (share,) = found.shares
    assert share.terms["weights"].printed_bytes == round(5679.24 * MIB)
    assert share.terms["weights"].predicted is not None
    assert share.terms["weights"].predicted.value == pytest.approx(5679.24 * MIB, rel=0.01)
    assert share.terms["kv_cache"].predicted == Interval.exact(4096 * MIB)
    unknown = _explained(text.replace("DRAFT", "/x/nobody-knows-this.gguf"))
    assert any("it is not in the prediction" in sentence for sentence in unknown.assumed)


def test_prediction_layers_of_the_log_are_in_the_prediction_with_their_own_cache_types() -> None:
    text = (
        "I   - CUDA0   : NVIDIA GeForce RTX 3090 (24123 MiB, 23755 MiB free)\n"
        "I srv    load_model: loading model '/data/Qwen3.6-27B-Q4_K_M.gguf'\nI llama_context: n_seq_max     = 1\n"
        "I llama_context: n_ctx         = 131072\nI llama_context: n_rs_seq      = 3\n"
        "I load_tensors:        CUDA0 model buffer size = 15386.94 MiB\n"
        "I llama_kv_cache: size = 8192.00 MiB (131072 cells,  16 layers,  1/1 seqs), K (f16): 4096.00 MiB, "
        "V (f16): 4096.00 MiB\nI sched_reserve:      CUDA0 compute buffer size =   512.00 MiB\n"
        "I srv    load_model: creating MTP draft context against the target model 'x'\n"
        "I llama_context: constructing llama_context\nI llama_context: n_rs_seq      = 0\n"
        "I llama_kv_cache: size =  272.00 MiB (131072 cells,   1 layers,  1/1 seqs), K (q8_0):  136.00 MiB, "
        "V (q8_0):  136.00 MiB\nI allocating 1001.02 MiB on device 0: cudaMalloc failed: out of memory\n"
    )
    found = _explained(text)
    assert found.measurement.gpu == "NVIDIA GeForce RTX 3090"
    cache = found.shares[0].terms["kv_cache"].predicted
    assert cache is not None
    states = 4 * 149.625 * MIB  # one and three to roll back
    assert cache.value == pytest.approx((8192 + 272) * MIB + states, rel=1e-3)


def test_what_is_so_already_is_not_advised() -> None:
    text = (
        "llama_context: n_ctx         = 4096\nllama_kv_cache: size = 68.00 MiB (4096 cells, 16 layers, 1/1 seqs), "
        "K (q8_0): 34.00 MiB, V (q8_0): 34.00 MiB\nallocating 1001.02 MiB on device 0: cudaMalloc failed: out of memory\n"
    )
    assert not any("cache-type" in one for one in _explained(text).advice)
    assert any("cache-type" in one for one in _explained(text.replace("q8_0", "f16")).advice)


def test_ollamas_context_is_of_one_slot_where_its_runner_was_told_that_of_all() -> None:
    text = (
        'time=2025-05-01T10:00:00Z level=INFO msg="Listening on 127.0.0.1:11434 (version 0.6.8)"\n'
        'time=2025-05-01T10:00:01Z level=INFO msg="inference compute" library=cuda name="NVIDIA GeForce RTX 3090" '
        'total="23.7 GiB" available="23.4 GiB"\n'
        'time=2025-05-01T10:00:02Z level=INFO msg="starting llama server" cmd="/usr/bin/ollama runner --model '
        '/root/x/sha256-abc --ctx-size 32768 --batch-size 512 --n-gpu-layers 33 --parallel 4 --port 1"\n'
        "llama_model_loader: - kv 2: general.name str = Qwen3 8B\nprint_info: file type   = Q4_K - Medium\n"
        "load_tensors:        CUDA0 model buffer size =  4455.34 MiB\n"
        "llama_kv_cache_unified:      CUDA0 KV buffer size =  4608.00 MiB\n"
        'time=2025-05-01T10:00:09Z level=INFO msg="llama runner started in 7.00 seconds"\n'
    )
    found = _explained(text)
    assert found.predicted is not None
    assert found.predicted.settings.llama_cpp is not None
    told = found.predicted.settings.llama_cpp
    assert (told.n_ctx_slot, told.n_parallel) == (8192, 4)
    assert found.shares[0].terms["kv_cache"].predicted == Interval.exact(4608 * MIB)


def test_experts_go_to_the_host_before_whole_layers_do() -> None:
    text = (
        "build: 8500 (abc) with cc\nusing device CUDA0 (NVIDIA GeForce RTX 3060) (0000:01:00.0) - 11775 MiB free\n"
        "srv    load_model: loading model 'Qwen3-30B-A3B-Q4_K_M.gguf'\nprint_info: file type   = Q4_K - Medium\n"
        "load_tensors: offloaded 49/49 layers to GPU\n"
        "allocating 17447.91 MiB on device 0: cudaMalloc failed: out of memory\n"
    )
    told = [(change.argument, change.becomes) for change in _explained(text).changes]
    names = [argument for argument, _ in told]
    assert names.index("--n-cpu-moe") < names.index("--n-gpu-layers")
    away = dict(told)["--n-cpu-moe"]
    assert isinstance(away, int)
    assert 10 < away < 48
