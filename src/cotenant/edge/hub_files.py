"""Bounded, ranged reads of single files on the hub, over huggingface_hub's own session, token and endpoint."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

from cotenant.edge.hub_errors import hub_errors
from cotenant.errors import HubError
from cotenant.readers.tensors import Read

FRONT_BYTES = 2**18  # most safetensors headers fit, so one request does
_CHUNK = 2**16


def endpoint() -> str | None:
    """The hub to ask: HF_ENDPOINT as it stands now, None for the library's own default."""
    return os.environ.get("HF_ENDPOINT", "").rstrip("/") or None


class HubRepository:
    """One model repository at one commit."""

    def __init__(self, model_id: str, revision: str, *, timeout_s: float) -> None:
        self.model_id, self.revision, self._timeout_s = model_id, revision, timeout_s

    def reader(self, filename: str, size: int) -> Read:
        """``read(offset, length)`` of a file of `size` bytes: the first quarter MiB is fetched once and kept."""
        front: list[bytes] = []

        def read(offset: int, length: int) -> bytes:
            if offset + length > FRONT_BYTES:
                return self.fetch(filename, offset, min(length, size - offset))
            if not front:
                front.append(self.fetch(filename, 0, min(FRONT_BYTES, size)))
            return front[0][offset : offset + length]

        return read

    def fetch(self, filename: str, offset: int, length: int) -> bytes:
        """`length` bytes of a file from `offset`, fewer at its end; never more, whatever the server sends."""
        from huggingface_hub import hf_hub_url

        if length <= 0:
            return b""
        with hub_errors(self.model_id):
            url = hf_hub_url(self.model_id, filename, revision=self.revision, endpoint=endpoint())
            return _ranged_get(url, offset, length, self._timeout_s)[0]

    def size(self, filename: str) -> int:
        """Bytes of a file whose size the listing does not state."""
        from huggingface_hub import hf_hub_url

        with hub_errors(self.model_id):
            url = hf_hub_url(self.model_id, filename, revision=self.revision, endpoint=endpoint())
            total = _ranged_get(url, 0, 1, self._timeout_s)[1].rpartition("/")[2]
        if not (total.isascii() and total.isdigit() and len(total) < 19):
            raise HubError(
                f"the hub does not say how large {self.model_id}/{filename} is", hint="download the folder"
            )
        return int(total)


def _ranged_get(url: str, offset: int, length: int, timeout_s: float) -> tuple[bytes, str]:
    """(the bytes, the Content-Range header)."""
    from huggingface_hub.utils import (  # type: ignore[attr-defined]
        build_hf_headers,
        get_session,
        hf_raise_for_status,
    )

    headers = build_hf_headers(library_name="cotenant")
    headers |= {"Range": f"bytes={offset}-{offset + length - 1}", "Accept-Encoding": "identity"}
    with _streamed(get_session(), url, headers, timeout_s) as response:
        hf_raise_for_status(response)
        if response.status_code != 206 and offset:
            raise HubError("the server sends whole files only, and a header is wanted", hint="download the folder")
        # httpx (huggingface_hub 1.0 on) or requests (before)
        iterate = getattr(response, "iter_bytes", None) or response.iter_content
        data = bytearray()
        for chunk in iterate(_CHUNK):
            data += chunk
            if len(data) >= length:
                break
        return bytes(data[:length]), response.headers.get("content-range", "")


@contextlib.contextmanager
def _streamed(session: Any, url: str, headers: dict[str, str], timeout_s: float) -> Iterator[Any]:
    """A response whose body is not read yet, closed at the end."""
    if callable(getattr(session, "stream", None)):  # httpx; in requests it is a flag
        with session.stream("GET", url, headers=headers, timeout=timeout_s, follow_redirects=True) as response:
            yield response
    else:
        with session.get(url, headers=headers, timeout=timeout_s, stream=True) as response:
            yield response
