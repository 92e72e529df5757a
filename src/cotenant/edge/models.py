"""A model from whatever a user names it by: the one place that decides what a name means."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from cotenant.domain.loaded import LoadedModel
from cotenant.domain.model import ModelSpec
from cotenant.errors import HubError, InputError, UnknownModelError

if TYPE_CHECKING:
    from cotenant.catalogue.models import ModelEntry
    from cotenant.edge.own_models import OwnModel

_FILE_SUFFIXES = (".json", ".gguf", ".safetensors", ".bin", ".pt", ".pth")
_LONGEST_NAME = 4096


def open_model(source: object) -> LoadedModel:
    """The model that `source` names.

    A value is itself, a mapping raw figures or a parsed config.json. Text is, in this order: a path (where it
    looks like one or a folder of that name holds a model), a name or alias of the catalogue, a hub id.
    """
    if isinstance(source, LoadedModel):
        return source
    if isinstance(source, ModelSpec):
        return _alone(source, source.name)
    if isinstance(source, Mapping):
        return _from_mapping(source)
    if not isinstance(source, (str, os.PathLike)):
        raise InputError(f"a model is named by text or a mapping, not {type(source).__name__}")
    text = os.fspath(source)
    if not isinstance(text, str) or not 0 < len(text) <= _LONGEST_NAME or "\0" in text:
        raise InputError("a model's name is text of at most 4,096 characters")
    if text.lstrip().startswith("{"):
        from cotenant.readers.yaml_text import read_document

        return open_model(read_document(text, path="the model").value)
    if isinstance(source, str):
        return _by_name(text.strip())
    return _found(os.path.abspath(text))  # a path, whatever it looks like


def open_named(name: str) -> LoadedModel | None:
    """As `open_model` for text that strangers send: a name of the user's own, of the catalogue, or a hub id. None
    where it is none of these. No file is looked for, whatever lies in the working folder."""
    from cotenant.catalogue.models import find_entry
    from cotenant.edge.own_models import find_own_model

    own = find_own_model(name)
    if own is not None:
        return _from_own(own)
    entry = find_entry(name) or _base_of(name)
    if entry is not None:
        return _from_entry(entry, name)
    from cotenant.edge.hub import is_model_id, load_hub

    wanted = name.partition("@")[0].partition(":")[0]
    if "/" not in wanted or not is_model_id(wanted) or wanted.lower().endswith(_FILE_SUFFIXES):
        return None
    return load_hub(name)


def _is_path(text: str) -> bool:
    if (
        text in (".", "..")
        or text.startswith(("/", "./", "../", "~", ".\\"))
        or text.lower().endswith(_FILE_SUFFIXES)
    ):
        return True
    return os.path.isfile(os.path.join(text, "config.json"))  # also false for names that no system takes


def _by_name(name: str) -> LoadedModel:
    from cotenant.edge.own_models import find_own_model

    own = None if _is_path(name) else find_own_model(name)
    return _found(name) if own is None else _from_own(own)


def _found(name: str) -> LoadedModel:
    """On disk, in the catalogue or on the hub."""
    if _is_path(name):
        from cotenant.edge.files import load_path

        return load_path(name)
    from cotenant.catalogue.models import find_entry

    entry = find_entry(name) or _base_of(name)
    if entry is not None:
        return _from_entry(entry, name)
    if "/" in name:
        return _on_hub(name)
    raise _unknown(name)


def _on_hub(name: str) -> LoadedModel:
    """A name that the catalogue lacks may be a slip of one that it has, and the hub says no more than that it is
    not there."""
    from cotenant.edge.hub import load_hub

    try:
        return load_hub(name)
    except HubError as error:
        meant = _meant(name, cutoff=0.85)
        raise type(error)(error.message, hint=meant + error.hint if meant else error.hint) from None


def _base_of(name: str) -> ModelEntry | None:
    """What a published checkpoint was made of, where its recipe is known."""
    from cotenant.catalogue.models import find_entry
    from cotenant.catalogue.recipes import find_recipe

    recipe = find_recipe(name) if "/" in name else None
    return None if recipe is None else find_entry(recipe.base)


def _from_own(own: OwnModel) -> LoadedModel:
    """What the user's row describes or names, under the row's name. Rows never name rows, so none makes a ring."""
    if isinstance(own.model, Mapping):
        found = _from_mapping(own.model)
        path = own.path or own.name
        held = {found.spec.quantization or found.spec.dtype: path}
    else:
        found = _found(str(own.model).strip())
        path = own.path or found.model_id
        held = dict(found.checkpoints)
    spec = replace(found.spec, name=own.name)
    return LoadedModel(spec, path, {**held, **own.checkpoints}, own.task or found.task, "your own catalogue")


def _from_entry(entry: ModelEntry, name: str) -> LoadedModel:
    """The catalogue's structure under the name that was asked for.

    A checkpoint's name means its format. An alias of another name is another model of the same structure, so the
    checkpoints of the entry are not its own.
    """
    from cotenant.catalogue.recipes import find_recipe
    from cotenant.readers.model_config import read_model_config

    held = {model_id.lower(): format_name for format_name, model_id in entry.checkpoints.items()}
    recipe = None if name.lower() == entry.id.lower() else find_recipe(name)
    called = _canonical(entry, name) if recipe is None else name
    config = entry.config
    if recipe is not None:
        config = {**config, "quantization_config": recipe.quantization_config}
    spec = read_model_config(config, name=called, source=entry.config_source, task=entry.task)
    if name.lower() in held:
        spec = replace(spec, quantization=held[name.lower()])
    same = called.rpartition("/")[2].lower() == entry.id.rpartition("/")[2].lower() or name.lower() in held
    return LoadedModel(spec, called, dict(entry.checkpoints) if same else {}, entry.task, "catalogue")


def _canonical(entry: ModelEntry, name: str) -> str:
    """The id as it is written on the hub."""
    known = (entry.id, *entry.aliases, *entry.checkpoints.values())
    return next((word for word in known if word.lower() == name.lower() and "/" in word), entry.id)


def _meant(name: str, cutoff: float) -> str:
    """The catalogue's nearest name as a question; nothing where none is as near as `cutoff`."""
    from cotenant.catalogue.models import all_entries

    words = {
        word.rpartition("/")[2].lower(): word for entry in all_entries() for word in (entry.id, *entry.aliases)
    }
    near = get_close_matches(name.rpartition("/")[2].lower()[:100], list(words), n=1, cutoff=cutoff)
    return f"did you mean {words[near[0]]}? " if near else ""


def _unknown(name: str) -> UnknownModelError:
    return UnknownModelError(
        f"no model {name[:80]!r} in the catalogue",
        hint=_meant(name, cutoff=0.5)
        + "`cotenant models` lists them; a hub id is OWNER/NAME, a path starts with ./",
    )


def _from_mapping(value: Mapping[str, Any]) -> LoadedModel:
    if "architectures" in value or "model_type" in value:
        from cotenant.readers.model_config import read_model_config

        name = value.get("_name_or_path")
        called = name if isinstance(name, str) and name else str(value.get("model_type", "model"))
        return _alone(read_model_config(value, name=called, source="a parsed config.json"), called)
    from cotenant.readers.raw_model import raw_model

    spec = raw_model(value)
    return _alone(spec, spec.name)


def _alone(spec: ModelSpec, model_id: str) -> LoadedModel:
    from cotenant.edge.files import loaded

    return loaded(spec, model_id)
