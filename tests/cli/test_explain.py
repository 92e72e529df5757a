"""`cotenant explain` as a user calls it."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Run

LOG = Path(__file__).parents[1] / "golden" / "logs" / "vllm-pool-too-small.log"


def test_text_says_why_and_what_would_have_worked(run: Run) -> None:
    answer = run("explain", str(LOG))
    assert answer.status == 0
    assert "needs 240.00 GiB and 88.38 GiB are left for it. 151.62 GiB short." in " ".join(answer.out.split())
    assert "--max-model-len" in answer.out
    assert "3,861,424 tokens would fit, says the engine" in answer.out


def test_json_holds_measured_predicted_and_changes(run: Run) -> None:
    document = run("explain", str(LOG), "--json").document
    assert document["measured"]["needed_kv_gib"] == 240.0
    assert document["measured"]["available_kv_gib"] == 88.38
    assert document["shortfall_bytes"] == round((240.0 - 88.38) * 2**30)
    assert document["predicted"]["schema"] == "cotenant/estimate/1"
    assert {change["flag"] for change in document["changes"]} >= {"max_model_len"}


def test_save_keeps_the_measurement(run: Run) -> None:
    answer = run("explain", str(LOG), "--save", "--json")
    assert answer.err.startswith("saved ")
    assert Path(answer.err.splitlines()[0].removeprefix("saved ")).is_file()
    assert answer.document["verdict"] == "oom"


def test_refusals_have_status_one(run: Run, tmp_path: Path) -> None:
    noise = tmp_path / "noise.log"
    noise.write_bytes(bytes(range(256)) * 1000)
    answer = run("explain", str(noise))
    assert (answer.status, answer.out) == (1, "")
    assert "binary data without a line of an engine" in answer.err
    assert run("explain", str(tmp_path / "missing.log"), "--json").document["errors"]
    assert run("explain", str(LOG), "--gpu", "no-such-card").status == 1
    assert run("explain").status == 2


def test_a_document_names_gpus_and_adapters(run: Run) -> None:
    folder = LOG.parent
    lora = run("explain", str(folder / "vllm-lora.log"), "--json").document["measured"]
    assert (lora["num_gpus"], lora["lora"], lora["adapters"]) == (1, True, {"max_lora_rank": 64})
    assert run("explain", str(LOG), "--json").document["measured"]["num_gpus"] == 8
    assert run("explain", str(folder / "sglang.log"), "--json").document["measured"]["adapters"] is None


def test_a_document_of_llama_cpp_is_by_device(run: Run) -> None:
    measured = run("explain", str(LOG.parent / "llama-cpp.log"), "--json").document["measured"]
    assert (measured["n_ctx"], measured["n_ubatch"], measured["kv_unified"]) == (8192, 2048, True)
    buffers = measured["measured"]
    assert buffers["model_buffer_mib"] == {"CPU_Mapped": 545.62, "Vulkan0": 5133.63}
    assert buffers["kv_buffer_mib"] == {"Vulkan0": 256.0}
    assert (buffers["rs_total_mib"], buffers["fit"]) == (201.0, {"projected_mib": 6007, "free_mib": 11111})
