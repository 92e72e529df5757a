"""The header of a safetensors file, from ranged reads: names, types, shapes and sizes, never a weight.

The format: eight bytes, little-endian, with the length of the header; the header, a JSON object of
``name: {dtype, shape, data_offsets: [begin, end]}`` beside ``__metadata__`` (texts only); then the data, which
the tensors cover without hole or overlap. Limits and checks follow its reference implementation,
https://github.com/huggingface/safetensors, safetensors/src/tensor.rs.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from types import MappingProxyType
from typing import Any

from cotenant.errors import FormatError
from cotenant.readers.json_text import parse_json
from cotenant.readers.tensors import Read, TensorInfo, refuse_stranger

MAX_HEADER_BYTES = 100_000_000
_LARGEST = 2**63
_TRUNCATED = "the file is truncated or was not downloaded whole: fetch it again"

DTYPE_BITS = MappingProxyType(
    {
        "BOOL": 8, "U8": 8, "I8": 8, "U16": 16, "I16": 16, "U32": 32, "I32": 32, "U64": 64, "I64": 64,
        "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
        "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
        "F16": 16, "BF16": 16, "F32": 32, "F64": 64, "C64": 64,
    }
)  # fmt: skip


def read_header(read: Read, size: int, *, path: str = "") -> tuple[TensorInfo, ...]:
    """Every tensor of a safetensors file of `size` bytes, in the order of its data.

    `read` is asked twice: for the first eight bytes, then for the header. Raises FormatError, with `path` as the
    place, when the file is truncated, is something else, or contradicts itself; nothing longer than
    MAX_HEADER_BYTES is ever read.
    """
    length = _header_length(read, size, path)
    data = read(8, length)
    if len(data) != length:
        raise FormatError(
            f"safetensors header ends after {len(data):,} of {length:,} bytes", hint=_TRUNCATED, path=path
        )
    header = parse_json(data, what="safetensors header", path=path)
    if not isinstance(header, dict):
        raise FormatError("safetensors header is not a JSON object", path=path)
    _check_metadata(header.pop("__metadata__", None), path)
    spans = sorted(
        (_tensor(name, entry, path) for name, entry in header.items()),
        key=lambda span: (span[0], span[1], span[2].name),
    )
    _check_cover(spans, size - 8 - length, path)
    return tuple(info for _, _, info in spans)


def _header_length(read: Read, size: int, path: str) -> int:
    head = read(0, 8)
    if len(head) < 8 or size < 10:
        raise FormatError(
            f"not a safetensors file: {size:,} bytes cannot hold a header", hint=_TRUNCATED, path=path
        )
    length = int.from_bytes(head, "little")
    if length > MAX_HEADER_BYTES:
        refuse_stranger(head, "safetensors", path)
        raise FormatError(
            f"not a safetensors file: it claims a header of {length:,} bytes, above {MAX_HEADER_BYTES:,}",
            hint="is it another format, or a web page saved under this name?",
            path=path,
        )
    if length > size - 8:
        message = f"safetensors header of {length:,} bytes in a file of {size:,}"
        raise FormatError(message, hint=_TRUNCATED, path=path)
    return length


def _check_metadata(metadata: Any, path: str) -> None:
    if metadata is None:
        return
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise FormatError("safetensors __metadata__ must map texts to texts", path=path)


def _tensor(name: str, entry: Any, path: str) -> tuple[int, int, TensorInfo]:
    """(begin, end, tensor) of one entry, each part checked."""
    what = f"safetensors header: tensor {name[:120]!r}"
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise FormatError(f"{what} needs exactly dtype, shape and data_offsets", path=path)
    bits = DTYPE_BITS.get(entry["dtype"]) if isinstance(entry["dtype"], str) else None
    if bits is None:
        raise FormatError(f"{what} has the unknown dtype {str(entry['dtype'])[:40]!r}", path=path)
    shape = _naturals(entry["shape"], f"{what}: shape", path)
    offsets = _naturals(entry["data_offsets"], f"{what}: data_offsets", path)
    if len(offsets) != 2 or offsets[0] > offsets[1]:
        raise FormatError(f"{what}: data_offsets must be [begin, end], begin not after end", path=path)
    span = offsets[1] - offsets[0]
    if span * 8 != prod(shape) * bits:
        message = f"{what}: {entry['dtype']} of shape {list(shape)[:8]} does not fill its {span:,} bytes"
        raise FormatError(message, path=path)
    return offsets[0], offsets[1], TensorInfo(name, entry["dtype"], shape, span)


def _naturals(value: Any, what: str, path: str) -> tuple[int, ...]:
    """A short list of whole numbers 0..2^63, as a tuple; a bool is not a number here."""
    if not isinstance(value, list) or len(value) > 32:
        raise FormatError(f"{what} is not a short list", path=path)
    if not all(type(number) is int and 0 <= number < _LARGEST for number in value):
        raise FormatError(f"{what} holds something other than whole numbers below 2^63", path=path)
    return tuple(value)


def _check_cover(spans: list[tuple[int, int, TensorInfo]], data_bytes: int, path: str) -> None:
    """The spans, sorted, must cover the data exactly: no hole, no overlap, nothing outside."""
    end = 0
    for begin, after, info in spans:
        if begin != end:
            problem = "overlaps the one before it" if begin < end else "leaves a hole before it"
            raise FormatError(f"safetensors header: tensor {info.name[:120]!r} {problem}", path=path)
        end = after
    if end > data_bytes:
        message = f"safetensors header: tensors of {end:,} bytes in {data_bytes:,} bytes of data"
        raise FormatError(message, hint=_TRUNCATED, path=path)
    if end < data_bytes:
        raise FormatError(f"safetensors file: {data_bytes - end:,} bytes after the last tensor", path=path)


def read_index(text: bytes | str, *, path: str = "") -> Mapping[str, str]:
    """Tensor name -> shard's file name, from ``model.safetensors.index.json``.

    Raises FormatError when it is not such an index or names a file outside its own folder.
    """
    index = parse_json(text, what="safetensors index", path=path)
    weight_map = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(weight_map, dict) or not weight_map:
        raise FormatError("safetensors index has no weight_map", path=path)
    for name in weight_map.values():
        if not isinstance(name, str) or not _is_plain(name):
            raise FormatError(
                f"safetensors index names {str(name)[:120]!r}, not a .safetensors file beside it", path=path
            )
    return MappingProxyType(weight_map)


def _is_plain(name: str) -> bool:
    return name.endswith(".safetensors") and not set(name) & set("/\\\0") and not name.startswith(".")
