"""Models that requests may name: the hub's and the user's own as they were opened last, and uploads.

A config.json or the head of a GGUF file is read once, when it comes; what is kept is the structure, not the bytes.
"""

from __future__ import annotations

import json
import re
import secrets
from collections import OrderedDict
from dataclasses import replace
from typing import Any, TypeVar

from cotenant.domain.loaded import LoadedModel
from cotenant.errors import FormatError, InputError
from cotenant.web.names import UPLOAD, opener
from cotenant.web.stamp import Stamp

_MOST_UPLOADS, _MOST_OPENED = 500, 500
UPLOAD_BYTES = 24 * 2**20


class Shelf:
    """What was opened, and what came. For the event loop alone: threads are handed values, never this."""

    def __init__(self) -> None:
        self._uploads: OrderedDict[str, LoadedModel] = OrderedDict()
        self._opened: OrderedDict[str, tuple[Stamp, LoadedModel | None]] = OrderedDict()

    def find(self, name: str, stamp: Stamp) -> tuple[bool, LoadedModel | None]:
        """Whether it is known what the name means, the user's own folders being as `stamp` says; and the model,
        None where any process opens it by itself. Raises UnknownModelError for an upload that is not here."""
        if UPLOAD.fullmatch(name):
            return True, opener(self._uploads)(name)
        held, found = self._opened.get(name, (None, None))
        if held != stamp:
            return False, None
        self._opened.move_to_end(name)
        return True, found

    def keep(self, name: str, stamp: Stamp, found: LoadedModel | None) -> None:
        """Remember what a name was found to be."""
        _put(self._opened, name, (stamp, found), _MOST_OPENED)

    def add(self, found: LoadedModel) -> str:
        """The id of a new upload; the one that came first goes where there are too many."""
        name = f"upload-{secrets.token_hex(16)}"
        _put(self._uploads, name, found, _MOST_UPLOADS)
        return name

    def named_in(self, text: str, stamp: Stamp) -> dict[str, LoadedModel]:
        """The models that a question's JSON names: a worker need not ask for them again."""
        found = dict(self._uploads)
        found |= {name: one for name, (held, one) in self._opened.items() if one is not None and held == stamp}
        return {name: one for name, one in found.items() if json.dumps(name) in text}


def opened(name: str) -> LoadedModel | None:
    """What the hub or the user's own folders say of a name; None for a name of the catalogue, which any process
    opens by itself. Raises UnknownModelError, HubError and their kin."""
    return opener({})(name) if _asks_outside(name) else None


V = TypeVar("V")


def _put(shelf: OrderedDict[str, V], name: str, found: V, most: int) -> None:
    shelf[name] = found
    while len(shelf) > most:
        shelf.popitem(last=False)


def _asks_outside(name: str) -> bool:
    from cotenant.catalogue.models import find_entry
    from cotenant.catalogue.recipes import find_recipe
    from cotenant.edge.own_models import find_own_model

    if find_own_model(name) is not None:
        return True  # its row may name what the hub has
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
