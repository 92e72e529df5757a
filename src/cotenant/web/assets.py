"""The page's own files: packed once, named by their hash, and nothing beside them."""

from __future__ import annotations

import gzip
import hashlib
import re
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".json": "application/json",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
    ".webmanifest": "application/manifest+json",
    ".txt": "text/plain; charset=utf-8",
    ".map": "application/json",
}
_PACKED = (".png", ".ico", ".woff2")
_NAMED = re.compile(rb'((?:src|href)=")(/?static/)([\w./-]+)(")')
_FOREVER, _ASK = "public, max-age=31536000, immutable", "no-cache"


@dataclass(frozen=True, slots=True)
class Asset:
    """One file: its bytes as they are and packed (None where packing gains nothing), and their hash."""

    data: bytes
    packed: bytes | None
    type: str
    hash: str


class Assets:
    """The files of the package's `static` folder; one that changed on disk is read again."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or Path(str(files("cotenant.web").joinpath("static")))
        self._names: dict[str, Path] = {}
        self._known: dict[str, tuple[int, Asset]] = {}

    def find(self, name: str) -> Asset | None:
        """The file of that name inside the folder, by a listing of it: no name is ever made into a path."""
        path = self._names.get(name)
        if path is None or not path.exists():
            self._names = self._listed()  # one that came or went since
            path = self._names.get(name)
        if path is None:
            return None
        changed = path.stat().st_mtime_ns
        known = self._known.get(name)
        if known is None or known[0] != changed:
            known = changed, _asset(path.suffix, self._with_hashes(path))
            self._known[name] = known
        return known[1]

    def _listed(self) -> dict[str, Path]:
        return {
            path.relative_to(self._folder).as_posix(): path
            for path in self._folder.rglob("*")
            if path.suffix in _TYPES and path.is_file() and not path.is_symlink()
        }

    def _with_hashes(self, path: Path) -> bytes:
        data = path.read_bytes()
        if path.suffix != ".html":
            return data

        def named(match: re.Match[bytes]) -> bytes:
            found = self.find(match[3].decode())
            version = b"" if found is None else b"?v=" + found.hash.encode()
            return match[1] + match[2] + match[3] + version + match[4]

        return _NAMED.sub(named, data)

    def answer(self, name: str, request: Request) -> Response | None:
        """The file as a response; None where there is none. Asked for by its hash it may be kept for ever."""
        asset = self.find(name)
        if asset is None:
            return None
        wanted = request.query_params.get("v")
        return packed_answer(request, asset, _FOREVER if wanted == asset.hash else _ASK)


def packed_answer(request: Request, asset: Asset, keep: str) -> Response:
    """As the client takes it: not at all where it has it, else packed where it can unpack."""
    tag = f'"{asset.hash}"'
    headers = {"etag": tag, "cache-control": keep, "vary": "accept-encoding"}
    if tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    body = asset.data
    if asset.packed is not None and "gzip" in request.headers.get("accept-encoding", ""):
        body, headers["content-encoding"] = asset.packed, "gzip"
    return Response(body, headers={**headers, "content-type": asset.type})


def _asset(suffix: str, data: bytes) -> Asset:
    return asset_of(data, _TYPES[suffix], pack=suffix not in _PACKED)


def asset_of(data: bytes, media_type: str, *, pack: bool = True) -> Asset:
    """`data` packed and hashed."""
    packed = gzip.compress(data, 9, mtime=0) if pack and len(data) > 512 else None
    return Asset(data, packed, media_type, hashlib.sha256(data).hexdigest()[:16])
