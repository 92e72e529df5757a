"""Other programs as processes: where they are, what they print, the time and memory that they take."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from textwrap import shorten
from threading import Timer
from typing import IO

from bench.table import CannotRunError

_LIMIT_S = 600  # of the clock: a busy machine is no fault of theirs
_LINE = 120  # characters of a complaint that are kept
_PRINTED = 2**22  # bytes of output that are read


@dataclass(frozen=True, slots=True)
class Run:
    """One process: what it printed, seconds of the processor (user and system), its peak resident memory (MiB)."""

    printed: str
    seconds: float
    mib: float


def find(name: str, folder: Path | None) -> Path:
    """The command `name`: FOLDER/`name`/bin/`name` (a virtual environment each), else on PATH.

    CannotRunError where neither has it.
    """
    if folder is not None:
        inside = folder / name / "bin" / name
        if inside.is_file():
            return inside.absolute()
    found = shutil.which(name)
    if found is None:
        raise CannotRunError(f"{name} is not installed: give its virtual environment with --peers DIR")
    return Path(found)


def interpreter(command: Path) -> Path:
    """The Python that an installed command runs in: the first line of its script names it."""
    with command.open("rb") as file:
        line = file.readline(4096)
    path = Path(os.fsdecode(line[2:].split(b" ")[0].strip())) if line.startswith(b"#!") else Path()
    if not path.is_absolute() or not path.name.startswith("python"):
        raise CannotRunError(f"{command.name} is not a Python script that names its interpreter")
    return path


def version(command: Path, name: str) -> str:
    """The installed version, by the metadata beside the command's own interpreter; empty where none tells."""
    places = (command.parent.parent / "lib").glob(f"python3*/site-packages/{name.replace('-', '_')}-*.dist-info")
    return next((place.name.removesuffix(".dist-info").rsplit("-", 1)[1] for place in places), "")


def run(
    command: Sequence[str | Path], environment: Mapping[str, str] | None = None, *, accept: tuple[int, ...] = (0,)
) -> Run:
    """Run once; memory is of that child alone. CannotRunError with its last words where it ends otherwise."""
    with TemporaryFile() as out, TemporaryFile() as complaints:
        with subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL, stdout=out, stderr=complaints, env={**os.environ, **(environment or {})},
        ) as process:  # fmt: skip
            watchdog = Timer(_LIMIT_S, process.kill)
            watchdog.start()
            _, status, usage = os.wait4(process.pid, 0)
            watchdog.cancel()
            process.returncode = os.waitstatus_to_exitcode(status)
        printed, complaint = _text(out), _text(complaints)
    if process.returncode == -signal.SIGKILL:
        raise CannotRunError(f"no answer within {_LIMIT_S} s of the clock")
    if process.returncode not in accept:
        raise CannotRunError(_complaint(complaint, printed) or f"exit status {process.returncode}")
    unit = 2**20 if sys.platform == "darwin" else 2**10  # ru_maxrss is in bytes there, in KiB elsewhere
    return Run(printed, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / unit)


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read(_PRINTED).decode("utf-8", "replace")


def _complaint(*texts: str) -> str:
    """The line that says what went wrong: the last that names an error, else the last."""
    lines = [line.strip() for text in texts for line in text.splitlines() if line.strip()]
    named = [line for line in lines if "error" in line.lower() or "unsupported" in line.lower()]
    return shorten((named or lines or [""])[-1], _LINE, placeholder=" ...")
