"""Where an engine's program is: told by the user, on PATH, or inside an installed wheel."""

from __future__ import annotations

import os
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
        return (sys.executable, "-P", str(Path(__file__).with_name("llama_wheel.py")))
    return (called,)
