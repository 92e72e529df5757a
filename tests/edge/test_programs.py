"""What kind of program an engine's binary is."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from cotenant.edge.engines import llama_wheel, programs


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(programs, "_told", {})

    def tell(path: Path) -> str | None:
        path.chmod(0o755)
        programs.tell({"llama.cpp": str(path)})
        return programs.kind("llama.cpp")

    return tell


def test_a_binary_a_script_and_the_wheel_are_told_apart(told, tmp_path: Path) -> None:
    binary = tmp_path / "llama-server"
    binary.write_bytes(b"\x7fELF" + bytes(100))
    assert told(binary) == "native"
    script = tmp_path / "one-thread"
    script.write_text(f'#!/bin/sh\nexec {binary} -t 1 "$@"\n')
    assert told(script) == "native"
    quoted = tmp_path / "quoted"
    quoted.write_text(f'#!/bin/sh\nexec "{script}" "$@"\n')
    assert told(quoted) == "native"
    wheel = tmp_path / "wheel"
    wheel.write_text(f'#!/bin/sh\nexec {sys.executable} -P {llama_wheel.__file__} "$@"\n')
    assert told(wheel) == "wheel"


@pytest.mark.parametrize(
    "text", ["#!/bin/sh\nexec llama-server\n", "", "#!/bin/sh\nexec /none/at/all\n", "x" * 9000]
)
def test_what_cannot_be_told_is_nothing(told, tmp_path: Path, text: str) -> None:
    script = tmp_path / "script"
    script.write_text(text)
    assert told(script) is None


def test_a_script_that_names_itself_ends(told, tmp_path: Path) -> None:
    script = tmp_path / "loop"
    script.write_text(f"#!/bin/sh\nexec {script}\n")
    assert told(script) is None


def test_other_engines_have_no_kinds() -> None:
    assert programs.kind("vllm") is None
