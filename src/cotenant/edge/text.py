"""Text files that users name: read whole, with a limit, in UTF-8."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from cotenant.errors import FormatError, InputError

MAX_BYTES = 4 * 2**20


def read_text(path: str | os.PathLike[str]) -> str:
    """The text at `path`. Raises InputError when it cannot be opened, FormatError when it is no text."""
    if not isinstance(path, (str, os.PathLike)) or not isinstance(os.fspath(path), str):
        raise InputError(f"a file is named by text or a path, not {type(path).__name__}")
    if not os.fspath(path):
        raise InputError("the file's name is empty")
    try:
        found = Path(path).expanduser()
        status = found.stat()
        if not stat.S_ISREG(status.st_mode):
            raise FormatError(f"{path} is not a file")
        if status.st_size > MAX_BYTES:
            raise FormatError(f"{path} has {status.st_size:,} bytes; at most {MAX_BYTES:,} are read")
        return found.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise FormatError(f"{path} is not text in UTF-8") from None
    except (OSError, RuntimeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"cannot read {path}: {reason}") from None
