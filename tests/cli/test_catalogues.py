"""`inspect`, `models`, `gpus`, `schema` and `quantize`: known figures, strict JSON, filters."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from tests.cli.conftest import Run

LLAMA_8B, LLAMA_70B = "meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Llama-3.1-70B-Instruct"


@pytest.mark.parametrize(
    ("model", "parameters", "weights_bytes", "per_token", "per_sequence"),
    [
        (LLAMA_8B, 8_030_261_248, 16_060_522_496, 131_072, 0),
        (LLAMA_70B, 70_553_706_496, 141_107_412_992, 327_680, 0),
        ("mistralai/Mistral-7B-Instruct-v0.3", 7_248_023_552, 14_496_047_104, 131_072, 0),
        # 10 layers of every token; 52 of the last 1,024: 2 x 16 heads x 128 x 2 B each
        ("google/gemma-3-27b-it", 27_432_406_640, 54_864_813_280, 81_920, 52 * 1024 * 8192),
    ],
)
def test_inspect_counts_to_the_byte(
    run: Run, model: str, parameters: int, weights_bytes: int, per_token: int, per_sequence: int
) -> None:
    document = run("inspect", model, "--json").document
    assert document["schema"] == "cotenant/inspect/1"
    assert document["parameters"] == parameters
    assert sum(document["parameters_by_role"].values()) == parameters
    assert document["weights_bytes"] == weights_bytes
    assert document["kv_bytes_per_token"] == per_token
    assert document["kv_bytes_per_sequence"] == per_sequence
    assert sum(group["kv_bytes_per_token"] for group in document["layer_groups"]) == per_token
    assert sum(group["num_layers"] for group in document["layer_groups"]) == document["num_layers"]
    assert "text" in document["modalities"]


def test_inspect_text_names_total_source_and_formats(run: Run) -> None:
    out = run("inspect", LLAMA_8B).out
    assert "8,030,261,248 parameters; 14.96 GiB in bf16" in out
    assert "Published: 8,030,261,248 (the same), " in out
    assert "KV cache in bf16: 131,072 B a token" in out
    assert "awq-int4" in out
    assert "gguf-q4_k_m" in out


def test_inspect_of_a_mixture_says_what_is_at_work(run: Run) -> None:
    document = run("inspect", "deepseek-ai/DeepSeek-V3", "--json").document
    assert document["active_parameters"] == pytest.approx(37e9, rel=0.03)  # published as 37B
    assert document["kv_bytes_per_token"] == 61 * (512 + 64) * 2
    assert "8 of 256 experts" in run("inspect", "deepseek-ai/DeepSeek-V3").out


def test_an_encoder_keeps_nothing(run: Run) -> None:
    document = run("inspect", "BAAI/bge-m3", "--json").document
    assert (document["kv_bytes_per_token"], document["kv_bytes_per_sequence"]) == (0, 0)
    assert "KV cache: none" in run("inspect", "BAAI/bge-m3").out


def test_the_models_of_the_catalogue_can_be_taken_apart() -> None:
    from cotenant.catalogue.models import all_entries
    from cotenant.domain.anatomy import Anatomy
    from cotenant.edge.models import open_model
    from cotenant.errors import InputError
    from cotenant.estimation.anatomy import anatomy

    def taken(name: str) -> Anatomy | None:
        """None where its architecture or its format has no rules yet."""
        try:
            return anatomy(open_model(name))
        except InputError:
            return None

    found = [each for each in map(taken, (entry.id for entry in all_entries())) if each is not None]
    assert len(found) >= 200
    for each in found:
        assert each.weights_bytes > 0
        assert all(size > 0 for size in each.bytes_by_format.values())
        assert each.kv_bytes_per_token + each.kv_bytes_per_sequence > 0 or not each.model.spec.has_cache


def test_models_lists_and_filters(run: Run) -> None:
    document = run("models", "--json").document
    assert len(document["models"]) >= 120
    assert all(model["parameters"] > 0 and model["parameters_source"] for model in document["models"])
    out = run("models", "qwen3 coder").out
    assert "Qwen/Qwen3-Coder-480B-A35B-Instruct" in out
    assert "Llama" not in out
    refused = run("models", "no-such-model-anywhere")
    assert (refused.status, refused.out) == (1, "")
    assert run("models", "no-such-model-anywhere", "--json").document["models"] == []


def test_gpus_lists_both_capacities_and_marks_estimates(run: Run) -> None:
    document = run("gpus", "--json").document
    cards = {card["name"]: card for card in document["gpus"]}
    assert len(cards) >= 35
    a100 = cards["A100-80GB-SXM"]
    assert a100["driver_bytes"] == 80 * 2**30
    low, high = a100["intervals"]["cuda_bytes"]
    assert 79.1 * 2**30 < low < high < 79.3 * 2**30
    assert a100["memory_bandwidth"] == pytest.approx(2039e9)
    assert a100["compute_capability"] == "8.0"
    assert all(card["price_source"] for card in cards.values() if card["price_per_hour"] is not None)
    lines = run("gpus", "a100-80gb").out.splitlines()
    assert any(line.startswith("A100-80GB-PCIe") and "~" in line for line in lines)
    assert any(line.startswith("A100-80GB-SXM") and "~" not in line for line in lines)


def test_a_users_own_card_and_price(run: Run, home: Path) -> None:
    folder = home / "xdg_config_home" / "cotenant" / "catalogue"
    folder.mkdir(parents=True)
    (folder / "gpus.yaml").write_text(
        "gpus:\n  - {name: A100-80GB-SXM, price: $0.99/h}\n"
        "  - {name: Lab-48, driver_mib: 49152, memory_bandwidth_gbs: 900, dense_tflops: {fp16: 150, bf16: 150},"
        " compute_capability: '8.6'}\n"
    )
    cards = {card["name"]: card for card in run("gpus", "--json").document["gpus"]}
    assert cards["A100-80GB-SXM"]["price_per_hour"] == 0.99
    assert cards["Lab-48"]["cuda_measured"] is False
    answer = run("estimate", LLAMA_8B, "--gpu", "lab 48", "--max-model-len", "8192")
    assert answer.status == 0
    (folder / "gpus.yaml").write_text("gpus:\n  - {name: Lab-48, driver_mib: -1}\n")
    answer = run("gpus")
    assert answer.status == 1
    assert "gpus.yaml" in answer.err


def test_schema_is_a_json_schema(run: Run) -> None:
    document = run("schema").document
    jsonschema.Draft202012Validator.check_schema(document)
    assert "models" in document["properties"]


def test_quantize_puts_fp8_first_where_the_card_has_it(run: Run) -> None:
    document = run("quantize", LLAMA_70B, "--gpu", "H100-80GB-SXM", "--json").document
    choices = document["choices"]
    assert [choice["rank"] for choice in choices] == list(range(1, len(choices) + 1))
    assert choices[0]["format"] == "fp8"
    assert choices[0]["advice"] == "use"
    assert all(choice["reason"] for choice in choices)
    by_name = {choice["format"]: choice for choice in choices}
    assert by_name["bf16"]["weights_bytes"] == 141_107_412_992
    assert by_name["gguf-q4_k_m"]["advice"] == "refused"
    figures = [choice["quality"] for choice in choices if choice["quality"]]
    assert all(figure["metric"] and figure["model"] and figure["source"] for figure in figures)


def test_quantize_protects_code(run: Run) -> None:
    document = run("quantize", LLAMA_8B, "--gpu", "A100-80GB-SXM", "--task", "code", "--json").document
    assert document["task"] == "code"
    advice = {choice["format"]: choice["advice"] for choice in document["choices"]}
    assert advice["bf16"] == "use"
    assert advice["w4a16"] != "use" or advice["awq-int4"] != "use"


def test_quantize_text_shows_figures_with_metric_and_source(run: Run) -> None:
    out = run("quantize", LLAMA_8B, "--gpu", "A100-80GB-SXM").out
    assert out.startswith(f"{LLAMA_8B} on A100-80GB-SXM, vllm ")
    assert "Marlin" in out
    assert "Refused:" in out
    assert "https://" in out


def test_quantize_answers_for_engines_that_run_gguf(run: Run) -> None:
    document = run("quantize", LLAMA_8B, "--gpu", "RTX-4090", "--engine", "llama-server", "--json").document
    assert document["engine"].partition("@")[0] == "llama.cpp"
    best = [choice["format"] for choice in document["choices"] if choice["advice"] != "refused"]
    assert any(name.startswith("gguf") for name in best)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("quantize", LLAMA_8B, "--gpu", "A100-80GB-SXM", "--task", "cod"), "unknown task 'cod'"),
        (("quantize", LLAMA_8B, "--gpu", "A100-80GB-SXM", "--max-loss", "1"), "not a percentage"),
        (("quantize", LLAMA_8B, "--gpu", "A100-80GB-SXM", "--engine", "nope"), "unknown engine"),
        (("inspect", "no-such-model"), "no model 'no-such-model'"),
        (("inspect", "./nowhere"), "no file or folder"),
    ],
)
def test_bad_input_is_status_1(run: Run, arguments: tuple[str, ...], says: str) -> None:
    answer = run(*arguments)
    assert answer.status == 1
    assert answer.out == ""
    assert says in answer.err
    as_json = run(*arguments, "--json")
    assert as_json.status == 1
    assert json.loads(as_json.out)["errors"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("plan", "examples/a100-trio.yaml"),
        ("estimate", LLAMA_8B, "--gpu", "A100-80GB-SXM"),
        ("simulate", "examples/raw-figures.yaml", "--duration", "5s"),
        ("deploy", "examples/a100-trio.yaml", "--to", "compose"),
        ("serve", "examples/a100-trio.yaml", "--dry-run"),
        ("verify", "examples/a100-trio.yaml", "--dry-run", "--quick"),
        ("ui", "--dry-run"),
        ("workload", "examples/traces/bursty.csv"),
        ("explain", "tests/cli/short.log", "--gpu", "A100-80GB-SXM"),
        ("inspect", LLAMA_8B),
        ("quantize", LLAMA_8B, "--gpu", "A100-80GB-SXM"),
        ("models",),
        ("gpus",),
        ("schema",),
        ("completion", "bash"),
    ],
    ids=lambda arguments: str(arguments[0]),
)
def test_every_command_prints_json_and_nothing_else(
    run: Run, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(__file__).resolve().parents[2])
    answer = run(*arguments, "--json")
    assert answer.status == 0
    assert answer.err == ""
    assert answer.document


def test_every_command_is_among_those_that_print_json() -> None:
    from cotenant.cli.root import COMMANDS

    (mark,) = test_every_command_prints_json_and_nothing_else.pytestmark  # type: ignore[attr-defined]
    assert {arguments[0] for arguments in mark.args[1]} == set(COMMANDS)
