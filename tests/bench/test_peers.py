import json
import struct
import sys
from pathlib import Path
from resource import RUSAGE_SELF, getrusage

import pytest

from bench import peer_files, peer_process, peers, peers_page
from bench.peer_programs import OURS, PROGRAMS, PYTHON, Program, ask_cotenant
from bench.peer_tasks import TASKS, Kind, Task
from bench.table import CannotRunError, Row
from cotenant.catalogue.models import find_entry
from cotenant.units import GIB

BY_ID = {task.id: task for task in TASKS}


@pytest.mark.parametrize(
    ("task", "gib"),
    [
        ("llama_3_1_8b_kv", 16.00), ("gemma_3_27b_kv", 16.50), ("deepseek_v3_kv", 8.58),
        ("qwen2_5_7b_awq_weights", 5.19), ("qwen3_5_27b_kv", 10.29),
    ],
)  # fmt: skip
def test_truths_are_the_known_figures(task: str, gib: float) -> None:
    assert round(BY_ID[task].truth_gib, 2) == gib


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.id)
def test_ours_is_right(task: Task, tmp_path: Path) -> None:
    size, done = ask_cotenant(PYTHON, task, tmp_path)
    assert size == pytest.approx(task.truth_bytes, rel=0.01 if task.kind is Kind.WEIGHTS else 1e-9)
    ours = getrusage(RUSAGE_SELF).ru_maxrss / 1024  # a child's peak counts what this process held when it forked
    assert 0 < done.mib < max(200.0, ours + 1)


def test_the_header_adds_up_to_the_checkpoint(tmp_path: Path) -> None:
    task = BY_ID["qwen2_5_7b_awq_weights"]
    data = (peer_files.write_model(task, tmp_path) / "model.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    assert len(data) == 8 + length
    assert max(one["data_offsets"][1] for one in json.loads(data[8:]).values()) == task.truth_bytes
    assert json.loads((tmp_path / "config.json").read_text())["quantization_config"]["bits"] == 4


def test_windows_are_written_out() -> None:
    entry = find_entry("google/gemma-3-27b-it")
    assert entry is not None
    text = peer_files.config_of(entry)["text_config"]
    assert text["layer_types"].count("full_attention") == 10
    assert text["layer_types"].count("sliding_attention") == 52
    assert text["layer_types"][5] == "full_attention"


def test_absent_programs_keep_their_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(peers, "TASKS", TASKS[:1])
    monkeypatch.setattr(peers, "_RUNS", 1)
    found = peers.rows(tmp_path)
    theirs = [row for row in found if row.id.startswith(TASKS[0].id) and not row.id.endswith(f".{OURS}")]
    assert len(theirs) == len(PROGRAMS)
    assert all(row.value is None and "is not installed" in row.reason for row in theirs)
    assert found[0].value == 16.0
    assert found[-1].id == "ours_worst_error"
    assert found[-1].holds is True


def test_a_program_of_its_own_environment_is_found_and_asked(tmp_path: Path) -> None:
    command = tmp_path / "echoed" / "bin" / "echoed"
    command.parent.mkdir(parents=True)
    command.write_text(f"#!{sys.executable}\nprint(17179869184)\n")
    command.chmod(0o755)
    (tmp_path / "echoed" / "lib" / "python3.11" / "site-packages" / "echoed-1.2.3.dist-info").mkdir(parents=True)

    def ask(found: Path, task: Task, folder: Path) -> tuple[float, peer_process.Run]:
        done = peer_process.run([found])
        return float(done.printed), done

    program = Program("echoed", ask, "", "")
    value, details = peers._theirs(program, tmp_path, TASKS[0])
    assert (value, details["error"], details["version"]) == (16.0, 0.0, "1.2.3")
    assert peer_process.interpreter(command) == Path(sys.executable)


def test_a_failure_says_why() -> None:
    with pytest.raises(CannotRunError, match="error: no such model"):
        peer_process.run([sys.executable, "-c", "import sys; sys.exit('error: no such model')"])


def test_a_binary_names_no_interpreter(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"\x7fELF" + bytes(20))
    with pytest.raises(CannotRunError, match="interpreter"):
        peer_process.interpreter(tmp_path / "one")


def test_the_page_shows_answers_errors_and_reasons() -> None:
    told = {"truth_gib": 16.0, "error": 0.25, "seconds": 1.0, "mib": 30, "version": "9"}
    rows = [
        Row("llama_3_1_8b_kv.hf-mem", 20.0, "GiB", "", details=told),
        Row("gemma_3_27b_kv.hf-mem", None, "GiB", "", "no network", {"truth_gib": 16.5}),
    ]
    page = peers_page.page(rows, "2026-01-02")
    assert "20.00 (+25.0%)" in page
    assert "`gemma_3_27b_kv.hf-mem`: no network" in page
    assert "2026-01-02" in page
    assert f"{TASKS[0].truth_bytes / GIB:.2f}" in peers_page.text(rows)
