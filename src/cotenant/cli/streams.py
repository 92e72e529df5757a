"""What stdout and stderr do with characters that their encoding lacks: plain ones stand in, nothing is lost."""

from __future__ import annotations

import codecs
import os
import sys

# Our bars and signs in ASCII; every fill of a bar keeps a character of its own.
_PLAIN = str.maketrans({
    "█": "#", "▓": "=", "▒": "+", "░": "-", "╳": "X", "·": ".", "×": "x", "µ": "u", "μ": "u", "…": ".", "≥": ">",
    "≤": "<", "–": "-", "—": "-", "─": "-", "━": "-", "’": "'", "•": "*", "→": ">", "±": "~",
})  # fmt: skip
_NAME = "cotenant-plain"


def plain(error: UnicodeError) -> tuple[str, int]:
    """The codec error handler: our own signs by their ASCII stand-ins, all else spelled out as ``\\xe9``."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lost = error.object[error.start : error.end].translate(_PLAIN)
    return "".join(c if c.isascii() else c.encode("unicode_escape").decode("ascii") for c in lost), error.end


def never_fail_to_encode() -> None:
    """Let stdout and stderr write any text in whatever encoding they have (ASCII, Windows-1252, UTF-8)."""
    codecs.register_error(_NAME, plain)
    _open_closed()
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors=_NAME)


def _open_closed() -> None:
    """Give a process that was started without stdout or stderr (`>&-`) somewhere to write."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - open as long as we live
