"""Models that requests may name: the hub's and the user's own as they were opened last, and uploads.

A config.json or the head of a GGUF file is read once, when it comes; what is kept is the structure, not the bytes.
"""

from __future__ import annotations

import base64
import binascii
import json
import pickle
import re
import secrets
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Generic, TypeVar

from cotenant.domain.loaded import LoadedModel
from cotenant.errors import FormatError, InputError
from cotenant.units import plural
from cotenant.web.names import UPLOAD, opener
from cotenant.web.stamp import Stamp

_MOST_KEPT, _KEPT_BYTES = 500, 32 * 2**20
_MODEL_BYTES = 4 * 2**20  # of one model; those of ten thousand tensors have two
_NAME = re.compile(r"[\w./@:-]+")
UPLOAD_BYTES = 24 * 2**20


class Shelf:
    """What was opened, and what came. For the event loop alone: threads are handed values, never this."""

    def __init__(self) -> None:
        self._uploads: _Kept[LoadedModel] = _Kept()
        self._opened: _Kept[tuple[Stamp, LoadedModel | None]] = _Kept()

    def find(self, name: str, stamp: Stamp) -> tuple[bool, LoadedModel | None]:
        """Whether it is known what the name means, the user's own folders being as `stamp` says; and the model,
        None where any process opens it by itself. Raises UnknownModelError for an upload that is not here."""
        if UPLOAD.fullmatch(name):
            return True, opener(self._uploads.values)(name)
        held, found = self._opened.values.get(name, (None, None))
        if held != stamp:
            return False, None
        self._opened.values.move_to_end(name)
        return True, found

    def keep(self, name: str, stamp: Stamp, found: LoadedModel | None) -> None:
        """Remember what a name was found to be."""
        self._opened.put(name, (stamp, found), len(pickle.dumps(found)))

    def add(self, name: str, model: bytes) -> None:
        """Keep an upload, as `packed` by a worker of ours. Those that came first go where there are too many."""
        self._uploads.put(name, pickle.loads(model), len(model))

    def named_in(self, text: str, stamp: Stamp) -> dict[str, LoadedModel]:
        """The models that a question's JSON names: a worker need not ask for them again. The text, which may be
        long, is gone through once, however many are known."""
        known = dict(self._uploads.values)
        opened = self._opened.values.items()
        known |= {name: one for name, (held, one) in opened if one is not None and held == stamp}
        if not known:
            return {}
        named = {word[0] for word in _NAME.finditer(text) if word[0] in known}
        odd = (name for name in known if not _NAME.fullmatch(name))  # the user's own
        named |= {name for name in odd if json.dumps(name)[1:-1] in text}
        return {name: known[name] for name in known if name in named}


def opened(name: str) -> LoadedModel | None:
    """What the hub or the user's own folders say of a name; None for a name of the catalogue, which any process
    opens by itself. Raises UnknownModelError, HubError and their kin."""
    return opener({})(name) if _asks_outside(name) else None


V = TypeVar("V")


class _Kept(Generic[V]):
    """The newest ones, bounded in number and in bytes."""

    def __init__(self) -> None:
        self.values: OrderedDict[str, V] = OrderedDict()
        self._sizes: dict[str, int] = {}

    def put(self, name: str, value: V, size_bytes: int) -> None:
        """Keep it; the oldest ones go."""
        self.values[name], self._sizes[name] = value, size_bytes
        while len(self.values) > _MOST_KEPT or sum(self._sizes.values()) > _KEPT_BYTES:
            oldest, _ = self.values.popitem(last=False)
            del self._sizes[oldest]


def upload_id() -> str:
    """A new one, which nobody guesses."""
    return f"upload-{secrets.token_hex(16)}"


def packed(model: LoadedModel) -> bytes:
    """A model for `Shelf.add`. Raises FormatError where it has far more parts than any that is known."""
    found = pickle.dumps(model)
    if len(found) > _MODEL_BYTES:
        raise FormatError(f"a model of {len(found):,} bytes of structure, above {_MODEL_BYTES:,}")
    return found


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
                f"the header goes on past the {plural(len(head), 'byte')} that came",
                hint=f"send more of the file, up to {UPLOAD_BYTES:,} bytes", path="$.gguf",
            )  # fmt: skip
        return head[offset : offset + length]

    header = gguf.read_header(read, size, path="the upload")
    called = plain_name(name or "uploaded-gguf")
    spec = gguf_model(gguf.join_headers([header]), called, source="an uploaded GGUF file")
    return replace(loaded(spec, called), source="upload")


def read_upload(asked: Mapping[str, Any]) -> LoadedModel:
    """The model of a config.json, or of the head of a GGUF file in base64. Raises InputError and FormatError."""
    if asked.get("gguf") is None:
        return read_config(asked["config"], asked.get("name"))
    try:
        head = base64.b64decode(asked["gguf"], validate=True)
    except (binascii.Error, ValueError):
        raise InputError("not base64", path="$.gguf") from None
    return read_gguf(head, asked.get("size_bytes"), asked.get("name"))


def described(loaded: LoadedModel, name: str) -> dict[str, Any]:
    """What `/api/models` says of a model: `inspect` as `cotenant inspect NAME --json`."""
    from cotenant.catalogue import VERSION
    from cotenant.estimation.anatomy import anatomy
    from cotenant.readers.input_hash import input_hash
    from cotenant.report.catalogue_document import inspect_document

    told = inspect_document(anatomy(loaded), catalogue=VERSION, input_hash=input_hash({"model": name}))
    return {"id": name, "name": loaded.spec.name, "inspect": told}


def plain_name(text: str) -> str:
    """A name that is one word anywhere: in a table, a command, a file's name."""
    last = re.split(r"[/\\]", text.strip())[-1]
    last = re.sub(r"\.(json|gguf|safetensors)$", "", last, flags=re.IGNORECASE)
    return re.sub(r"[^A-Za-z0-9._-]+", "-", last).strip("-._")[:80] or "uploaded-model"


def _told(config: dict[str, Any]) -> str:
    name = config.get("_name_or_path")
    return name if isinstance(name, str) else ""
