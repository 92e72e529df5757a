"""Files of our own: the XDG folders, writes that never leave half a file, and JSON that may have been damaged."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from cotenant.errors import FormatError, InputError
from cotenant.readers.json_text import parse_json

_APPLICATION = "cotenant"
MAX_JSON_BYTES = 64 * 2**20


def config_dir() -> Path:
    """What the user wrote for us: ``$XDG_CONFIG_HOME/cotenant``, else ``~/.config/cotenant``."""
    return _xdg("XDG_CONFIG_HOME", ".config")


def cache_dir() -> Path:
    """What can be fetched or computed again: ``$XDG_CACHE_HOME/cotenant``, else ``~/.cache/cotenant``."""
    return _xdg("XDG_CACHE_HOME", ".cache")


def data_dir() -> Path:
    """What we keep for the user: ``$XDG_DATA_HOME/cotenant``, else ``~/.local/share/cotenant``."""
    return _xdg("XDG_DATA_HOME", ".local/share")


def user_catalogue_dir() -> Path:
    """Where the user adds cards, prices and models. The folder need not exist."""
    return config_dir() / "catalogue"


def _xdg(variable: str, default: str) -> Path:
    """The XDG base directory specification: a relative path in the variable is to be ignored."""
    stated = os.environ.get(variable, "")
    if stated and Path(stated).is_absolute():
        return Path(stated) / _APPLICATION
    try:
        return Path.home() / default / _APPLICATION
    except RuntimeError:
        raise InputError("no home directory is known", hint=f"set HOME or {variable}") from None


def write_atomic(path: Path, data: bytes, *, private: bool = False) -> None:
    """Put `data` at `path`, whole or not at all, also when the machine stops or another process writes there.

    Its mode is that of the file it replaces, else as the umask says; the owner's alone where it is `private`.
    Missing folders are made. Of two writers at once the later one wins. Raises InputError when that fails.
    """
    temporary: str | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            if not private:
                with contextlib.suppress(OSError):  # file systems without modes
                    os.fchmod(file.fileno(), _mode(path))
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        temporary = None
        _sync_folder(path.parent)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}", path=str(path)) from None
    finally:
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)


def _mode(path: Path) -> int:
    """Of the file that is replaced, else what the umask leaves: a temporary file is the owner's alone."""
    try:
        return path.stat().st_mode & 0o777
    except OSError:
        return 0o666 & ~_umask()


def _umask() -> int:
    """As Linux tells it; it can otherwise only be read by setting it, which other threads would see."""
    try:
        status = Path("/proc/self/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith("Umask:")).split()[1], 8)
    except (OSError, StopIteration, ValueError):
        mask = os.umask(0o077)
        os.umask(mask)
        return mask


def _sync_folder(folder: Path) -> None:
    """Make the rename itself durable, where the system lets a folder be opened."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def write_json(path: Path, value: Any) -> None:
    """Put `value` at `path` as JSON, atomically."""
    text = json.dumps(value, ensure_ascii=False, indent=1, allow_nan=False)
    try:
        data = text.encode()
    except UnicodeEncodeError:  # half a character, as JSON can spell and UTF-8 cannot
        data = json.dumps(value, indent=1, allow_nan=False).encode()
    write_atomic(path, data + b"\n")


def read_json(path: Path) -> Any:
    """The value at `path`; None when there is no such file.

    A damaged file is renamed to ``NAME.corrupt`` (so that the next run starts afresh and nothing is lost) and
    named in the FormatError that is raised.
    """
    try:
        if path.stat().st_size > MAX_JSON_BYTES:
            raise FormatError(f"{path} is larger than {MAX_JSON_BYTES:,} bytes", path=str(path))
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}", path=str(path)) from None
    try:
        return parse_json(data, what=path.name, path=str(path))
    except FormatError as error:
        aside = _set_aside(path)
        raise FormatError(
            f"{path} is damaged: {error.message}",
            hint=f"it was set aside as {aside}; run again to start afresh" if aside else "",
            path=str(path),
        ) from None


def _set_aside(path: Path) -> Path | None:
    """Rename a damaged file out of the way; an earlier one of that name is kept."""
    for number in range(1, 100):
        aside = path.with_name(f"{path.name}.corrupt" + (f"-{number}" if number > 1 else ""))
        if not aside.exists():
            with contextlib.suppress(OSError):
                os.replace(path, aside)
                return aside
            return None
    return None


def update_json(path: Path, change: Callable[[Any], Any]) -> Any:
    """Replace the value at `path` by ``change(value)``, None standing for a missing file; returns the new value.

    Two processes that update at once take turns, so neither's change is lost.
    """
    with _locked(path):
        value = change(read_json(path))
        write_json(path, value)
    return value


def claim(folder: Path, who: str) -> IO[str]:
    """A folder of state as ours, until what is returned is closed or we end. Raises InputError where another
    process (`who` says of which kind) has it, or it cannot be had. Where the system has no flock, it is always
    ours."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = (folder / "lock").open("a+", encoding="ascii")
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"cannot keep state in {folder}: {reason}", hint="give another --state folder") from None
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except ImportError:
        pass
    except OSError:
        file.close()
        raise InputError(
            f"another {who} runs with the state in {folder}", hint="stop it, or give another --state folder"
        ) from None
    return file


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock file beside `path`. Where the system has no flock, the atomic rename alone protects."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = open(path.with_name(f".{path.name}.lock"), "w")  # noqa: SIM115 - closed below
    except OSError as error:
        raise InputError(f"cannot lock {path}: {error.strerror or error}", path=str(path)) from None
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
