"""Answers as the bytes that the command line prints: one way to write a document, whoever asks."""

from __future__ import annotations

import json


def written(document: object) -> bytes:
    """The bytes of `--json` where stdout takes UTF-8, the line end included."""
    return (json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()


def compact(document: object) -> bytes:
    """One line, for what no command prints."""
    return json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
