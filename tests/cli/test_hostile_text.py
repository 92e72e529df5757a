"""Names that a terminal would obey, characters that stdout cannot write, and words that are no words."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from cotenant.cli.printable import one_line
from cotenant.cli.streams import plain
from tests.cli.conftest import Run

COMMAND = (sys.executable, "-m", "cotenant.cli")
ESTIMATE = ("estimate", "meta-llama/Llama-3.1-8B-Instruct", "--gpu", "A100-80GB-SXM", "--max-model-len", "8192")
HOSTILE = "\x1b]0;pwn\x07\u202eno\nyes\x9b31m\ud800"
CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 128, "vocab_size": 1000,
    "max_position_embeddings": 4096, "torch_dtype": "bfloat16",
}  # fmt: skip


def _process(*arguments: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "FORCE_COLOR")}
    return subprocess.run(
        [*COMMAND, *arguments],
        capture_output=True,
        env={**kept, "HF_HUB_OFFLINE": "1", **environment},
        check=False,
    )


def test_what_a_terminal_obeys_is_spelled_out() -> None:
    shown = one_line(HOSTILE)
    assert shown.isprintable()
    assert shown == r"\x1b]0;pwn\x07\u202eno\nyes\x9b31m\ud800"
    assert one_line("naïve 名前 🦙") == "naïve 名前 🦙"


@pytest.mark.parametrize("name", ["\x1b]0;pwn\x07", "a\nb", "\u202e", "\x7f"])
def test_a_missing_file_is_named_in_one_printable_line(run: Run, name: str) -> None:
    answer = run("plan", name)
    assert answer.status == 1
    assert all(line.isprintable() for line in answer.err.splitlines())
    assert len(answer.err.splitlines()) == 1


def test_an_empty_name_is_said_to_be_empty(run: Run) -> None:
    assert "name is empty" in run("plan", "").err


def test_a_folder_may_be_called_by_its_dots(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "inner").mkdir()
    monkeypatch.chdir(tmp_path)
    assert run("inspect", ".").status == 0
    monkeypatch.chdir(tmp_path / "inner")
    assert run("inspect", "..").status == 0
    assert "neither config.json" in run("inspect", ".").err


def test_a_folder_with_escapes_in_its_name_is_shown_without_obeying(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "\x1b]0;pwn\u202e"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG))
    answer = run("inspect", str(folder))
    assert answer.status == 0
    assert "pwn" in answer.out
    assert all(line.isprintable() for line in answer.out.splitlines())


def test_half_a_character_is_refused_in_text_and_in_json(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**CONFIG, "architectures": ["\ud800"], "model_type": "\ud800"}))
    for flags in ((), ("--json",)):
        answer = run("inspect", str(path), *flags)
        assert answer.status == 1
        assert "which no rule covers" in answer.out + answer.err
    path.write_text(json.dumps({**CONFIG, "architectures": ["\ud800"]}))
    assert run("inspect", str(path)).status in (0, 1)
    assert run("inspect", str(path), "--json").status in (0, 1)


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "latin-1", "utf-8"])
def test_bars_survive_any_encoding_of_stdout(encoding: str) -> None:
    done = _process(*ESTIMATE, PYTHONIOENCODING=encoding)
    assert (done.returncode, done.stderr) == (0, b"")
    assert (b"####" in done.stdout) == (encoding != "utf-8")


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_json_is_the_same_in_any_encoding_of_stdout(encoding: str) -> None:
    there, here = (_process(*ESTIMATE, "--json", PYTHONIOENCODING=one) for one in ("utf-8", encoding))
    assert json.loads(here.stdout.decode(encoding)) == json.loads(there.stdout.decode())


def test_fills_stay_apart_in_ascii() -> None:
    from cotenant.report.bars import FILLS

    shown = {plain(UnicodeEncodeError("ascii", fill, 0, 1, ""))[0] for fill in FILLS.values()}
    assert len(shown) == len(FILLS)
    assert all(word.isascii() and len(word) == 1 for word in shown)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no full device here")
@pytest.mark.parametrize("arguments", [ESTIMATE, (*ESTIMATE, "--json")], ids=["text", "json"])
def test_a_full_disk_is_said_in_one_line(arguments: tuple[str, ...]) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run([*COMMAND, *arguments], stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 1
    assert done.stderr.decode().startswith("error: the answer could not be written: ")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("closed", [">&-", "2>&-"])
@pytest.mark.parametrize("flag", ["", "--json"])
def test_a_closed_stream_is_no_crash(closed: str, flag: str) -> None:
    line = f"{shlex.join([*COMMAND, *ESTIMATE])} {flag} {closed}"
    done = subprocess.run(["sh", "-c", line], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
