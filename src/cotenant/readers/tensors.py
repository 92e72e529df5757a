"""What any weights file says of one tensor, and how a header's first bytes give other files away."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from cotenant.errors import FormatError

Read = Callable[[int, int], bytes]
"""``read(offset, length)`` returns up to `length` bytes of a file from `offset`; fewer only at its end."""


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """One stored tensor. `shape` has the outputs first, (rows, columns); `bytes` is what it takes on disk."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    bytes: int

    @property
    def elements(self) -> int:
        """Stored elements; of a packed tensor, the packed ones."""
        return prod(self.shape)


_CONVERT = "convert it to safetensors: a pickle can run any code, so none is ever opened here"
_STRANGERS = (
    (b"PK\x03\x04", "a zip archive (a PyTorch pickle?)", _CONVERT),
    (b"\x80\x02", "a pickle", _CONVERT),
    (b"\x80\x03", "a pickle", _CONVERT),
    (b"\x80\x04", "a pickle", _CONVERT),
    (b"\x80\x05", "a pickle", _CONVERT),
    (b"\x1f\x8b", "a gzip archive", "unpack it first"),
    (b"version ", "a Git LFS pointer", "fetch the file itself: git lfs pull"),
    (b"\x89HDF", "an HDF5 file", "convert it to safetensors"),
    (b"GGUF", "a GGUF file", "name it .gguf"),
    (b"\xef\xbb\xbf<", "a web page", "download the raw file, not its page"),
    (b"<", "a web page", "download the raw file, not its page"),
)


def refuse_stranger(head: bytes, expected: str, path: str) -> None:
    """Raise FormatError when the first bytes of a file show that it is something else than `expected`."""
    for magic, what, hint in _STRANGERS:
        found = head.lstrip() if magic == b"<" else head
        if found.startswith(magic) and what != f"a {expected} file":
            raise FormatError(f"not a {expected} file but {what}", hint=hint, path=path)
