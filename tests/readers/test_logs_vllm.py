# ruff: noqa: E501 - log lines are long
"""Lines of vLLM: every term, and every way in which it gives up."""

from __future__ import annotations

import pytest

from cotenant.domain.measurement import Outcome
from tests.readers.logs import V0, one, values


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
