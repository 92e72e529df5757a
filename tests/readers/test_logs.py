# ruff: noqa: E501 - log lines are long
"""Engines' logs: what is read, told apart and refused, whatever stands around the lines."""

from __future__ import annotations

import json
import re
import resource
from collections.abc import Iterator
from math import isfinite
from pathlib import Path
from time import process_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotenant.domain.measurement import Measurement, Outcome
from cotenant.engines.logs import LOGS
from cotenant.engines.logs.line import without_optional
from cotenant.errors import CotenantError, FormatError, InputError
from cotenant.readers.logs import LogReading, read_log
from cotenant.readers.logs.blocks import BLOCK_BYTES
from cotenant.readers.logs.prefixes import entries
from cotenant.readers.logs.values import read_line

LOG_FOLDER = Path(__file__).parents[1] / "golden" / "logs"
LOG_FILES = sorted(LOG_FOLDER.glob("*.log"))

V0 = """\
INFO 01-23 02:05:25 llm_engine.py:234] Initializing an LLM engine (v0.6.6.post1) with config: model='meta-llama/X', max_seq_len=8192, tensor_parallel_size=1
INFO 01-23 02:05:31 model_runner.py:1099] Loading model weights took 14.9595 GB
INFO 01-23 02:05:34 worker.py:241] the current vLLM instance can use total_gpu_memory (39.50GiB) x gpu_memory_utilization (0.90) = 35.55GiB
INFO 01-23 02:05:34 worker.py:241] model weights take 14.96GiB; non_torch_memory takes 0.10GiB; PyTorch activation peak memory takes 9.37GiB; the rest of the memory reserved for KV Cache is 11.12GiB.
INFO 01-23 02:05:34 gpu_executor.py:76] # GPU blocks: 5691, # CPU blocks: 2048
INFO 01-23 02:05:34 gpu_executor.py:80] Maximum concurrency for 8192 tokens per request: 11.12x
"""


def read(text: str | bytes) -> LogReading:
    return read_log([text.encode() if isinstance(text, str) else text])


def one(text: str | bytes) -> Measurement:
    (found,) = read(text).measurements
    return found


def values(found: Measurement, *names: str) -> list[float | None]:
    return [found.value(name) for name in names]


def test_every_term_of_an_old_vllm() -> None:
    found = one(V0)
    names = (
        "weights_gib",
        "non_torch_gib",
        "activation_peak_gib",
        "available_kv_gib",
        "gpu_blocks",
        "gpu_mem_gib",
    )
    assert values(found, *names) == [14.9595, 0.10, 9.37, 11.12, 5691, 39.50]
    assert values(found, "max_concurrency", "max_concurrency_len", "budget_gib") == [11.12, 8192, 35.55]
    assert (found.engine, found.engine_version, found.model) == ("vllm", "0.6.6.post1", "meta-llama/X")
    assert found.settings["max_model_len"] == 8192
    assert found.outcome is Outcome.FITS
    assert found.size_bytes("gpu_mem_gib") == round(39.50 * 2**30)


def test_the_usage_line_of_a_new_vllm() -> None:
    found = one(
        "(Worker_TP0 pid=9) INFO Free memory on device cuda:0 (78.84/79.25 GiB) on startup. Desired GPU memory "
        "utilization is (0.9, 71.33 GiB). Actual usage is 57.26 GiB for consumed memory (weights + non-torch), 0.23 "
        "GiB for peak activation, and 0.11 GiB for CUDAGraph memory. Current kv cache memory in use is "
        "59212694937 bytes.\n"
    )
    names = ("free_gib", "gpu_mem_gib", "budget_gib", "consumed_weights_plus_nontorch_gib", "activation_peak_gib")
    assert values(found, *names) == [78.84, 79.25, 71.33, 57.26, 0.23]
    assert found.value("available_kv_gib") == pytest.approx(55.1461, abs=5e-5)
    assert found.settings["gpu_memory_utilization"] == 0.9
    assert found.ranks == ("TP0",)


@pytest.mark.parametrize(
    ("text", "kind", "figures"),
    [
        (
            "ValueError: To serve at least one request with the model's max seq len (180000), 3.05 GiB KV cache is "
            "needed, which is larger than the available KV cache memory (2.17 GiB). Based on the available memory, "
            "the estimated maximum model length is 111456.",
            "pool_below_one_sequence",
            {"needed_kv_gib": 3.05, "available_kv_gib": 2.17, "estimated_max_len": 111456},
        ),
        (
            "ValueError: The model's max seq len (32768) is larger than the maximum number of tokens that can be "
            "stored in KV cache (24320). Try increasing `gpu_memory_utilization`",
            "pool_below_one_sequence",
            {"needed_kv_seq_len": 32768, "kv_cache_tokens": 24320},
        ),
        ("ValueError: No available memory for the cache blocks. Try increasing", "no_room_for_pool", {}),
        (
            "ValueError: Free memory on device cuda:0 (2.6/121.63 GiB) on startup is less than desired GPU memory "
            "utilization (0.08, 9.73 GiB). Decrease GPU memory utilization",
            "not_free_at_start",
            {"free_gib": 2.6, "gpu_mem_gib": 121.63, "budget_gib": 9.73},
        ),
        (
            "AssertionError: Error in memory profiling. Initial free memory 58.23 GiB, current free memory 59.34 "
            "GiB. This happens when other processes sharing the same container release GPU memory",
            "others_changed_memory",
            {"initial_free_gib": 58.23, "current_free_gib": 59.34},
        ),
        (
            "vllm/worker.py torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.93 GiB. GPU 2 has a total "
            "capacity of 47.53 GiB of which 1.18 GiB is free. Process 790346 has 46.33 GiB memory in use. Of the "
            "allocated memory 44.10 GiB is allocated by PyTorch, and 512.00 MiB is reserved by PyTorch",
            "out_of_memory",
            {"asked_gib": 3.93, "oom_capacity_gib": 47.53, "oom_free_gib": 1.18, "oom_allocated_gib": 44.10,
             "oom_reserved_unallocated_gib": 0.5},
        ),
        (
            "/vllm/worker/ torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 79.15 "
            "GiB total capacity; 77.10 GiB already allocated; 512.00 MiB free; 78.00 GiB reserved in total",
            "out_of_memory",
            {"asked_gib": 2.0, "oom_capacity_gib": 79.15, "oom_allocated_gib": 77.10, "oom_free_gib": 0.5},
        ),
    ],
)  # fmt: skip
def test_every_way_in_which_vllm_gives_up(text: str, kind: str, figures: dict[str, float]) -> None:
    found = one(f"INFO Loading model weights took 5.0 GB\nERROR 11-02 {text}\n")
    assert [failure.kind for failure in found.failures] == [kind]
    assert {name: found.failures[0].figures[name] for name in figures} == pytest.approx(figures)
    assert found.outcome is Outcome.OOM
    assert found.engine == "vllm"


def test_a_pool_of_nothing_is_a_failure() -> None:
    found = one(
        "model weights take 5.20GiB; non_torch_memory takes 0.03GiB; PyTorch activation peak memory takes 1.42GiB; "
        "the rest of the memory reserved for KV Cache is -1.05GiB.\n# cuda blocks: 0, # CPU blocks: 9\n"
    )
    assert found.outcome is Outcome.OOM
    assert found.value("available_kv_gib") == -1.05


def test_the_smallest_rank_binds_and_the_first_names_the_rest() -> None:
    found = one(
        "(EngineCore_DP0 pid=5) INFO LLM engine (v0.11.0) with config: model='a/b'\n"
        "(Worker_TP0 pid=7) INFO Model loading took 10.5 GiB and 3 seconds\n"
        "(Worker_TP1 pid=8) INFO Model loading took 10.4 GiB and 3 seconds\n"
        "(Worker_TP0 pid=7) INFO Available KV cache memory: 5.4 GiB\n"
        "(Worker_TP1 pid=8) INFO Available KV cache memory: 5.2 GiB\n"
    )
    pool = found.smallest("available_kv_gib")
    assert pool is not None
    assert (found.value("weights_gib"), pool.value, pool.rank) == (10.5, 5.2, "TP1")


PREFIXES = (
    "", "vllm-1  | ", "2026-04-19 12:09:31.717 | ", "2026-07-02T14:20:11.402013Z stdout F ",
    "Sep 18 21:40:02 gpu01 vllm-chat[5120]: ", "[pod/chat-6f7/vllm] ", "\x1b[1;36m(EngineCore_DP0 pid=271)\x1b[0;0m ",
    "vllm-1  | 2026-07-02T14:20:11Z \x1b[32m(EngineCore pid=271)\x1b[0m INFO 11-02 04:20:48 [gpu_worker.py:298] ",
)  # fmt: skip


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_prefixes_change_nothing(prefix: str, ending: str) -> None:
    lines = ("Model loading took 14.9889 GiB and 132.1 seconds", "Available KV cache memory: 4.75 GiB",
             "GPU KV cache size: 38,944 tokens")  # fmt: skip
    found = one("".join(prefix + line + ending for line in lines))
    assert values(found, "weights_gib", "available_kv_gib", "kv_cache_tokens") == [14.9889, 4.75, 38944]


@pytest.mark.parametrize("key", ["log", "message", "msg", "MESSAGE"])
def test_json_entries(key: str) -> None:
    lines = [json.dumps({key: f"\x1b[32mINFO\x1b[0m {line}\n", "stream": "stderr"}) for line in V0.splitlines()]
    found = one("\n".join(lines))
    assert values(found, "weights_gib", "available_kv_gib", "gpu_blocks") == [14.9595, 11.12, 5691]


def test_utf16_of_a_powershell_redirect() -> None:
    assert one(V0.encode("utf-16")).value("available_kv_gib") == 11.12


def test_containers_are_told_apart() -> None:
    mixed = []
    for a, b in zip(
        V0.splitlines(), V0.replace("14.9", "7.5").replace("11.12", "20.02").splitlines(), strict=True
    ):
        mixed += [f"chat-1   | {a}", f"embed-1  | {b}"]
    found = read("\n".join(mixed)).measurements
    assert [(m.source, m.value("available_kv_gib")) for m in found] == [("chat-1", 11.12), ("embed-1", 20.02)]


def test_processes_are_told_apart() -> None:
    """Two servers in one terminal: each worker belongs to the core that started last before it."""
    found = read(
        "(APIServer pid=100) INFO vLLM API server version 0.11.0\n"
        "(APIServer pid=200) INFO vLLM API server version 0.11.0\n"
        "(EngineCore_DP0 pid=110) INFO Initializing a V1 LLM engine (v0.11.0) with config: model='a/small'\n"
        "(EngineCore_DP0 pid=210) INFO Initializing a V1 LLM engine (v0.11.0) with config: model='a/large'\n"
        "(Worker_TP0 pid=220) INFO Model loading took 40.0 GiB and 3 seconds\n"
        "(Worker_TP0 pid=120) INFO Model loading took 1.0 GiB and 3 seconds\n"
        "(Worker_TP0 pid=120) INFO Available KV cache memory: 5.1 GiB\n"
        "(Worker_TP0 pid=220) INFO Available KV cache memory: 5.2 GiB\n"
    ).measurements
    assert [(m.model, m.value("weights_gib"), m.value("available_kv_gib")) for m in found] == [
        ("a/small", 1.0, 5.1), ("a/large", 40.0, 5.2),
    ]  # fmt: skip


def test_two_engines_that_nothing_tells_apart_are_refused() -> None:
    other = V0.replace("14.9595", "1.5").replace("14.96", "1.50").replace("11.12", "3.33")
    mixed = "\n".join(line for pair in zip(V0.splitlines(), other.splitlines(), strict=True) for line in pair)
    with pytest.raises(InputError, match="two vllm engines write into it") as refusal:
        read(mixed)
    assert "docker compose logs" in refusal.value.hint


def test_engines_of_two_kinds_are_both_reported() -> None:
    llama = (LOG_FOLDER / "llama-cpp.log").read_text("utf-8").splitlines()
    vllm = V0.splitlines()
    mixed = [line for pair in zip(llama, vllm, strict=False) for line in pair] + llama[len(vllm) :]
    found = {m.engine: m for m in read("\n".join(mixed)).measurements}
    assert found["vllm"].value("available_kv_gib") == 11.12
    assert sum(figure.value for figure in found["llama.cpp"].every("kv_buffer_mib", None)) == 256.0


def test_each_start_is_a_run_and_the_last_is_the_foremost() -> None:
    crash = V0.replace("11.12GiB", "0.40GiB") + "ERROR ValueError: No available memory for the cache blocks.\n"
    reading = read(crash + V0)
    assert [m.outcome for m in reading.measurements] == [Outcome.OOM, Outcome.FITS]
    assert reading.foremost.value("available_kv_gib") == 11.12
    assert reading.measurements[1].first_line == 8


def test_a_restarted_container_counts_its_processes_anew() -> None:
    start = (
        "(APIServer pid=1) INFO vLLM API server version 0.12.0\n"
        "(EngineCore_DP0 pid=215) INFO Initializing a V1 LLM engine (v0.12.0) with config: model='a/b'\n"
        "(Worker_TP0 pid=300) INFO Model loading took 7.6 GiB memory and 2 seconds\n"
    )
    end = "(Worker_TP0 pid=300) INFO Available KV cache memory: 60.1 GiB\n"
    killed, up = read(start + start.replace("7.6", "7.7") + end).measurements
    assert values(killed, "weights_gib", "available_kv_gib") == [7.6, None]
    assert values(up, "weights_gib", "available_kv_gib") == [7.7, 60.1]


def test_parts_of_lines_as_people_quote_them() -> None:
    """Without times and levels, the version after the figures: one run."""
    found = one("Model loading took 15.39 GiB memory and 1074.35 seconds\nAvailable KV cache memory: 5.24 GiB\n"
                "'gpu_memory_utilization': 0.88\nmax_seq_len=32768\ntensor_parallel_size=4\nLLM engine (v0.18.1)\n")  # fmt: skip
    assert found.engine_version == "0.18.1"
    assert dict(found.settings) == {
        "gpu_memory_utilization": 0.88, "max_model_len": 32768, "tensor_parallel_size": 4,
    }  # fmt: skip


def test_of_several_services_the_one_that_failed_is_the_foremost() -> None:
    bad = "ERROR ValueError: No available memory for the cache blocks.\n"
    text = "".join(f"bad-1  | {line}\n" for line in (V0 + bad).splitlines())
    text += "".join(f"good-1  | {line}\n" for line in V0.splitlines())
    assert read(text).foremost.source == "bad-1"


def test_what_users_wrote_is_no_log() -> None:
    said = "INFO Received request cmpl-1: prompt: 'Available KV cache memory: 1.00 GiB', params: SamplingParams(n=1)\n"
    assert one(said + V0).value("available_kv_gib") == 11.12


def test_a_draft_model_is_kept_apart() -> None:
    text = (LOG_FOLDER / "llama-cpp.log").read_text("utf-8")
    draft = "".join(
        line.replace("5133.63", "500.00").replace("256.00", "32.00") + "\n" for line in text.splitlines()[4:21]
    )
    found = one(text + draft)
    assert [f.value for f in found.every("model_buffer_mib")] == [545.62, 5133.63]
    assert [f.value for f in found.every("model_buffer_mib", "draft")] == [545.62, 500.00]
    assert [f.value for f in found.every("kv_buffer_mib", "draft")] == [32.00]


def test_windows_and_their_sections() -> None:
    found = one(
        "llama_kv_cache_iswa: creating non-SWA KV cache, size = 8192 cells\n"
        "llama_kv_cache:    Vulkan0 KV buffer size =   128.00 MiB\n"
        "llama_kv_cache_iswa: creating     SWA KV cache, size = 6144 cells\n"
        "llama_kv_cache:    Vulkan0 KV buffer size =  1920.00 MiB\n"
    )
    assert [f.value for f in found.every("kv_buffer_mib", "full")] == [128.0]
    assert [f.value for f in found.every("kv_buffer_mib", "swa")] == [1920.0]


def test_an_indexer_has_a_cache_of_its_own() -> None:
    found = one(
        "llama_kv_cache_dsa: creating main KV cache, size = 768000 cells\n"
        "llama_kv_cache:      CUDA0 KV buffer size = 46406.25 MiB\n"
        "llama_kv_cache_dsa: creating indexer KV cache, size = 768000 cells\n"
        "llama_kv_cache:      CUDA0 KV buffer size =  3000.00 MiB\n"
    )
    assert [f.value for f in found.every("kv_buffer_mib", "indexer")] == [3000.0]


def test_sglang_prints_its_pools_in_several_ways() -> None:
    found = one(
        "[2026-02-26 05:35:08 TP0] Using KV cache dtype: torch.float8_e4m3fn\n"
        "[2026-02-26 05:35:08 TP7] KV Cache is allocated. #tokens: 3262823, KV size: 186.77 GB\n"
        "[2026-02-26 05:35:09 TP0] Capture decode CUDA graph end. elapsed=0.78 s, mem usage=0.12 GB, avail mem=0.5 GB.\n"
    )
    assert values(found, "kv_cache_tokens", "available_kv_gib", "cudagraph_gib") == [3262823, 186.77, 0.12]
    assert found.settings["kv_cache_dtype"] == "float8_e4m3fn"
    jetson = one("[2026-05-14 10:55:40 TP0] KV Cache is allocated. K size: 4.41 GB, V size: 4.41 GB.\n")
    assert values(jetson, "sglang_k_gib", "sglang_v_gib", "available_kv_gib") == [4.41, 4.41, 8.82]


def test_tgi_refuses_a_total_that_its_pool_cannot_hold() -> None:
    found = one(
        "WARN text_generation_router: Inferred max batch total tokens: 19056\n"
        'Error: ArgumentValidation("`max_total_tokens` must be <= `max_batch_total_tokens`. Given: 32768 and 19056")\n'
    )
    assert found.failures[0].kind == "pool_below_one_sequence"
    assert found.failures[0].figures == {"needed_kv_seq_len": 32768, "kv_cache_tokens": 19056}


def test_an_old_tensorrt_llm() -> None:
    found = one(
        "[TensorRT-LLM][INFO] Allocate 69524783104 bytes for k/v cache. \n"
        "[TensorRT-LLM][INFO] Using 132608 tokens in paged KV cache.\n"
    )
    assert found.engine == "tensorrt-llm"
    assert found.value("available_kv_gib") == pytest.approx(64.75)
    assert found.value("kv_cache_tokens") == 132608


def test_the_trial_pool_of_tensorrt_llm_is_no_pool() -> None:
    found = one(
        "[TensorRT-LLM] TensorRT-LLM version: 1.1.0rc3\n"
        "Starting trtllm-serve for model openai/gpt-oss-120b on port 8355...\n"
        "[TensorRT-LLM][INFO] [MemUsageChange] Allocated 0.56 GiB for max tokens in paged KV cache (8224).\n"
        "[12/20/2025-04:21:51] [TRT-LLM] [I] Peak memory during memory usage profiling (torch + non-torch): 113.65 GiB, available KV cache memory when calculating max tokens: 5.95 GiB, fraction is set 0.8999999761581421, kv size is 73728. device total memory 119.70 GiB, , tmp kv_mem 0.56 GiB\n"
        "[TensorRT-LLM][INFO] [MemUsageChange] Allocated 5.95 GiB for max tokens in paged KV cache (86720).\n"
    )
    assert found.model == "openai/gpt-oss-120b"
    assert values(found, "available_kv_gib", "kv_cache_tokens", "trial_kv_gib") == [5.95, 86720, 0.56]


def test_every_buffer_of_a_built_engine() -> None:
    found = one(
        "[TensorRT-LLM][INFO] Engine version 0.12.0 found in the config file, assuming engine(s) built by new builder API.\n"
        "[TensorRT-LLM][INFO] TRTGptModel maxBatchSize: 256\n"
        "[TensorRT-LLM][INFO] TRTGptModel maxSequenceLen: 2048\n"
        "[TensorRT-LLM][INFO] Loaded engine size: 6695 MiB\n"
        "[TensorRT-LLM][INFO] [MemUsageChange] Allocated 1134.01 MiB for execution context memory.\n"
        "[TensorRT-LLM][INFO] [MemUsageChange] TensorRT-managed allocation in IExecutionContext creation: CPU +0, GPU +0, now: CPU 0, GPU 6678 (MiB)\n"
        "[TensorRT-LLM][INFO] [MemUsageChange] Allocated 43.29 MB GPU memory for runtime buffers.\n"
        "[TensorRT-LLM][INFO] [MemUsageChange] Allocated 180.30 MB GPU memory for decoder.\n"
        "[TensorRT-LLM][INFO] Memory usage when calculating max tokens in paged kv cache: total: 79.10 GiB, available: 70.48 GiB\n"
        "[TensorRT-LLM][INFO] Number of blocks in KV cache primary pool: 4060\n"
        "[TensorRT-LLM][INFO] [MemUsageChange] Allocated 63.44 GiB for max tokens in paged KV cache (259840).\n"
    )
    assert found.engine_version == "0.12.0"
    assert found.settings["max_num_seqs"] == 256
    assert found.settings["max_model_len"] == 2048
    names = ("engine_file_mib", "activation_peak_gib", "weights_gib", "runtime_buffers_gib", "decoder_buffers_gib")
    wanted = [6695, 1134.01 / 1024, 6678 / 1024, 43.29 / 1024, 180.30 / 1024]
    assert values(found, *names) == pytest.approx(wanted)
    assert values(found, "free_gib", "gpu_blocks", "available_kv_gib") == [70.48, 4060, 63.44]


@pytest.mark.parametrize(
    ("part", "kind"),
    [
        ("Model", "out_of_memory_loading"),
        ("KV cache", "out_of_memory_in_pool"),
        ("Initial KV cache (temporary for KV cache size estimation)", "out_of_memory_before_pool"),
        ("Additional executor resources (temporary for KV cache size estimation)", "out_of_memory_before_pool"),
        ("Additional executor resources", "out_of_memory_in_graphs"),
    ],
)
def test_tensorrt_llm_says_which_part_could_not_be_made(part: str, kind: str) -> None:
    found = one(
        "[TRT-LLM] [E] Failed to initialize executor on rank 1: Executor creation failed due to insufficient GPU memory.\n\n"
        f"The following component could not be created: {part}\n"
        "Total GPU memory (GiB): 140.06\nFree GPU memory before component creation attempt (GiB): 108.86\n\n"
        "Previously created components and free GPU memory before/after creation (GiB):\nModel: 139.55 / 110.70\n"
    )
    assert {failure.kind for failure in found.failures} == {"out_of_memory_at_start", kind}
    assert values(found, "gpu_mem_gib", "free_before_component_gib") == [140.06, 108.86]


def test_tgi_names_its_defaults_shards_and_card() -> None:
    found = one(
        'INFO text_generation_launcher: Args {\n    model_id: "/models/gemma-3-27b-it",\n'
        "INFO text_generation_launcher: Sharding model on 2 processes\n"
        "WARN text_generation_launcher: Unkown compute for card nvidia-rtx-a6000\n"
        "INFO text_generation_launcher: Default `max_batch_prefill_tokens` to 8000\n"
        "INFO text_generation_launcher: KV-cache blocks: 52719, size: 1\n"
        "INFO text_generation_router_v3: Setting max batch total tokens to 52125\n"
        "INFO text_generation_router: Maximum total tokens defaulted to 8000\n"
    )
    assert found.gpu == "nvidia-rtx-a6000"
    assert found.settings["tensor_parallel_size"] == 2
    assert found.settings["max_num_batched_tokens"] == 8000
    assert found.settings["max_total_tokens"] == 8000
    assert values(found, "gpu_blocks", "kv_cache_tokens") == [52719, 52125]


def test_the_first_tgi_counted_all_tokens_at_its_warm_up() -> None:
    found = one(
        "ERROR warmup{max_input_length=1024 max_prefill_tokens=4096}:warmup: text_generation_client: Server error: "
        "Not enough memory to handle 16000 total tokens with 4096 prefill tokens. You need to decrease it\n"
    )
    assert found.failures[0].kind == "warm_up_prefill"
    assert found.failures[0].figures == {"total_tokens_refused": 16000, "prefill_tokens_refused": 4096}


def test_an_allocation_on_a_card_without_a_number() -> None:
    found = one(
        "ERROR text_generation_launcher: Error when initializing model\n"
        '> File "/opt/conda/lib/python3.10/site-packages/text_generation_server/server.py", line 225, in serve_inner\n'
        "INFO text_generation_launcher: Default `max_total_tokens` to 4096\n"
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 224.00 MiB. GPU  has a total capacity of 44.34 GiB of which 160.81 MiB is free. Process 47694 has 44.17 GiB memory in use.\n"
    )
    assert found.failures[0].figures["oom_capacity_gib"] == 44.34


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("", FormatError, "0 bytes without a line of an engine"),
        ("hello\nworld\n" * 50, FormatError, "without a line of an engine"),
        ("INFO uvicorn GET / 200\nFile \"/site-packages/vllm/v1/engine/core.py\"\n", InputError, "lines of vllm"),
        ("INFO 01-01 vLLM API server version 0.11.0\n", InputError, "lines of vllm, but none about memory"),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n", FormatError, "in which engine"),
    ],
)  # fmt: skip
def test_refusals(text: str, error: type[CotenantError], message: str) -> None:
    with pytest.raises(error, match=message) as refusal:
        read(text)
    assert refusal.value.hint


def test_binary_noise_is_refused_as_such() -> None:
    with pytest.raises(FormatError, match="binary data"):
        read(bytes(range(256)) * 4096)


def test_noise_around_lines_is_tolerated() -> None:
    noisy = b"\xff\xfe\x00\x01GARBAGE\x00\n".join(line.encode() + b"\n" for line in V0.splitlines())
    assert one(b"\x00\x80\n" + noisy).value("available_kv_gib") == 11.12


def test_lines_without_end_are_cut() -> None:
    line = b"x" * (3 * BLOCK_BYTES) + b" Available KV cache memory: 4.75 GiB " + b"y" * (3 * BLOCK_BYTES)
    found = read_log([b"Model loading took 1.5 GiB and 3 s\n", line, b"\nGPU KV cache size: 38,944 tokens\n"])
    assert values(found.measurements[0], "weights_gib", "kv_cache_tokens") == [1.5, 38944]


def test_a_stream_of_any_size_needs_no_memory() -> None:
    """200 MB of a server's own lines, made on the way."""
    serving = (
        b"INFO 11-29 18:20:01 [loggers.py:123] Engine 000: Avg prompt throughput: 1234.5 tokens/s, Running: 12 reqs\n"
        b'INFO:     10.0.0.1:1234 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
    ) * 5000

    def stream() -> Iterator[bytes]:
        yield V0.encode()
        for _ in range(200_000_000 // len(serving)):
            yield serving
        yield b"ERROR ValueError: No available memory for the cache blocks.\n"

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    reading = read_log(stream())
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert grown < 64, f"{grown:.0f} MiB"
    assert reading.size_bytes > 199_000_000
    assert reading.measurements[0].failures[0].line == reading.lines


def test_a_hostile_log_fills_no_memory() -> None:
    """Thousands of figures of thousands of processes: the first are kept, and a note says so."""
    lines = b"".join(b"(Worker_TP%d pid=%d) Available KV cache memory: 1.5 GiB\n" % (n, n) for n in range(5_000))
    reading = read_log([lines])
    assert len(reading.measurements[0].figures) <= 2000
    assert reading.notes


def answered(data: bytes) -> LogReading | CotenantError:
    """What was read, or the refusal; anything else that is raised fails the test."""
    try:
        return read_log([data])
    except CotenantError as error:
        return error


def is_sound(answer: LogReading | CotenantError) -> bool:
    if isinstance(answer, CotenantError):
        return bool(answer.message)
    known = {log.engine for log in LOGS}
    return bool(answer.measurements) and all(
        found.engine in known and all(isfinite(figure.value) for figure in found.figures)
        for found in answer.measurements
    )


BY_NAME = pytest.mark.parametrize("path", LOG_FILES, ids=[path.stem for path in LOG_FILES])


@BY_NAME
def test_cut_anywhere_a_log_is_read_or_refused(path: Path) -> None:
    data = path.read_bytes()
    assert all(is_sound(answered(data[:end])) for end in range(0, len(data), max(1, len(data) // 40)))


@BY_NAME
@pytest.mark.parametrize("size", [1, 7, 100])
def test_pieces_of_any_size_read_alike(path: Path, size: int) -> None:
    data = path.read_bytes()
    if size == 1 and len(data) > 4000:
        data = data[: data.rfind(b"\n", 0, 4000) + 1]
    pieces = [data[start : start + size] for start in range(0, len(data), size)]
    try:
        told: object = read_log(pieces).measurements
    except CotenantError as error:
        told = error.message
    whole = answered(data)
    assert told == (whole.message if isinstance(whole, CotenantError) else whole.measurements)


ALL_LINES = [line for path in LOG_FILES for line in path.read_bytes().splitlines(keepends=True)]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_mangled_logs_never_break_it(data: st.DataObject) -> None:
    """Lines of every engine shuffled, cut, doubled and salted with noise: an answer or a refusal."""
    lines = data.draw(st.lists(st.sampled_from(ALL_LINES), max_size=40))
    for piece in data.draw(st.lists(st.binary(max_size=60), max_size=6)):
        lines.insert(data.draw(st.integers(0, len(lines))), piece)
    cut = data.draw(st.integers(0, 30))
    assert is_sound(answered(b"".join(lines)[cut:]))


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(ALL_LINES), st.integers(0, 400), st.binary(max_size=8))
def test_a_byte_changed_never_breaks_it(line: bytes, place: int, other: bytes) -> None:
    place = min(place, len(line))
    assert is_sound(answered(line[:place] + other + line[place + 1 :]))


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=300))
def test_any_line_is_taken_apart(line: str) -> None:
    assert [entry.number for entry in entries(3, line)] in ([], *([3] * n for n in range(1, 301)))


@settings(max_examples=100, deadline=None)
@given(weights=st.integers(-(10**6), 10**7), tokens=st.integers(0, 10**9))
def test_figures_come_back_to_the_last_digit(weights: int, tokens: int) -> None:
    printed = f"{weights / 10**4:.4f}"
    found = one(f"Model loading took {printed} GiB and 3.2 seconds\nGPU KV cache size: {tokens:,} tokens\n")
    assert values(found, "weights_gib", "kv_cache_tokens") == [float(printed), tokens]


def test_patterns_without_their_optional_parts() -> None:
    assert without_optional(r"a (?:b GiB)? c (d|e) f") == "a  c  f"
    assert without_optional(r"x (?P<y>[(\d]+ GiB) z") == r"x ?P<y>[(\d]+ GiB z"


@pytest.mark.parametrize("log", LOGS, ids=[log.engine or "torch" for log in LOGS])
def test_lines_are_sound(log: object) -> None:
    """Every pattern compiles, and what is searched for is never short enough to stand everywhere."""
    for line in log.lines:  # type: ignore[attr-defined]
        assert len(line.searched) >= 3, line
        assert isinstance(line.regex, re.Pattern)


def test_a_hostile_line_takes_no_time() -> None:
    """20 KB of nothing but what is searched for, for every kind of line: no expression runs away."""
    kinds = [line for log in LOGS for line in log.lines]
    started = process_time()
    for line in kinds:
        read_line(line, (f"{line.needle} 1.5 GiB " * 20_000)[:20_000])
    assert process_time() - started < 0.05 * len(kinds)
