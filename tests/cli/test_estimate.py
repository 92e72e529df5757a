"""`cotenant estimate`: figures, verdicts, exit statuses, and one line for every refusal."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.cli.conftest import Run

LLAMA_8B, LLAMA_70B = "meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Llama-3.1-70B-Instruct"
A100 = ("--gpu", "A100-80GB-SXM")
BYTE_NAMES = (
    "capacity_bytes", "budget_bytes", "weights_bytes", "kv_cache_bytes", "activations_bytes", "runtime_bytes",
    "headroom_bytes", "load_peak_bytes", "used_bytes",
)  # fmt: skip


def test_text_shows_a_bar_the_terms_the_cache_and_the_command(run: Run) -> None:
    answer = run("estimate", LLAMA_8B, *A100, "--max-model-len", "8192", "--max-num-seqs", "16")
    assert answer.status == 0
    assert answer.err == ""
    lines = answer.out.splitlines()
    assert lines[1].startswith("fits: ")
    bar = next(line for line in lines if line.startswith("█"))
    assert len(bar) == 98  # to scale over the whole width
    assert set(bar) <= set("█▓▒░·")
    for word in ("weights", "KV cache", "activations", "runtime", "headroom", "where it comes from"):
        assert word in answer.out
    assert "131,072 B a token" in answer.out
    assert "a sequence of 8,192 takes 1.00 GiB" in answer.out
    assert "worst case 16.00 GiB: 16 sequences of 8,192 tokens" in answer.out
    assert lines[-1].startswith(f"vllm serve {LLAMA_8B} --max-model-len 8192 --max-num-seqs 16 ")
    assert "assumed" not in answer.out


def test_bar_is_to_scale(run: Run) -> None:
    answer = run("estimate", LLAMA_8B, *A100, "--max-model-len", "8192", "--json")
    rank = answer.document["per_gpu"][0]
    text = run("estimate", LLAMA_8B, *A100, "--max-model-len", "8192").out
    bar = next(line for line in text.splitlines() if line.startswith("█"))
    cell = rank["capacity_bytes"] / len(bar)
    assert abs(bar.count("█") - rank["weights_bytes"] / cell) < 1
    assert abs(bar.count("▓") - rank["kv_cache_bytes"] / cell) < 1


def test_json_has_the_keys_of_the_contract(run: Run) -> None:
    document = run("estimate", LLAMA_8B, *A100, "--max-model-len", "8192", "--json").document
    assert document["schema"] == "cotenant/estimate/1"
    assert document["fits"] is True
    assert document["verdict"] == "fits"
    assert re.fullmatch(r"[0-9a-f]{64}", document["input_hash"])
    (rank,) = document["per_gpu"]
    for name in BYTE_NAMES:
        low, high = rank["intervals"][name]
        assert low <= rank[name] <= high
        assert isinstance(rank[name], int)
    cache = document["kv_cache"]
    assert cache["bytes_per_token"] == 131_072
    assert {"bytes_per_sequence", "tokens", "tokens_as_printed", "max_concurrency"} <= set(cache)
    assert document["arguments"][:3] == ["vllm", "serve", LLAMA_8B]
    assert document["engine"].startswith("vllm@0.")


def test_the_70b_in_16_bits_does_not_fit_one_card(run: Run) -> None:
    answer = run("estimate", LLAMA_70B, *A100, "--max-model-len", "8192")
    assert answer.status == 3
    assert answer.err == ""
    assert "does not fit: " in answer.out
    assert "GiB short" in answer.out
    assert "the card ends here" in answer.out
    document = run("estimate", LLAMA_70B, *A100, "--max-model-len", "8192", "--json").document
    assert document["fits"] is False
    assert document["per_gpu"][0]["headroom_bytes"] < 0


def test_four_cards_share_it_and_each_has_its_bar(run: Run) -> None:
    answer = run("estimate", LLAMA_70B, *A100, "--max-model-len", "8192", "--tensor-parallel-size", "4")
    assert answer.status == 0
    assert [line for line in answer.out.splitlines() if line.startswith("GPU ")] == [
        line for line in answer.out.splitlines() if re.match(r"GPU [0-3]  ", line)
    ]
    assert "each of GPU 0-3" in answer.out
    assert "--tensor-parallel-size 4" in answer.out
    assert "81,920 B a token, a GPU" in answer.out


def test_what_was_left_open_is_said(run: Run) -> None:
    out = run("estimate", LLAMA_8B, *A100).out
    assert "--max-model-len was not given: 131,072 assumed, all that the model takes." in out
    assert "--max-num-seqs was not given: " in out


def test_numbers_are_read_as_the_engine_reads_them(run: Run) -> None:
    def length(text: str) -> int:
        found = run("estimate", LLAMA_8B, *A100, "--max-model-len", text, "--json").document
        value = found["settings"]["max_model_len"]
        assert isinstance(value, int)
        return value

    assert [length("8192"), length("8k"), length("8K"), length("1.5k")] == [8192, 8000, 8192, 1500]


def test_traffic_sizes_what_was_left_open(run: Run) -> None:
    arguments = ("estimate", LLAMA_8B, *A100, "--concurrent", "8", "--context-p50", "700", "--context-p95", "2048")
    document = run(*arguments, "--json").document
    assert document["traffic"]["max_num_seqs"] == document["settings"]["max_num_seqs"] == 8
    assert 2048 < document["settings"]["max_model_len"] < 131_072
    cache = document["kv_cache"]
    assert 0 < cache["kv_needed_bytes"] <= cache["kv_worst_case_bytes"]
    text = run(*arguments).out
    assert "follow from the traffic." in text
    assert "needed " in text
    assert "takes more 1% of the time" in text


def test_a_rate_becomes_a_concurrency(run: Run) -> None:
    document = run(
        "estimate", LLAMA_8B, *A100, "--requests-per-second", "2", "--input-p50", "600", "--input-p95", "1600",
        "--output-p50", "150", "--output-p95", "400", "--json",
    ).document  # fmt: skip
    traffic = document["traffic"]
    assert 0 < traffic["mean_in_service"] < traffic["in_service_p999"]
    low, high = traffic["tpot_s"]["interval"]
    assert 0 < low < traffic["tpot_s"]["value"] < high < 1


def test_a_target_that_is_not_held_is_status_3(run: Run) -> None:
    arguments = ("estimate", LLAMA_8B, *A100, "--concurrent", "8", "--context-p95", "2048")
    assert run(*arguments, "--tpot", "500ms").status == 0
    answer = run(*arguments, "--tpot", "1ms")
    assert answer.status == 3
    assert "the target of 1 ms does not hold" in answer.out


def test_overload_is_an_answer_not_an_error(run: Run) -> None:
    answer = run(
        "estimate", LLAMA_8B, *A100, "--requests-per-second", "5000", "--input-p50", "600", "--input-p95", "1600",
        "--output-p50", "150", "--output-p95", "400",
    )  # fmt: skip
    assert answer.status == 3
    assert "overload" in answer.out


def test_memory_of_others_counts(run: Run) -> None:
    free = run("estimate", LLAMA_8B, *A100, "--max-model-len", "8192", "--json").document
    shared = run("estimate", LLAMA_8B, *A100, "--max-model-len", "8192", "--used", "11GiB", "--json").document
    lost = free["per_gpu"][0]["headroom_bytes"] - shared["per_gpu"][0]["headroom_bytes"]
    assert lost == 11 * 2**30
    text = run("estimate", LLAMA_8B, *A100, "--max-model-len", "8192", "--used", "11GiB").out
    assert "held by others" in text
    assert "╳" in text


def test_a_format_is_named_and_its_checkpoint_served(run: Run) -> None:
    document = run(
        "estimate", LLAMA_8B, *A100, "--quantization", "AWQ", "--max-model-len", "8192", "--json"
    ).document
    plain = run("estimate", LLAMA_8B, *A100, "--max-model-len", "8192", "--json").document
    assert document["quantization"] == "awq-int4"
    assert document["arguments"][2] != LLAMA_8B  # the checkpoint that holds it
    assert document["per_gpu"][0]["weights_bytes"] < 0.45 * plain["per_gpu"][0]["weights_bytes"]


def test_lora_options_make_room_for_adapters(run: Run) -> None:
    plain = run("estimate", LLAMA_8B, *A100, "--max-model-len", "8192", "--json").document
    lora = run(
        "estimate", LLAMA_8B, *A100, "--max-model-len", "8192", "--enable-lora", "--max-loras", "4",
        "--max-lora-rank", "32", "--json",
    ).document  # fmt: skip
    assert lora["settings"]["max_loras"] == 4
    assert lora["per_gpu"][0]["weights_bytes"] > plain["per_gpu"][0]["weights_bytes"]
    assert "--enable-lora" in lora["arguments"]


@pytest.mark.parametrize(
    ("arguments", "says", "hint"),
    [
        (("lama-3.1-8b-instruct", *A100), "no model 'lama-3.1-8b-instruct'", "Llama-3.1-8B-Instruct"),
        ((LLAMA_8B, "--gpu", "A100-80GB-SMX"), "A100-80GB-SMX", "A100-80GB-SXM"),
        ((LLAMA_8B, *A100, "--engine", "vlm"), "unknown engine 'vlm'", "vllm"),
        ((LLAMA_8B, *A100, "--engine", "vllm@0.1"), "older than any rule", "0.3.0"),
        ((LLAMA_8B, *A100, "--quantization", "awq-int5"), "unknown format 'awq-int5'", "awq-int4"),
        ((LLAMA_8B, *A100, "--max-model-len=-5"), "max_model_len must be a whole number", ""),
        ((LLAMA_8B, *A100, "--max-model-len", "999999999999"), "max_model_len must be", ""),
        ((LLAMA_8B, *A100, "--max-model-len", "200000"), "131072", ""),
        ((LLAMA_8B, *A100, "--max-num-seqs", "0"), "max_num_seqs must be", ""),
        ((LLAMA_8B, *A100, "--gpu-memory-utilization", "90"), "a fraction above 0 and up to 1", ""),
        ((LLAMA_8B, *A100, "--gpu-memory-utilization", "nan"), "a fraction above 0 and up to 1", ""),
        ((LLAMA_8B, *A100, "--tensor-parallel-size", "3"), "over 3 GPUs", "divide"),
        ((LLAMA_8B, *A100, "--kv-cache-dtype", "int3"), "kv_cache_dtype must be one of", ""),
        ((LLAMA_8B, *A100, "--used", "11"), "has no unit", "GiB"),
        ((LLAMA_8B, *A100, "--used", "900GiB"), "more than the 80.00 GiB", ""),
        ((LLAMA_8B, *A100, "--concurrent", "8"), "how long are the requests?", "p50"),
        ((LLAMA_8B, *A100, "--concurrent=-1", "--context-p95", "100"), "concurrent must be", ""),
        ((LLAMA_8B, *A100, "--requests-per-second", "inf", "--input-p95", "9"), "requests_per_second must be", ""),
        ((LLAMA_8B, *A100, "--context-p95", "2048"), "without traffic", "concurrent"),
        ((LLAMA_8B, *A100, "--concurrent", "8", "--context-p50", "90", "--context-p95", "9"), "is below p50", ""),
        ((LLAMA_8B, *A100, "--ttft", "3s"), "SLO without traffic", "concurrent"),
        ((LLAMA_8B, *A100, "--concurrent", "8", "--context-p95", "9", "--tpot", "80"), "has no unit", "80ms"),
        ((LLAMA_8B, *A100, "--kv-overflow", "0.01"), "not a percentage", "1%"),
        (("./no/such/model", *A100), "no file or folder", "config.json"),
    ],
)
def test_bad_input_is_one_line_with_a_hint(run: Run, arguments: tuple[str, ...], says: str, hint: str) -> None:
    answer = run("estimate", *arguments)
    assert answer.status == 1
    assert answer.out == ""
    lines = answer.err.splitlines()
    assert lines[0].startswith("error: ")
    assert says in lines[0]
    assert len(lines) <= 2
    if hint:
        assert lines[1].startswith("hint: ")
        assert hint in lines[1]


def test_all_faults_are_told_at_once(run: Run) -> None:
    answer = run("estimate", LLAMA_8B, *A100, "--max-model-len=-5", "--max-num-seqs", "0", "--block-size", "0")
    assert answer.status == 1
    assert [line.split()[1] for line in answer.err.splitlines()] == ["max_model_len", "max_num_seqs", "block_size"]


def test_errors_as_json_stand_on_stdout(run: Run) -> None:
    answer = run("estimate", LLAMA_8B, "--gpu", "nothing like it", "--json")
    assert answer.status == 1
    assert answer.err == ""
    (error,) = answer.document["errors"]
    assert set(error) == {"error", "hint", "path"}


@pytest.mark.parametrize(
    "arguments",
    [
        (LLAMA_8B,),
        (*A100,),
        (LLAMA_8B, *A100, "--max-model-len", "long"),
        (LLAMA_8B, *A100, "--max-model-len", "1.5K"),
        (LLAMA_8B, *A100, "--gpu-memory-utilization", "most"),
        (LLAMA_8B, *A100, "--no-such-option"),
        (LLAMA_8B, *A100, "--concurrent", "many"),
    ],
)
def test_malformed_calls_are_usage_errors(run: Run, arguments: tuple[str, ...]) -> None:
    answer = run("estimate", *arguments)
    assert answer.status == 2
    assert answer.out == ""
    assert "Usage: cotenant estimate" in answer.err


def test_a_folder_a_config_and_a_page_of_html(run: Run, tmp_path: Path) -> None:
    from cotenant.catalogue.models import find_entry

    entry = find_entry(LLAMA_8B)
    assert entry is not None
    config = tmp_path / "mine" / "config.json"
    config.parent.mkdir()
    config.write_text(json.dumps(dict(entry.config)))
    for source in (str(config), str(config.parent)):
        document = run("estimate", source, *A100, "--max-model-len", "8192", "--json").document
        assert document["kv_cache"]["bytes_per_token"] == 131_072
    config.write_text("<!DOCTYPE html><html>log in</html>")
    answer = run("estimate", str(config), *A100)
    assert answer.status == 1
    assert "Traceback" not in answer.err


def test_the_same_question_has_the_same_hash_and_answer(run: Run) -> None:
    arguments = ("estimate", LLAMA_8B, *A100, "--max-model-len", "8192", "--json")
    assert run(*arguments).out == run(*arguments).out
    other = run("estimate", LLAMA_8B, *A100, "--max-model-len", "8208", "--json").document
    assert other["input_hash"] != run(*arguments).document["input_hash"]
