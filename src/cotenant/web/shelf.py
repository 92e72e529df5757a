"""Models that requests may name: those of the catalogue and the hub as they were opened last, and uploads.

A config.json or the head of a GGUF file is read once, when it comes; what is kept is the structure, not the bytes.
"""

from __future__ import annotations

import re
import secrets
from collections import OrderedDict
from dataclasses import replace
from typing import Any

from cotenant.domain.loaded import LoadedModel
from cotenant.errors import FormatError, InputError
from cotenant.web.names import UPLOAD, opener

_MOST_UPLOADS, _MOST_OPENED = 500, 500
UPLOAD_BYTES = 24 * 2**20


class Shelf:
    """What was opened, and what came. For one thread, but for `open`."""

    def __init__(self) -> None:
        self.uploads: OrderedDict[str, LoadedModel] = OrderedDict()
        self.opened: OrderedDict[str, LoadedModel] = OrderedDict()

    def known(self, source: object) -> LoadedModel | None:
        """The model, where nobody outside must be asked for it; None where the hub must."""
        if not isinstance(source, str):
            return opener(self.uploads)(source)
        name = source.strip()
        if name in self.opened:
            self.opened.move_to_end(name)
            return self.opened[name]
        if UPLOAD.fullmatch(name) or not _asks_hub(name):
            return self.open(name)
        return None

    def open(self, name: str) -> LoadedModel:
        """The model; this may ask the hub. Raises UnknownModelError, HubError and their kin."""
        return opener(self.uploads)(name)

    def keep(self, name: str, found: LoadedModel) -> None:
        """Remember what a name was found to be."""
        if not UPLOAD.fullmatch(name):
            _put(self.opened, name, found, _MOST_OPENED)

    def add(self, found: LoadedModel) -> str:
        """The id of a new upload; the one that came first goes where there are too many."""
        name = f"upload-{secrets.token_hex(16)}"
        _put(self.uploads, name, found, _MOST_UPLOADS)
        return name


def _put(shelf: OrderedDict[str, LoadedModel], name: str, found: LoadedModel, most: int) -> None:
    shelf[name] = found
    while len(shelf) > most:
        shelf.popitem(last=False)


def _asks_hub(name: str) -> bool:
    from cotenant.catalogue.models import find_entry
    from cotenant.catalogue.recipes import find_recipe
    from cotenant.edge.own_models import find_own_model

    if find_own_model(name) is not None:
        return True  # its row may name one
    return "/" in name and find_entry(name) is None and find_recipe(name) is None


def read_config(config: str | dict[str, Any], name: str | None) -> LoadedModel:
    """The model of a config.json. Raises FormatError, UnknownArchitectureError and their kin."""
    from cotenant.edge.files import MAX_CONFIG_BYTES, loaded
    from cotenant.readers.json_text import parse_json
    from cotenant.readers.model_config import read_model_config

    if isinstance(config, str):
        if len(config) > MAX_CONFIG_BYTES:
            raise FormatError(f"a config.json of more than {MAX_CONFIG_BYTES:,} characters", path="$.config")
        config = parse_json(config, what="config.json", path="$.config")
    if not isinstance(config, dict):
        raise FormatError("config.json is not a JSON object", path="$.config")
    called = plain_name(name or _told(config) or "uploaded-model")
    return loaded(read_model_config(config, name=called, source="an uploaded config.json"), called)


def read_gguf(head: bytes, size_bytes: int | None, name: str | None) -> LoadedModel:
    """The model whose GGUF file of `size_bytes` begins with `head`. Raises FormatError where the head is too
    short to hold the header."""
    from cotenant.edge.files import loaded
    from cotenant.readers import gguf
    from cotenant.readers.gguf_model import gguf_model

    size = len(head) if size_bytes is None else size_bytes
    if size < len(head):
        raise InputError("the head is longer than the file", path="$.size_bytes")

    def read(offset: int, length: int) -> bytes:
        """As a file is read; what is asked for beyond its need may stay out."""
        if len(head) <= offset < size:
            raise FormatError(
                f"the header goes on past the {len(head):,} bytes that came",
                hint=f"send more of the file, up to {UPLOAD_BYTES:,} bytes", path="$.gguf",
            )  # fmt: skip
        return head[offset : offset + length]

    header = gguf.read_header(read, size, path="the upload")
    called = plain_name(name or "uploaded-gguf")
    spec = gguf_model(gguf.join_headers([header]), called, source="an uploaded GGUF file")
    return replace(loaded(spec, called), source="upload")


def plain_name(text: str) -> str:
    """A name that is one word anywhere: in a table, a command, a file's name."""
    last = re.split(r"[/\\]", text.strip())[-1]
    last = re.sub(r"\.(json|gguf|safetensors)$", "", last, flags=re.IGNORECASE)
    return re.sub(r"[^A-Za-z0-9._-]+", "-", last).strip("-._")[:80] or "uploaded-model"


def _told(config: dict[str, Any]) -> str:
    name = config.get("_name_or_path")
    return name if isinstance(name, str) else ""
