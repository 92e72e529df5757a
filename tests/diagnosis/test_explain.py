# ruff: noqa: E501 - log lines are long
"""Why it ran out, by how much, and whether what is said to work does work."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cotenant
from cotenant.domain.explanation import Change, Explanation
from cotenant.errors import FormatError, InputError
from cotenant.units import GIB, MIB

GPU = "A100-80GB-SXM"
LOGS = Path(__file__).parents[1] / "golden" / "logs"


def vllm(*lines: str, length: int = 131072, share: float = 0.9, more: str = "") -> str:
    start = (
        "(APIServer pid=1) INFO vLLM API server version 0.11.0\n"
        f"(APIServer pid=1) INFO non-default args: {{'model': 'meta-llama/Llama-3.1-8B-Instruct', "
        f"'gpu_memory_utilization': {share}{more}}}\n"
        "(EngineCore_DP0 pid=9) INFO Initializing a V1 LLM engine (v0.11.0) with config: "
        f"model='meta-llama/Llama-3.1-8B-Instruct', dtype=torch.bfloat16, max_seq_len={length}, "
        "tensor_parallel_size=1, pipeline_parallel_size=1, data_parallel_size=1, enforce_eager=False, "
        "kv_cache_dtype=auto\n"
        "(EngineCore_DP0 pid=9) INFO Model loading took 14.9889 GiB and 3.0 seconds\n"
    )
    return start + "".join(f"(EngineCore_DP0 pid=9) {line}\n" for line in lines)


def too_small(needed: float, there: float, length: int = 131072) -> str:
    return (
        f"ERROR ValueError: To serve at least one request with the models's max seq len ({length}), ({needed:.2f} GiB "
        f"KV cache is needed, which is larger than the available KV cache memory ({there:.2f} GiB)."
    )


def by_flag(found: Explanation) -> dict[str, Change]:
    return {change.flag: change for change in found.changes}


def test_printed_beside_predicted() -> None:
    found = cotenant.explain(
        vllm("INFO Available KV cache memory: 54.1 GiB", "INFO GPU KV cache size: 443,184 tokens"), gpu=GPU
    )
    (share,) = found.shares
    assert share.terms["weights"].printed_bytes == round(14.9889 * GIB)
    predicted = share.terms["weights"].predicted
    assert predicted is not None
    assert predicted.value == pytest.approx(14.9889 * GIB, rel=0.02)
    assert share.terms["kv_cache"].printed_bytes == round(54.1 * GIB)
    assert (found.verdict, found.shortfall_bytes, found.changes) == ("fits", 0, ())
    assert share.left_bytes is not None


def test_a_pool_below_one_sequence() -> None:
    """128 KiB a token: 131,072 tokens need 16 GiB; 5.12 GiB hold 41,943 tokens, whole blocks of 16: 41,936."""
    found = cotenant.explain(
        vllm("INFO Available KV cache memory: 5.12 GiB", too_small(16, 5.12), share=0.3), gpu=GPU
    )
    assert found.shortfall_bytes == round((16 - 5.12) * GIB)
    changes = by_flag(found)
    assert changes["max_model_len"].becomes == 41936
    assert changes["max_model_len"].max_concurrency == 1.0
    # 10.88 GiB of 79.2 are 13.7 hundredths; the pool grows by what the budget does.
    assert changes["gpu_memory_utilization"].becomes == pytest.approx(0.44, abs=0.011)
    assert "kv_cache_dtype" not in changes  # an A100 has no fp8
    assert changes["tensor_parallel_size"].becomes == 2


def test_half_of_the_cache_on_a_card_with_fp8() -> None:
    found = cotenant.explain(
        vllm("INFO Available KV cache memory: 9.00 GiB", too_small(16, 9.0), share=0.35), gpu="H100-80GB-SXM"
    )
    change = by_flag(found)["kv_cache_dtype"]
    assert (change.was, change.becomes) == ("auto", "fp8")
    assert change.spare_bytes == pytest.approx(1.0 * GIB, abs=0.3 * GIB)


@settings(max_examples=15, deadline=None)
@given(there=st.floats(0.5, 15.9), share=st.floats(0.25, 0.6))
def test_every_change_would_have_worked(there: float, share: float) -> None:
    """Each leaves a pool that holds one sequence, and the next smaller change of a number would not."""
    there, share = round(there, 2), round(share, 2)
    log = vllm(f"INFO Available KV cache memory: {there:.2f} GiB", too_small(16, there), share=share)
    found = cotenant.explain(log, gpu=GPU)
    assert found.changes
    for change in found.changes:
        assert change.spare_bytes >= 0
        assert change.max_concurrency >= 1
    length = by_flag(found)["max_model_len"].becomes
    assert isinstance(length, int)
    assert length * 131072 <= there * GIB < (length + 16) * 131072


def test_a_card_that_others_hold() -> None:
    found = cotenant.explain(
        vllm(
            "ERROR ValueError: Free memory on device (40.00/79.15 GiB) on startup is less than desired GPU memory "
            "utilization (0.9, 71.24 GiB). Decrease GPU memory utilization or reduce GPU memory used by others.",
            length=8192,
        ),
        gpu=GPU,
    )
    assert found.shortfall_bytes == round((71.24 - 40) * GIB)
    assert "39.15 GiB of the card are taken already" in found.cause
    assert by_flag(found)["gpu_memory_utilization"].becomes == 0.5  # 0.50 x 79.15 = 39.6 <= 40.0 < 0.51 x 79.15
    assert set(by_flag(found)) == {"gpu_memory_utilization"}
    assert found.shares[0].used_bytes


def test_others_that_start_at_the_same_time() -> None:
    found = cotenant.explain(
        vllm("ERROR AssertionError: Error in memory profiling. Initial free memory 58.23 GiB, current free memory "
             "59.34 GiB. This happens when other processes release GPU memory."), gpu=GPU
    )  # fmt: skip
    assert "two engines started at once" in found.cause
    assert found.shortfall_bytes is None
    assert any("before the others" in words for words in found.advice)


def test_an_allocation_that_failed() -> None:
    oom = (
        "ERROR torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of "
        "79.15 GiB of which 1.50 GiB is free. Process 1 has 77.6 GiB memory in use. Of the allocated memory 76.00 GiB "
        "is allocated by PyTorch, and 100.00 MiB is reserved by PyTorch but unallocated."
    )
    while_loading = cotenant.explain(vllm(oom, length=8192), gpu=GPU)
    assert while_loading.shortfall_bytes == GIB // 2
    assert "after the weights were loaded" in while_loading.cause
    assert "gpu_memory_utilization" not in by_flag(while_loading)  # the pool was not there yet
    serving = cotenant.explain(
        vllm("INFO Available KV cache memory: 54.10 GiB", "INFO GPU KV cache size: 443,000 tokens",
             "INFO Graph capturing finished in 5 secs, took 0.60 GiB", oom, length=8192), gpu=GPU
    )  # fmt: skip
    assert "while serving" in serving.cause
    lower = by_flag(serving)["gpu_memory_utilization"].becomes
    assert lower == pytest.approx(0.89, abs=0.011)  # 0.5 GiB is 0.63 hundredths of the card


def test_what_the_log_leaves_open_is_said() -> None:
    unknown = cotenant.explain("INFO Model loading took 5.00 GiB and 3 seconds\n")
    assert unknown.predicted is None
    assert unknown.verdict == "unknown"
    assert "does not name the model" in unknown.assumed[0]
    nameless = cotenant.explain("the current vLLM instance can use total_gpu_memory (79.15GiB) x "
                                "gpu_memory_utilization (0.90) = 71.24GiB\n", model="Qwen/Qwen3-8B")  # fmt: skip
    assert any("assumed, by its 79.15 GiB" in sentence for sentence in nameless.assumed)
    assert nameless.predicted is not None


def test_no_card_is_assumed_that_the_engine_does_not_run_on() -> None:
    nameless = cotenant.explain("the current vLLM instance can use total_gpu_memory (22.06GiB) x "
                                "gpu_memory_utilization (0.90) = 19.85GiB\n", model="Qwen/Qwen3-8B")  # fmt: skip
    assert not any("P40" in sentence for sentence in nameless.assumed)
    assert nameless.predicted is not None


def test_no_length_is_advised_beyond_what_the_engine_says_fits() -> None:
    error = (
        "ERROR ValueError: To serve at least one request with the models's max seq len (131072), (16.00 GiB KV cache "
        "is needed, which is larger than the available KV cache memory (3.12 GiB). Based on the available memory, the "
        "estimated maximum model length is 25536."
    )
    found = cotenant.explain(vllm("INFO Available KV cache memory: 3.12 GiB", error), gpu="L4")
    assert by_flag(found)["max_model_len"].becomes == 25_536  # 3.12 GiB itself would be 25,559 tokens


def test_the_model_and_card_given_stand_before_the_log() -> None:
    found = cotenant.explain(vllm("INFO Available KV cache memory: 5.0 GiB"), model="Qwen/Qwen3-8B", gpu="L40S")
    assert found.predicted is not None
    assert (found.predicted.model.name, found.predicted.gpu.name) == ("Qwen/Qwen3-8B", "L40S")


def test_refusals_of_what_cannot_be_opened() -> None:
    with pytest.raises(InputError, match="cannot read"):
        cotenant.explain("/no/such/file.log")
    with pytest.raises(FormatError, match="without a line of an engine"):
        cotenant.explain("nothing\nof an engine\n")
    with pytest.raises(InputError):
        cotenant.explain(vllm("x"), gpu="no-such-card")


LLAMA = """\
build: 9849 (799fcc04a) with GNU 14.2.0 for Linux x86_64
srv    load_model: loading model '/models/Qwen2.5-32B-Instruct-Q4_K_M.gguf'
llama_model_load_from_file_impl: using device CUDA0 (NVIDIA GeForce RTX 3090) (0000:01:00.0) - 23800 MiB free
load_tensors: offloaded 65/65 layers to GPU
load_tensors:        CUDA0 model buffer size = 18508.35 MiB
llama_context: n_ctx         = 131072
llama_context: n_ubatch      = 512
ggml_backend_cuda_buffer_type_alloc_buffer: allocating 32768.00 MiB on device 0: cudaMalloc failed: out of memory
"""


def test_llama_cpp_out_of_memory() -> None:
    """64 layers x 8 heads x 128 x 2 x 2 B = 256 KiB a token: 131,072 tokens are the 32 GiB that were refused."""
    found = cotenant.explain(LLAMA)
    (share,) = found.shares
    assert share.terms["weights"].printed_bytes == round(18508.35 * 2**20)
    predicted = share.terms["kv_cache"].predicted
    assert predicted is not None
    assert predicted.value == 32 * GIB
    changes = by_flag(found)
    length, layers = changes["n_ctx"].becomes, changes["n_gpu_layers"].becomes
    assert isinstance(length, int)
    assert isinstance(layers, int)
    assert 8192 <= length < 24576
    assert 0 < layers < 65
    assert all(change.estimate.fits for change in found.changes)


def test_changes_speak_the_words_of_their_engine() -> None:
    log = (
        "[2026-05-18 10:00:01] server_args=ServerArgs(model_path='Qwen/Qwen3-8B', mem_fraction_static=0.12, "
        "chunked_prefill_size=8192, tp_size=2, dtype='auto', kv_cache_dtype='auto')\n"
        "[2026-05-18 10:00:31 TP0] Load weight end. type=Qwen3ForCausalLM, avail mem=70.41 GB, mem usage=7.68 GB.\n"
        "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.\n"
    )
    changes = by_flag(cotenant.explain(log, gpu=GPU))
    assert changes["gpu_memory_utilization"].argument == "--mem-fraction-static"
    assert changes["tensor_parallel_size"].argument == "--tp-size"
    assert {change.argument for change in cotenant.explain(LLAMA).changes} == {"--ctx-size", "--n-gpu-layers"}
    vllm_changes = by_flag(cotenant.explain(vllm(too_small(16, 9.0), share=0.35), gpu=GPU))
    assert vllm_changes["max_model_len"].argument == "--max-model-len"


OLLAMA_SERVER = """\
time=2026-08-20T10:00:00.000Z level=INFO source=routes.go:1900 msg="server config" env="map[OLLAMA_CONTEXT_LENGTH:0 OLLAMA_KV_CACHE_TYPE: OLLAMA_NUM_PARALLEL:1]"
time=2026-08-20T10:00:00.000Z level=INFO source=routes.go:1900 msg="Listening on 127.0.0.1:11434 (version 0.32.15)"
time=2026-08-20T10:00:01.100Z level=INFO source=llama_server.go:430 msg="starting llama-server" cmd="/usr/lib/ollama/llama-server --model /root/.ollama/models/blobs/sha256-abc --port 34567 --host 127.0.0.1 -c 8192 -np 1 --no-log-prefix --flash-attn auto -b 1024 -ub 1024"
print_info: file type   = Q4_K - Medium
load_tensors: offloaded 37/37 layers to GPU
load_tensors:        CUDA0 model buffer size =  4455.34 MiB
llama_context: n_ctx         = 8192
llama_context: n_ubatch      = 1024
llama_kv_cache:      CUDA0 KV buffer size =  1152.00 MiB
llama_kv_cache: size = 1152.00 MiB (  8192 cells,  36 layers,  1/1 seqs), K (f16):  576.00 MiB, V (f16):  576.00 MiB
main: server is listening on http://127.0.0.1:34567
"""


def test_ollama_since_0_30_prints_what_llama_server_prints() -> None:
    """The file's type and the batch stand in llama-server's own lines; Qwen3-8B in Q4_K_M takes 4,455 MiB there."""
    found = cotenant.explain(OLLAMA_SERVER, gpu="RTX-4090", model="Qwen/Qwen3-8B")
    (share,) = found.shares
    weights, cache = share.terms["weights"], share.terms["kv_cache"]
    assert weights.predicted is not None
    assert weights.predicted.value == pytest.approx(weights.printed_bytes, rel=0.005)
    assert cache.predicted is not None
    assert cache.predicted.value == cache.printed_bytes == 1152 * 2**20
    assert found.predicted is not None
    assert found.predicted.settings.llama_cpp is not None
    assert found.predicted.settings.llama_cpp.n_ubatch == 1024


def test_a_card_that_no_line_names_is_taken_for_one_of_nvidia() -> None:
    """15.99 GiB are a Radeon's too, and the log speaks of CUDA."""
    from cotenant.catalogue.gpus import find_gpu

    told = next(one for one in cotenant.explain(LOGS / "vllm-co-located.log").assumed if "names no card" in one)
    name = told.split(": ", 1)[1].split(" assumed", 1)[0]
    assert find_gpu(name).vendor == "NVIDIA"


def test_llama_cpp_says_what_stood_before_an_allocation_failed() -> None:
    """What is printed first of the model, the cache and the compute buffers."""
    lines = [
        "load_tensors:      CUDA0 model buffer size =  3393.11 MiB",
        "llama_kv_cache:      CUDA0 KV buffer size =   160.00 MiB",
        "sched_reserve:      CUDA0 compute buffer size =  8127.01 MiB",
    ]
    said = (
        "after the weights were loaded",
        "after the KV cache was reserved",
        "after the buffers had been reserved",
    )
    for count, words in enumerate(said, start=1):
        log = "\n".join(["build: 9849 (799fcc04a)", *lines[:count], "CUDA error: out of memory"])
        found = cotenant.explain(log)
        assert found.verdict == "oom"
        assert words in found.cause


def llama(*lines: str) -> str:
    start = (
        "build: 5269 (1d36b367) with cc\n"
        "llama_model_loader: - kv   2:   general.name str              = Qwen3 30B A3B\n"
        "llama_context: n_ctx         = 8192\nllama_context: n_seq_max     = 1\n"
        "load_tensors: offloaded 49/49 layers to GPU\n"
    )
    return start + "".join(f"{line}\n" for line in lines)


def test_what_stays_in_host_memory() -> None:
    found = cotenant.explain(
        llama("load_tensors:   CPU_Mapped model buffer size =  1024.00 MiB",
              "load_tensors:        CUDA0 model buffer size =  2048.00 MiB",
              "llama_kv_cache_unified:        CPU KV buffer size =   448.00 MiB",
              "llama_context:      CUDA0 compute buffer size =   304.75 MiB"),
        gpu="RTX-3090",
    )  # fmt: skip
    assert found.host == {"weights": 1024 * MIB, "kv_cache": 448 * MIB}
    assert [share.name for share in found.shares] == ["CUDA0"]


def test_layers_are_dealt_as_the_cache_was() -> None:
    found = cotenant.explain(
        llama("print_info: file type   = Q6_K",
              "load_tensors:        CUDA0 model buffer size = 12000.00 MiB",
              "load_tensors:        CUDA1 model buffer size = 12000.00 MiB",
              "llama_kv_cache_unified:      CUDA0 KV buffer size =   192.00 MiB",
              "llama_kv_cache_unified:      CUDA1 KV buffer size =   576.00 MiB"),
        model="Qwen/Qwen3-30B-A3B", gpu="RTX-3090",
    )  # fmt: skip
    assert len(found.shares) == 2
    caches = [share.terms["kv_cache"].predicted for share in found.shares]
    assert [None if size is None else size.value // MIB for size in caches] == [192, 576]


def test_a_mix_that_nobody_knows_is_taken_by_its_bits_or_not_at_all() -> None:
    kept = ("load_tensors:        CUDA0 model buffer size = 12000.00 MiB",)
    near = cotenant.explain(
        llama("llm_load_print_meta: model ftype      = IQ3_K - 3.4325 bpw",
              "llm_load_print_meta: model size       = 13.9 GiB (3.903 BPW)", *kept),
        model="Qwen/Qwen3-30B-A3B", gpu="RTX-3090",
    )  # fmt: skip
    assert near.predicted is not None
    assert near.predicted.quantization == "gguf-q3_k_m"
    far = cotenant.explain(
        llama("llm_load_print_meta: model ftype      = IQ1_KT - 1.75 bpw",
              "llm_load_print_meta: model size       = 6.2 GiB (1.750 BPW)", *kept),
        model="Qwen/Qwen3-30B-A3B", gpu="RTX-3090",
    )  # fmt: skip
    assert far.predicted is None
    assert any("is not known" in sentence for sentence in far.assumed)


def test_graphs_behind_a_full_pool_ask_for_a_smaller_share() -> None:
    found = cotenant.explain(
        "[TensorRT-LLM] TensorRT-LLM version: 0.20.0\n"
        "[TensorRT-LLM][INFO] [MemUsageChange] Allocated 64.49 GiB for max tokens in paged KV cache (1056640).\n"
        "[TRT-LLM] [E] CUDA out of memory. Tried to allocate 1002.00 MiB. GPU 0 has a total capacity of 79.18 GiB of "
        "which 586.38 MiB is free.\n"
    )
    assert found.verdict == "oom"
    assert found.advice[0] == "a smaller free_gpu_memory_fraction"
