"""The catalogue of models: one JSON file each under `models/`, opened when asked for.

A file is named by the hub id with its slash written ``--``, so that a model asked for by its id costs one read.
Entries are checked strictly by the tests, not at every start.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any


@dataclass(frozen=True, slots=True)
class Published:
    """A model's parameter total as someone published it: `what` says what it counts, `source` where it stands.

    `parameters` equals the true total when `exact`, else it is as `as_printed` rounds it.
    """

    parameters: int
    as_printed: str
    exact: bool
    source: str
    what: str


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """One model: its hub id, other names of the same structure, its config.json and what is published of it.

    `checkpoints` maps a format's name to a hub id that is known to hold it, `checkpoint_sources` to where that
    is said. `defaulted` names config keys that come from the family's class defaults.
    """

    id: str
    aliases: tuple[str, ...]
    config: Mapping[str, Any]
    config_source: str
    defaulted: tuple[str, ...]
    published: Published
    checkpoints: Mapping[str, str]
    checkpoint_sources: Mapping[str, str]
    license: str | None
    task: str


def find_entry(name: str) -> ModelEntry | None:
    """The entry whose id, alias or known checkpoint's id is `name` (case does not matter), or None.

    A name without its owner (``Llama-3.1-8B-Instruct``) is found where one entry alone answers to it.
    """
    wanted = name.strip().lower()
    if not wanted or len(wanted) > 200:
        return None
    direct = _names().get(wanted.replace("/", "--"))
    if direct is not None:
        return _read(direct)
    return _by_alias(wanted) or _by_short_name(wanted)


def all_entries() -> tuple[ModelEntry, ...]:
    """Every entry, ordered by id."""
    return tuple(_read(file) for _, file in sorted(_names().items()))


def _folder() -> Traversable:
    return files("cotenant.catalogue").joinpath("models")


@cache
def _names() -> dict[str, str]:
    """File names by the lower-case id that they spell."""
    names = (file.name for file in _folder().iterdir() if file.name.endswith(".json"))
    return {name.removesuffix(".json").lower(): name for name in names}


@cache
def _texts() -> dict[str, bytes]:
    """The bytes of every file, in lower case: searched for an alias, parsed only on a hit."""
    folder = _folder()
    return {name: folder.joinpath(name).read_bytes().lower() for name in _names().values()}


def _by_alias(wanted: str) -> ModelEntry | None:
    quoted = json.dumps(wanted).encode()
    for name, text in _texts().items():
        if quoted in text:
            entry = _read(name)
            if wanted in (known.lower() for known in (*entry.aliases, *entry.checkpoints.values())):
                return entry
    return None


def _by_short_name(wanted: str) -> ModelEntry | None:
    if "/" in wanted:
        return None
    hits = [name for spelled, name in _names().items() if spelled.partition("--")[2] == wanted]
    quoted = f"/{json.dumps(wanted)[1:]}".encode()
    hits = hits or [
        name for name, text in _texts().items()
        if quoted in text and any(known.lower().endswith(f"/{wanted}") for known in _read(name).aliases)
    ]  # fmt: skip
    return _read(hits[0]) if len(hits) == 1 else None


@cache
def _read(name: str) -> ModelEntry:
    raw = json.loads(_folder().joinpath(name).read_text(encoding="utf-8"))
    published, checkpoints = raw["published"], raw["checkpoints"]
    return ModelEntry(
        id=raw["id"],
        aliases=tuple(raw["aliases"]),
        config=raw["config"],
        config_source=raw["config_source"],
        defaulted=tuple(raw["defaulted"]),
        published=Published(
            published["parameters"], published["as_printed"], published["exact"], published["source"],
            published["what"],
        ),
        checkpoints={format_name: found["id"] for format_name, found in checkpoints.items()},
        checkpoint_sources={format_name: found["source"] for format_name, found in checkpoints.items()},
        license=raw["license"],
        task=raw["task"],
    )  # fmt: skip
