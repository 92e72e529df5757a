"""From a stream of bytes to the few lines that matter, in bounded memory.

The stream is searched block by block for the needles of `engines.logs` (a plain search over bytes), so a log of
gigabytes costs seconds a gigabyte and never more memory than a few blocks. Lines longer than a window are cut
around what was found; colour codes, carriage returns and binary noise are taken out.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE, getincrementaldecoder
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

BLOCK_BYTES = 2**20
_BEFORE, _AFTER = 4096, 16384  # of a line, around what was found
_HEXADECIMAL = b"0123456789abcdefABCDEF"
_EDGE = 2**16  # kept of the log's beginning and end
OPENS, CLOSES, MOST_LINES = b"Args {", b"}", 150
"""What begins and ends a value over many lines, and how many it may have."""
_WIDE_PAIRS = 32  # characters at the start that tell UTF-16 without a mark
_COLOUR = re.compile(rb"\x1b\[[0-9;:?]{0,20}[A-Za-z]")
_BINARY = bytes(set(range(32)) - {8, 9, 10, 12, 13, 27})


@dataclass(frozen=True, slots=True)
class Line:
    """One line of interest: its number from 1 and its text without colours."""

    number: int
    text: str


@dataclass(slots=True)
class Counts:
    """What went by: for messages and progress."""

    size: int = 0
    lines: int = 0
    noise_bytes: int = 0
    open_lines: int = 0  # that may still belong to a value printed over many
    head: bytes = b""
    end: bytes = b""
    hasher: Any = field(default_factory=sha256)

    def add(self, chunk: bytes) -> None:
        """Count a piece, and keep what is needed to say what kind of log it is."""
        self.size += len(chunk)
        self.noise_bytes += len(chunk) - len(chunk.translate(None, _BINARY))
        self.head += chunk[: _EDGE - len(self.head)]
        self.hasher.update(chunk)
        self.end = (self.end + chunk[-_EDGE:])[-_EDGE:]

    @property
    def digest(self) -> str:
        """What the log is known by: the hash of its bytes."""
        return str(self.hasher.hexdigest())

    @property
    def is_binary(self) -> bool:
        """More than one byte in ten is no text."""
        return self.noise_bytes * 10 > self.size


def lines_of_interest(
    chunks: Iterable[bytes],
    needles: Sequence[bytes],
    counts: Counts,
    progress: Callable[[int], None] | None = None,
) -> Iterator[Line]:
    """The lines in which any of `needles` stands, in order. `counts` is filled on the way."""
    tail = b""
    for chunk in _utf8(chunks):
        counts.add(chunk)
        block = tail + chunk.replace(b"\r", b"\n")
        end = block.rfind(b"\n") + 1
        if not end and len(block) < BLOCK_BYTES:
            tail = block
            continue
        end = end or len(block)  # a line longer than a block is taken in pieces
        tail = block[end:]
        yield from _search(block[:end], needles, counts)
        if progress is not None:
            progress(counts.size)
    if tail:
        yield from _search(tail, needles, counts)


def _utf8(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes; UTF-16 (a redirect in PowerShell) as UTF-8."""
    decode: Callable[[bytes], str] | None = None
    first = True
    for chunk in chunks:
        if first and (encoding := _wide(chunk)):
            decode = getincrementaldecoder(encoding)(errors="replace").decode
        first = False
        for start in range(0, len(chunk), BLOCK_BYTES):
            piece = chunk[start : start + BLOCK_BYTES]
            yield piece if decode is None else decode(piece).encode("utf-8", "replace")


def _wide(start: bytes) -> str:
    """The encoding of text in two bytes a character, told by its mark or by its zeros; "" for other text."""
    if start.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        return "utf-16"
    head = start[: 2 * _WIDE_PAIRS]
    if len(head) < 2 * _WIDE_PAIRS:
        return ""
    for encoding, zeros, letters in (("utf-16-le", head[1::2], head[::2]), ("utf-16-be", head[::2], head[1::2])):
        if zeros.count(0) >= _WIDE_PAIRS - 2 and 0 not in letters:
            return encoding
    return ""


def _search(block: bytes, needles: Sequence[bytes], counts: Counts) -> Iterator[Line]:
    if b"\x1b" in block:
        block = _COLOUR.sub(b"", block)
    spans: dict[int, int] = _continued(block, counts)
    for needle in _likely(block, needles):
        place = block.find(needle)
        while place >= 0:
            start = block.rfind(b"\n", max(0, place - _BEFORE), place) + 1 or max(0, place - _BEFORE)
            end = block.find(b"\n", place, place + _AFTER)
            end = end if end >= 0 else min(len(block), place + _AFTER)
            spans[start] = max(end, spans.get(start, 0))
            place = block.find(needle, end)
    number, last = counts.lines + 1, 0
    for start in sorted(spans):
        number += block.count(b"\n", last, start)
        last = start
        yield Line(number, block[start : spans[start]].decode("utf-8", "replace").replace("\0", ""))
    counts.lines += block.count(b"\n")


def _continued(block: bytes, counts: Counts) -> dict[int, int]:
    """Where the lines of a value stand that is printed over many (TGI's arguments), from start to end: wherever a
    block ends, the rest is taken from the next."""
    spans: dict[int, int] = {}
    place = _taken(block, 0, spans, counts)
    start = block.find(OPENS, place)
    while start >= 0:
        end = block.find(b"\n", start)
        if end < 0:
            break
        counts.open_lines = 0 if CLOSES in block[start:end] else MOST_LINES
        start = block.find(OPENS, max(end, _taken(block, end + 1, spans, counts)))
    return spans


def _taken(block: bytes, place: int, spans: dict[int, int], counts: Counts) -> int:
    while counts.open_lines and place < len(block):
        end = block.find(b"\n", place)
        end = end if end >= 0 else len(block)
        spans[place] = min(end, place + _AFTER)
        counts.open_lines = 0 if block[place:end].rstrip().endswith(CLOSES) else counts.open_lines - 1
        place = end + 1
    return place


def _likely(block: bytes, needles: Sequence[bytes]) -> list[bytes]:
    """The needles that may stand in the block. A server writes the same few lines over and over, with other
    numbers and ids: without digits and a-f they collapse to a handful, and only those need be searched."""
    shapes = b"\n".join(set(block.translate(None, _HEXADECIMAL).split(b"\n")))
    return [needle for needle in needles if needle.translate(None, _HEXADECIMAL) in shapes]
