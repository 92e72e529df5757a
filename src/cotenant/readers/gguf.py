"""The header of a GGUF file (versions 2 and 3, little-endian), from ranged reads: metadata and tensors.

The format: ``GGUF``, version, number of tensors, number of keys; the keys with their typed values; the tensors
with their dimensions (fastest first), type and offset; then the data, aligned. Source: docs/gguf.md of
https://github.com/ggml-org/ggml. Every count and length in it is a stranger's: each is checked against a limit and
against the bytes that are left before anything is read or built.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from types import MappingProxyType
from typing import Any

from cotenant.errors import FormatError
from cotenant.readers.byte_cursor import ByteCursor
from cotenant.readers.ggml_types import FILE_TYPES, GGML_TYPES
from cotenant.readers.tensors import Read, TensorInfo, refuse_stranger

MAX_HEADER_BYTES = 2**26  # vocabularies with merges take up to some 20 MiB
MAX_KEYS, MAX_TENSORS, MAX_DIMENSIONS = 2_000, 100_000, 4
MAX_NAME_BYTES, MAX_TEXT_BYTES = 1024, 2**14
MAX_ITEMS = 2**22  # of any array: the largest vocabularies have some 10^5.5 tokens and merges
MAX_NUMBERS, MAX_TEXTS = 1024, 64  # items of an array that is kept

_NUMBERS = {
    0: struct.Struct("<B"), 1: struct.Struct("<b"), 2: struct.Struct("<H"), 3: struct.Struct("<h"),
    4: struct.Struct("<I"), 5: struct.Struct("<i"), 6: struct.Struct("<f"), 7: struct.Struct("<?"),
    10: struct.Struct("<Q"), 11: struct.Struct("<q"), 12: struct.Struct("<d"),
}  # fmt: skip
_U32, _U64 = _NUMBERS[4], _NUMBERS[10]
_TEXT, _ARRAY = 8, 9


@dataclass(frozen=True, slots=True)
class Omitted:
    """Stands for a metadata value that was skipped because it is long: `length` items, or bytes of a text."""

    length: int


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """What a GGUF file says before its data. Texts over 16 KiB and long arrays are `Omitted`.

    `total_bytes` is what the tensors take, alignment apart; `file_type` is the name of the mix that the file
    declares (``Q4_K_M``), "" where it declares none; `split_count` is 1 for a file that stands alone.
    """

    architecture: str
    metadata: Mapping[str, Any]
    tensors: tuple[TensorInfo, ...]
    total_bytes: int
    file_type: str
    split_count: int = 1


def read_header(read: Read, size: int, *, path: str = "") -> GgufHeader:
    """The header of a GGUF file of `size` bytes. Raises FormatError, with `path` as the place."""
    head = read(0, 64)
    if not head.startswith(b"GGUF"):
        refuse_stranger(head, "GGUF", path)
        raise FormatError(f"not a GGUF file: it begins with {head[:4]!r}", path=path)
    cursor = ByteCursor(read, size, limit=MAX_HEADER_BYTES, what="GGUF header", path=path)
    cursor.skip(4)
    _check_version(cursor.unpack(_U32), path)
    num_tensors = _bounded(cursor.unpack(_U64), MAX_TENSORS, "tensors", path)
    num_keys = _bounded(cursor.unpack(_U64), MAX_KEYS, "metadata keys", path)
    metadata = _metadata(cursor, num_keys, path)
    spans = [_tensor(cursor, path) for _ in range(num_tensors)]
    _check_spans(spans, cursor.offset, size, _alignment(metadata, path), path)
    return _header(metadata, tuple(info for _, info in spans), path)


def join_headers(headers: Sequence[GgufHeader]) -> GgufHeader:
    """One header for a model split over several files: the first one's metadata, everybody's tensors.

    Raises FormatError when a part is missing or a tensor stands in two parts.
    """
    first = headers[0]
    if len(headers) != first.split_count:
        raise FormatError(f"GGUF file in {first.split_count} parts, {len(headers)} of them found")
    tensors = tuple(tensor for header in headers for tensor in header.tensors)
    if len({tensor.name for tensor in tensors}) != len(tensors):
        raise FormatError("GGUF parts hold the same tensor twice: are they of one file?")
    total = sum(header.total_bytes for header in headers)
    return GgufHeader(first.architecture, first.metadata, tensors, total, first.file_type, 1)


def _header(metadata: Mapping[str, Any], tensors: tuple[TensorInfo, ...], path: str) -> GgufHeader:
    architecture = metadata.get("general.architecture", "")
    if not isinstance(architecture, str):
        raise FormatError("GGUF header: general.architecture is not a text", path=path)
    file_type, split_count = metadata.get("general.file_type"), metadata.get("split.count", 1)
    return GgufHeader(
        architecture=architecture,
        metadata=MappingProxyType(dict(metadata)),
        tensors=tensors,
        total_bytes=sum(tensor.bytes for tensor in tensors),
        file_type=FILE_TYPES.get(file_type, "") if type(file_type) is int else "",
        split_count=max(1, split_count) if type(split_count) is int else 1,
    )


def _check_version(version: int, path: str) -> None:
    if version in (2, 3):
        return
    if version & 0xFFFF == 0:
        raise FormatError(
            "big-endian GGUF file", hint="convert it to little-endian (gguf_convert_endian.py)", path=path
        )
    hint = "convert the model again with a current llama.cpp" if version == 1 else ""
    raise FormatError(f"GGUF version {version}; versions 2 and 3 are understood", hint=hint, path=path)


def _bounded(count: int, limit: int, what: str, path: str) -> int:
    if count > limit:
        raise FormatError(f"GGUF header claims {count:,} {what}, above {limit:,}", path=path)
    return count


def _text(cursor: ByteCursor, limit: int, what: str, path: str) -> str:
    length = _bounded(cursor.unpack(_U64), limit, f"bytes in {what}", path)
    try:
        return cursor.take(length).decode("utf-8")
    except UnicodeDecodeError:
        raise FormatError(f"GGUF header: {what} is not UTF-8", path=path) from None


def _metadata(cursor: ByteCursor, num_keys: int, path: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {}
    for _ in range(num_keys):
        key = _text(cursor, MAX_NAME_BYTES, "a metadata key", path)
        if key in metadata:
            raise FormatError(f"GGUF header: key {key[:80]!r} stands there twice", path=path)
        metadata[key] = _value(cursor, cursor.unpack(_U32), path)
    return metadata


def _value(cursor: ByteCursor, kind: int, path: str) -> Any:
    if kind in _NUMBERS:
        return cursor.unpack(_NUMBERS[kind])
    if kind == _TEXT:
        return _long_text(cursor)
    if kind == _ARRAY:
        return _array(cursor, path)
    raise FormatError(f"GGUF header: unknown value type {kind}", path=path)


def _array(cursor: ByteCursor, path: str) -> tuple[Any, ...] | Omitted:
    """A short array as a tuple, a long one skipped. Arrays of arrays are in no real file (ggml refuses them)."""
    kind, length = cursor.unpack(_U32), cursor.unpack(_U64)
    if kind not in _NUMBERS and kind != _TEXT:
        raise FormatError(f"GGUF header: an array of values of type {kind}", path=path)
    smallest = _NUMBERS[kind].size if kind in _NUMBERS else 8
    if length > min(MAX_ITEMS, cursor.remaining // smallest):
        raise FormatError(f"GGUF header: an array of {length:,} items in {cursor.remaining:,} bytes", path=path)
    if length <= (MAX_TEXTS if kind == _TEXT else MAX_NUMBERS):
        return tuple(_value(cursor, kind, path) for _ in range(length))
    if kind == _TEXT:
        cursor.skip_texts(length)
    else:
        cursor.skip(length * smallest)
    return Omitted(length)


def _long_text(cursor: ByteCursor) -> str | Omitted:
    """A text value; metadata may hold bytes that are no UTF-8 (some tokenisers do), so decoding is lenient."""
    length = cursor.unpack(_U64)
    if length > MAX_TEXT_BYTES:
        cursor.skip(length)
        return Omitted(length)
    return cursor.take(length).decode("utf-8", errors="replace")


def _tensor(cursor: ByteCursor, path: str) -> tuple[int, TensorInfo]:
    """(offset in the data, tensor) of the next entry; dimensions turned so that the outputs stand first."""
    name = _text(cursor, MAX_NAME_BYTES, "a tensor's name", path)
    num_dimensions = _bounded(cursor.unpack(_U32), MAX_DIMENSIONS, f"dimensions of tensor {name!r}", path)
    dimensions = [cursor.unpack(_U64) for _ in range(num_dimensions)]
    kind = cursor.unpack(_U32)
    ggml = GGML_TYPES.get(kind)
    if ggml is None:
        raise FormatError(f"GGUF header: tensor {name!r} has the unknown type {kind}", path=path)
    row = dimensions[0] if dimensions else 1
    if row % ggml.block_elements or any(dimension >= 2**48 for dimension in dimensions):
        raise FormatError(f"GGUF header: tensor {name!r} of shape {dimensions} cannot be {ggml.name}", path=path)
    size_bytes = prod(dimensions) // ggml.block_elements * ggml.block_bytes
    return cursor.unpack(_U64), TensorInfo(name, ggml.name, tuple(reversed(dimensions)), size_bytes)


def _alignment(metadata: Mapping[str, Any], path: str) -> int:
    alignment = metadata.get("general.alignment", 32)
    if type(alignment) is not int or not 1 <= alignment <= 2**20 or alignment & (alignment - 1):
        raise FormatError("GGUF header: general.alignment is not a power of two", path=path)
    return alignment


def _check_spans(spans: list[tuple[int, TensorInfo]], end: int, size: int, alignment: int, path: str) -> None:
    """Names are unique, and the data of each tensor begins where the one before it ends, inside the file."""
    if len({info.name for _, info in spans}) != len(spans):
        raise FormatError("GGUF header: two tensors have the same name", path=path)
    data, expected, finish = _padded(end, alignment), 0, 0
    for offset, info in sorted(spans, key=lambda span: (span[0], span[1].bytes)):
        if offset != expected:
            raise FormatError(
                f"GGUF header: tensor {info.name!r} at {offset:,} instead of {expected:,}", path=path
            )
        finish = offset + info.bytes
        expected = _padded(finish, alignment)
    if spans and data + finish > size:
        raise FormatError(
            f"GGUF file is truncated: {data + finish:,} bytes by its header, {size:,} on disk",
            hint="fetch it again",
            path=path,
        )


def _padded(size: int, alignment: int) -> int:
    return (size + alignment - 1) // alignment * alignment
