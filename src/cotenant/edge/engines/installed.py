"""What is installed here of an engine, before any of it is started: whether it is there, and of which version."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from cotenant.edge.engines.processes import inherited
from cotenant.edge.engines.programs import is_native, program
from cotenant.errors import InputError

_LONGEST_S = 10.0
_GET = {
    "llama.cpp": "pip install xllamacpp (a llama-server for processors), or put llama-server on PATH",
    "vllm": "pip install vllm",
    "sglang": "pip install sglang",
    "tgi": "its launcher comes in its container image: cotenant deploy --to compose",
    "ollama": "ollama.com/download",
}
_PACKAGES = {"vllm": "vllm", "sglang": "sglang"}  # by which an interpreter tells the version, in a moment
_NUMBERS = {"llama.cpp": r"version: (\d+)", "tgi": r"(\d+(?:\.\d+)+)", "ollama": r"(\d+(?:\.\d+)+)"}


def check_program(engine: str) -> None:
    """Raises InputError, with how to get it, where the engine's program is not here. A look at PATH, no more."""
    first = program(engine)[0]
    if shutil.which(first) is None:
        raise InputError(f"{engine} is not installed here: no {first}", hint=_hint(engine))


def check_engine(engine: str) -> None:
    """The same, and whether an interpreter that is to run it has the engine's package: asked in a process of its
    own (0.1 s)."""
    check_program(engine)
    if engine == "sglang" and _is_python(program(engine)[0]) and version(engine) is None:
        words = f"{engine} is not installed here: {program(engine)[0]} has no package {_PACKAGES[engine]}"
        raise InputError(words, hint=_hint(engine))


def version(engine: str) -> str | None:
    """What the program says that it is, as its releases are numbered; None where it does not say, or where it is a
    script of the user's own, which might start anything."""
    words = program(engine)
    if engine in _PACKAGES:
        interpreter = words[0] if _is_python(words[0]) else _interpreter(words[0])
        asks = f"import importlib.metadata as m; print(m.version({_PACKAGES[engine]!r}))"
        return None if interpreter is None else _said((interpreter, "-c", asks), r"^(\d\S*)\s*$")
    return _said((*words, "--version"), _NUMBERS[engine]) if is_native(engine) else None


def _hint(engine: str) -> str:
    return f"{_GET[engine]}; or say where it is: --engine-binary {engine}=PATH"


def _interpreter(script: str) -> str | None:
    """The Python that a script of a package names in its first line."""
    try:
        with Path(shutil.which(script) or script).open("rb") as file:
            line = file.readline(512).decode("utf-8", "replace").strip()
    except OSError:
        return None
    path = line.removeprefix("#!").strip()
    return path if line.startswith("#!/") and _is_python(path) else None


def _is_python(program: str) -> bool:
    return Path(program).name.startswith("python")


def _said(argv: Sequence[str], number: str) -> str | None:
    """The first number of that form in what a program prints, if it ends well and soon."""
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=inherited(),
            timeout=_LONGEST_S, check=False,
        )  # fmt: skip
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    found = re.search(number, done.stdout.decode("utf-8", "replace"), re.MULTILINE)
    known = found is not None and done.returncode == 0 and found[1].strip("0")  # a build of one's own says 0
    return found[1] if found is not None and known else None
