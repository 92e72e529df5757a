"""A log wherever it is: a path, a compressed file, standard input, or text already in hand."""

from __future__ import annotations

import os
import re
import stat
import sys
import zlib
from collections.abc import Iterator
from importlib import import_module
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO

from cotenant.catalogue.gpus import all_gpus
from cotenant.catalogue.models import find_entry
from cotenant.domain.gpu import GpuSpec
from cotenant.domain.loaded import LoadedModel
from cotenant.errors import FormatError, InputError

CHUNK_BYTES = 2**20
# First bytes -> the module of the standard library that opens it.
_PACKED = ((b"\x1f\x8b", "gzip"), (b"BZh", "bz2"), (b"\xfd7zXZ\x00", "lzma"))
_UNOPENED = ((b"PK\x03\x04", ".zip", "unzip -p"), (b"\x28\xb5\x2f\xfd", ".zst", "zstd -dc"))


def log_chunks(source: str | os.PathLike[str]) -> tuple[str, int | None, Iterator[bytes]]:
    """(name, size in bytes where it is known, the bytes in pieces).

    "-" is standard input; a text with a line break is the log itself; a compressed log (.gz, .bz2, .xz) is
    opened on the way, and read as far as it goes where it was cut off. Raises InputError for what nobody can open.
    """
    if isinstance(source, str) and "\n" in source:
        return "the log", len(source), iter([source.encode("utf-8", "replace")])
    if source == "-":
        return "standard input", None, _pieces(sys.stdin.buffer, "standard input")
    if not isinstance(source, (str, os.PathLike)) or not isinstance(os.fspath(source), str):
        raise InputError(f"a log is named by text or a path, not {type(source).__name__}")
    path = Path(source).expanduser()
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise InputError(f"{path} is a folder", hint="name the log's file")
        size = status.st_size if stat.S_ISREG(status.st_mode) else None
        opened = path.open("rb")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"cannot read {source}: {reason}", path=str(source)) from None
    return str(path), size, _closing(opened, str(path))


def _closing(file: BinaryIO, name: str) -> Iterator[bytes]:
    with file:
        start = file.peek(8)[:8] if hasattr(file, "peek") else b""
        for mark, kind, program in _UNOPENED:
            if start.startswith(mark):
                raise FormatError(f"{name} is a {kind} file", hint=f"{program} {name} | cotenant explain -")
        packed = next((module for mark, module in _PACKED if start.startswith(mark)), None)
        if packed is None:
            yield from _pieces(file, name)
            return
        with import_module(packed).open(file) as inner:
            yield from _unpacked(inner, name)


def _unpacked(file: BufferedReader, name: str) -> Iterator[bytes]:
    """What is in a compressed file, to where it was cut off (it is being written, or a copy of it stopped)."""
    from lzma import LZMAError

    while True:
        try:
            chunk = file.read1(CHUNK_BYTES)
        except EOFError:
            return
        except (OSError, zlib.error, LZMAError):
            raise FormatError(
                f"{name} is a damaged compressed file", hint="gunzip -t, bunzip2 -t or xz -t says where"
            ) from None
        if not chunk:
            return
        yield chunk


def _pieces(file: BinaryIO, name: str) -> Iterator[bytes]:
    while True:
        try:
            chunk = file.read(CHUNK_BYTES)
        except OSError as error:
            raise InputError(f"cannot read {name}: {error.strerror or error}") from None
        if not chunk:
            return
        yield chunk


def known_cards() -> tuple[GpuSpec, ...]:
    """The user's own cards before the catalogue's."""
    from cotenant.edge.own_gpus import own_gpus

    own = own_gpus()
    return (*own, *(card for card in all_gpus() if card.name not in {mine.name for mine in own}))


def known_model(name: str | None) -> LoadedModel | None:
    """The model of the catalogue that an engine's log names by its hub id, or by a path that ends in its name.

    What a log says is never opened and never asked for on the hub.
    """
    from cotenant.edge.models import open_model

    for text in _names(name or ""):
        if find_entry(text) is not None:
            return open_model(text)
    return None


_MIX = re.compile(r"[-_. ](?:UD[-_])?(?:I?Q\d\w*|TQ\d\w*|BF16|F16|F32|MXFP4\w*)$", re.IGNORECASE)
_PART = re.compile(r"-\d{5}-of-\d{5}$")


def _names(name: str) -> Iterator[str]:
    """The name itself, a hub cache's folder as the id that it stands for, the last part of a path, and a GGUF
    file's name without its mix; words with spaces (general.name) as ids write them."""
    cached = re.search(r"models--([\w.-]+?)--([\w.-]+)", name)
    if cached:
        yield f"{cached.group(1)}/{cached.group(2)}"
    parts = [part for part in re.split(r"[/\\\\]", name) if part]
    if len(parts) == 2 and not name.startswith("/"):
        yield name
    elif len(parts) > 2:
        yield "/".join(parts[-2:])
    if parts:
        yield parts[-1]
        plain = _MIX.sub("", _PART.sub("", re.sub(r"\.gguf$", "", parts[-1], flags=re.IGNORECASE)))
        yield plain.replace(" ", "-")


def measurement_name(model: str | None, engine: str, digest: str) -> str:
    """A file name for a measurement: what it ran, and a hash that makes it its own."""
    short = re.sub(r"[^A-Za-z0-9.]+", "-", (model or "model").rsplit("/", 1)[-1]).strip("-.")[:60] or "model"
    return f"{engine}-{short}-{digest[:12]}.json"
