"""Where an engine's program is: told by the user, on PATH, or inside an installed wheel."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from cotenant.errors import InputError

_CALLED = {
    "llama.cpp": "llama-server",
    "vllm": "vllm",
    "tgi": "text-generation-launcher",
    "sglang": "python3",
    "ollama": "ollama",
}
_WHEEL = "llama_wheel.py"
_BINARY = (b"\x7fELF", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe", b"MZ")  # Linux, macOS, Windows
_told: dict[str, str] = {}


def tell(binaries: Mapping[str, str]) -> None:
    """Remember where the user says that programs are, by engine id. Raises InputError for what is not there."""
    for engine, place in binaries.items():
        path = Path(place).expanduser()
        if not path.is_file() or not os.access(path, os.X_OK):
            raise InputError(f"{place[:200]!r} is no program that can be run", path=f"--engine-binary {engine}")
        _told[engine] = str(path.resolve())


def program(engine: str) -> tuple[str, ...]:
    """The first words of the engine's command: the bare name where nothing is found, for who starts it to say so.

    llama.cpp's server also stands in the xllamacpp wheel, as a library; a small program of ours runs it.
    """
    called = _CALLED.get(engine, engine)
    found = _told.get(engine) or shutil.which(called)
    if found is not None:
        return (found,)
    if engine == "llama.cpp" and find_spec("xllamacpp") is not None:
        return (sys.executable, "-P", str(Path(__file__).with_name(_WHEEL)))
    return (called,)


def kind(engine: str) -> str | None:
    """What kind of program `program(engine)` is: ``native`` or ``wheel`` (a library in an interpreter), None where
    it cannot be told. A script is followed to the program that it names."""
    return _kind_of(Path(program(engine)[-1]), 3) if engine == "llama.cpp" else None


def is_native(engine: str) -> bool:
    """Whether its program is a binary of its own, or a script that names one: what only asks it starts nothing."""
    return _kind_of(Path(shutil.which(program(engine)[-1]) or ""), 3) == "native"


def _kind_of(path: Path, depth: int) -> str | None:
    if path.name == _WHEEL:
        return "wheel"
    try:
        with path.open("rb") as file:
            head = file.read(4096)
    except OSError:
        return None
    if head.startswith(_BINARY):
        return "native" if "python" not in path.name else None
    if not head.startswith(b"#!") or not depth:
        return None
    # the script's own interpreter stands in its first line
    named = re.findall(
        r"(?:(?<=\s)|(?<=[\"'=]))/[^\s\"';&|]+", head.partition(b"\n")[2].decode("utf-8", "replace")
    )
    found = (_kind_of(Path(one), depth - 1) for one in named if Path(one).is_file())
    return next((one for one in found if one is not None), None)
