"""A forward reader over ranged reads: small buffer, explicit limits, little-endian numbers."""

from __future__ import annotations

import struct
from typing import Any

from cotenant.errors import FormatError
from cotenant.readers.tensors import Read
from cotenant.units import plural

_FIRST_CHUNK, _LARGEST_CHUNK = 2**18, 2**22
_U64 = struct.Struct("<Q")


class ByteCursor:
    """Reads a header of at most `limit` bytes from the front of a file of `size` bytes.

    Chunks grow from 256 KiB to 4 MiB, so that a header over HTTP takes few requests; nothing but the current
    chunk is held. Every method raises FormatError where the file or the limit ends first.
    """

    def __init__(self, read: Read, size: int, *, limit: int, what: str, path: str) -> None:
        self._read, self._size, self._limit = read, size, limit
        self._what, self._path = what, path
        self._chunk, self._start, self._at = b"", 0, 0
        self._next_chunk = _FIRST_CHUNK

    @property
    def offset(self) -> int:
        """Bytes consumed so far."""
        return self._start + self._at

    @property
    def remaining(self) -> int:
        """Bytes of the file that are still to come."""
        return max(0, self._size - self.offset)

    def take(self, length: int) -> bytes:
        """The next `length` bytes; callers bound `length` themselves."""
        self._ensure(length)
        self._at += length
        return self._chunk[self._at - length : self._at]

    def unpack(self, form: struct.Struct) -> Any:
        """The next number in `form`."""
        self._ensure(form.size)
        self._at += form.size
        return form.unpack_from(self._chunk, self._at - form.size)[0]

    def skip(self, length: int) -> None:
        """Move on by `length` bytes without reading them where that can be helped."""
        self._check(length)
        if self._at + length <= len(self._chunk):
            self._at += length
        else:
            self._start, self._at, self._chunk = self.offset + length, 0, b""

    def skip_texts(self, count: int) -> None:
        """Move past `count` texts, each with its length in eight bytes before it."""
        while count:
            count = self._skip_buffered(count)
            if count:
                length = self.unpack(_U64)
                self.skip(length)
                count -= 1

    def _skip_buffered(self, count: int) -> int:
        """Skip texts that lie whole in the chunk (the tight loop: a vocabulary has 10^5); how many are left."""
        chunk, at, end, unpack = self._chunk, self._at, len(self._chunk), _U64.unpack_from
        while count and at + 8 <= end:
            after = at + 8 + unpack(chunk, at)[0]
            if after > end:
                break
            at, count = after, count - 1
        self._at = at
        return count

    def _check(self, length: int) -> None:
        if length > self.remaining:
            raise FormatError(
                f"{self._what} is truncated: it needs {plural(length, 'byte')} at byte {self.offset:,} of "
                f"{self._size:,}",
                hint="the file was not downloaded whole, or is not what it claims: fetch it again",
                path=self._path,
            )
        if self.offset + length > self._limit:
            raise FormatError(f"{self._what} is longer than {self._limit:,} bytes", path=self._path)

    def _ensure(self, length: int) -> None:
        """Have the next `length` bytes in the chunk."""
        if self._at + length <= len(self._chunk):
            return
        self._check(length)
        rest, start = self._chunk[self._at :], self.offset
        want = min(max(length, self._next_chunk), self._size - start) - len(rest)
        self._next_chunk = min(2 * self._next_chunk, _LARGEST_CHUNK)
        self._chunk = rest + self._read(start + len(rest), want)
        self._start, self._at = start, 0
        if len(self._chunk) < length:
            raise FormatError(f"{self._what} ends early, at byte {start + len(self._chunk):,}", path=self._path)
