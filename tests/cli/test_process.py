"""The command as a process of its own: what it imports, how much it takes, pipes, colours, completion."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = (sys.executable, "-m", "cotenant.cli")
ESTIMATE = ("estimate", "meta-llama/Llama-3.1-8B-Instruct", "--gpu", "A100-80GB-SXM", "--max-model-len", "8192")
HEAVY = ("numpy", "pydantic", "highspy", "huggingface_hub", "yaml", "httpx", "requests")
# VmHWM, not ru_maxrss: the latter counts what the parent held when it forked.
_WATCHED = """
import json, pathlib, sys
from cotenant.cli import main
status = 0
try:
    main()
except SystemExit as stop:
    status = stop.code or 0
found = pathlib.Path("/proc/self/status")
lines = found.read_text().splitlines() if found.exists() else []
peak = sum(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
print(json.dumps({"status": status, "modules": sorted(sys.modules), "peak_kib": peak}), file=sys.stderr)
"""


def _environment(**changes: str) -> dict[str, str]:
    kept = {
        name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS", "FORCE_COLOR")
    }
    return {**kept, "HF_HUB_OFFLINE": "1", **changes}


def _watched(*arguments: str) -> tuple[int, list[str], int]:
    """(status, loaded modules, peak KiB) of one call."""
    call = [sys.executable, "-c", _WATCHED, *arguments]
    done = subprocess.run(call, capture_output=True, text=True, env=_environment(), check=True)
    found = json.loads(done.stderr.splitlines()[-1])
    return found["status"], found["modules"], found["peak_kib"]


@pytest.mark.parametrize("extra", [(), ("--json",)], ids=["text", "json"])
def test_an_estimate_imports_nothing_heavy(extra: tuple[str, ...]) -> None:
    status, modules, peak_kib = _watched(*ESTIMATE, *extra)
    assert status == 0
    assert not [name for name in HEAVY if name in modules]
    if extra:
        assert "rich" not in modules
    assert peak_kib < 100 * 1024


def test_importing_the_package_imports_almost_nothing() -> None:
    code = "import sys, cotenant, json; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = json.loads(done.stdout)
    assert [name for name in modules if name.startswith("cotenant")] == ["cotenant", "cotenant._version"]
    assert not [name for name in (*HEAVY, "click", "rich") if name in modules]


@pytest.mark.parametrize("arguments", [ESTIMATE, ("gpus",), ("models", "--json")])
def test_a_reader_that_goes_away_is_no_error(arguments: tuple[str, ...]) -> None:
    process = subprocess.Popen(
        [*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=_environment()
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    error = process.stderr.read().decode()
    process.stderr.close()
    assert process.wait(30) == 0
    assert error == ""


def _on_a_terminal(arguments: tuple[str, ...], **changes: str) -> str:
    """What the command writes where stdout and stderr are a terminal of 100 columns."""
    leader, follower = pty.openpty()
    environment = _environment(TERM="xterm-256color", COLUMNS="100", **changes)
    process = subprocess.Popen([*COMMAND, *arguments], stdout=follower, stderr=follower, env=environment)
    os.close(follower)
    parts = []
    while True:
        try:
            part = os.read(leader, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        parts.append(part)
    os.close(leader)
    process.wait(30)
    return b"".join(parts).decode()


def test_a_terminal_gets_colours_and_no_color_takes_them_away() -> None:
    assert "\x1b[" in _on_a_terminal(ESTIMATE)
    plain = _on_a_terminal(ESTIMATE, NO_COLOR="1")
    colour = re.compile(r"\x1b\[[0-9;]*3[0-9]|\x1b\[[0-9;]*9[0-9]m")
    assert not colour.search(plain)  # bold and dim may stay
    wrong = ("estimate", "no-such-model", "--gpu", "A100-80GB-SXM")
    assert "\x1b[" in _on_a_terminal(wrong)
    assert not colour.search(_on_a_terminal(wrong, NO_COLOR="1"))  # a machine that is busy shows a spinner first


def test_a_pipe_gets_plain_text() -> None:
    done = subprocess.run([*COMMAND, *ESTIMATE], capture_output=True, text=True, env=_environment(), check=True)
    assert "\x1b" not in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell: str) -> None:
    done = subprocess.run(
        [*COMMAND, "completion", shell], capture_output=True, text=True, env=_environment(), check=True
    )
    assert "_COTENANT_COMPLETE" in done.stdout


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("cotenant es", "estimate"),
        ("cotenant estimate meta-llama/Llama-3.1-8", "meta-llama/Llama-3.1-8B-Instruct"),
        ("cotenant estimate m --gpu A100-80GB-S", "A100-80GB-SXM"),
        ("cotenant estimate m --quantization aw", "awq-int4"),
        ("cotenant estimate m --max-model", "--max-model-len"),
    ],
)
def test_completion_offers_names(words: str, expected: str) -> None:
    answer = {
        "_COTENANT_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
    }
    call = [sys.executable, "-c", "from cotenant.cli.root import cli; cli(prog_name='cotenant')"]
    done = subprocess.run(call, capture_output=True, text=True, env=_environment(**answer), check=False)
    assert expected in [line.partition(",")[2] for line in done.stdout.splitlines()]


def test_the_module_runs_like_the_command(tmp_path: Path) -> None:
    for call in (COMMAND, (sys.executable, "-m", "cotenant")):
        done = subprocess.run([*call, "--version"], capture_output=True, text=True, cwd=tmp_path, check=True)
        assert done.stdout.startswith("cotenant")
