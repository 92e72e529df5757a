# ruff: noqa: E501 - log lines are long
"""Lines of Text Generation Inference: its launcher, its router and its warm-up."""

from __future__ import annotations

import pytest

from cotenant.readers.logs import read_log
from tests.readers.logs import one, values


def test_tgi_refuses_a_total_that_its_pool_cannot_hold() -> None:
    found = one(
        "WARN text_generation_router: Inferred max batch total tokens: 19056\n"
        'Error: ArgumentValidation("`max_total_tokens` must be <= `max_batch_total_tokens`. Given: 32768 and 19056")\n'
    )
    assert found.failures[0].kind == "pool_below_one_sequence"
    assert found.failures[0].figures == {"needed_kv_seq_len": 32768, "kv_cache_tokens": 19056}


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
    assert found.settings["max_model_len"] == 8000
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


PRETTY = """\
tgi-1  | 2025-03-01T10:00:00.0Z  INFO text_generation_launcher: Args {
tgi-1  |     model_id: "meta-llama/Llama-3.1-8B-Instruct",
tgi-1  |     max_concurrent_requests: 64,
tgi-1  |     max_input_tokens: Some(
tgi-1  |         3072,
tgi-1  |     ),
tgi-1  |     max_total_tokens: Some(
tgi-1  |         4096,
tgi-1  |     ),
tgi-1  |     cuda_memory_fraction: 0.9,
tgi-1  | }
tgi-1  | 2025-03-01T10:01:30.0Z  INFO text_generation_launcher: KV-cache blocks: 30742, size: 1
"""


@pytest.mark.parametrize("size", [3, 70, 10_000])
def test_arguments_over_many_lines_are_one_value(size: int) -> None:
    data = PRETTY.encode()
    (found,) = read_log([data[start : start + size] for start in range(0, len(data), size)]).measurements
    told = {name: found.settings[name] for name in ("max_input_tokens", "max_model_len", "max_num_seqs")}
    assert told == {"max_input_tokens": 3072, "max_model_len": 4096, "max_num_seqs": 64}
    assert (found.model, found.value("gpu_blocks")) == ("meta-llama/Llama-3.1-8B-Instruct", 30742)


def test_arguments_that_were_cut_off_are_read_as_far_as_they_go() -> None:
    cut = PRETTY.splitlines(keepends=True)
    found = one("".join([*cut[:6], cut[-1]]))
    assert found.settings["max_input_tokens"] == 3072
    assert found.value("gpu_blocks") == 30742
