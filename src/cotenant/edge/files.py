"""Models on disk: a folder, a config.json, a safetensors or a GGUF file. Only headers and JSON are read."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from cotenant.domain.loaded import LoadedModel
from cotenant.domain.model import ModelSpec
from cotenant.errors import CotenantError, FormatError, InputError, UnknownModelError
from cotenant.readers import gguf, safetensors
from cotenant.readers.foreign import refuse_foreign
from cotenant.readers.gguf_model import gguf_model
from cotenant.readers.json_text import parse_json
from cotenant.readers.model_config import read_model_config
from cotenant.readers.stored_weights import StoredWeights, packed_bits, stored_weights, with_weights
from cotenant.readers.tensors import Read, TensorInfo
from cotenant.readers.weight_files import (
    INDEX_NAME,
    PICKLE_HINT,
    PICKLE_SUFFIXES,
    gguf_files,
    safetensors_files,
    shard_set,
)

MAX_CONFIG_BYTES, MAX_INDEX_BYTES, MAX_ENTRIES = 8 * 2**20, 64 * 2**20, 20_000
_RAW_HINT = "name a folder with config.json, a config.json, a .safetensors or a .gguf file"


def load_path(path: str | Path, *, name: str = "") -> LoadedModel:
    """The model at `path`, named `name` or after the file or folder.

    Raises UnknownModelError when nothing stands there, FormatError when it is no model that can be read safely,
    and whatever the readers refuse; `path` of the error says where.
    """
    found = _existing(Path(path))
    if found.is_dir():
        return _folder(found, name or found.name)
    head = _head(found)
    suffix = found.suffix.lower()
    if suffix == ".gguf" or head.startswith(b"GGUF"):
        return _gguf(found.parent, shard_set(found.name), name or found.stem)
    if suffix == ".safetensors":
        return _beside_config(found, name or found.parent.name)
    if suffix in PICKLE_SUFFIXES or head.startswith((b"PK\x03\x04", b"\x80\x02", b"\x80\x04")):
        raise FormatError(f"{found.name} is a PyTorch pickle", hint=PICKLE_HINT, path=str(found))
    if suffix == ".json":
        return _config_only(found, name or found.parent.name)
    raise FormatError(f"{found.name} is no model file that is understood", hint=_RAW_HINT, path=str(found))


def _existing(path: Path) -> Path:
    """The absolute path, once something stands there. Symlinks keep their own names: in the hub's cache those say
    what the file is, and the file behind them is named after its hash."""
    try:
        absolute = Path(os.path.abspath(path.expanduser()))
        absolute.stat()
    except FileNotFoundError:
        raise UnknownModelError(f"no file or folder {str(path)!r}", hint=_RAW_HINT, path=str(path)) from None
    except (OSError, RuntimeError, ValueError) as error:  # loops, permissions, no home, names with NUL
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"cannot open {str(path)!r}: {reason}", path=str(path)) from None
    return absolute


@contextlib.contextmanager
def _ranged(path: Path) -> Iterator[tuple[Read, int]]:
    """Ranged reads of a regular file: pipes and devices, which never end, are refused before they are opened."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise FormatError(f"{path.name} is not a regular file", path=str(path))
        file = open(path, "rb")  # noqa: SIM115 - closed below
    except OSError as error:
        raise InputError(f"cannot open {path.name}: {error.strerror or error}", path=str(path)) from None
    with file:

        def read(offset: int, length: int) -> bytes:
            try:
                file.seek(offset)
                return file.read(length)
            except OSError as error:
                raise InputError(f"cannot read {path.name}: {error.strerror or error}", path=str(path)) from None

        yield read, status.st_size


def _head(path: Path) -> bytes:
    with _ranged(path) as (read, size):
        return read(0, min(size, 64))


def _read_small(path: Path, limit: int) -> bytes:
    with _ranged(path) as (read, size):
        if size > limit:
            raise FormatError(f"{path.name} has {size:,} bytes, above {limit:,}", path=str(path))
        return read(0, limit)


def _read_config(path: Path) -> Mapping[str, Any]:
    config = parse_json(_read_small(path, MAX_CONFIG_BYTES), what=path.name, path=str(path))
    if not isinstance(config, dict):
        raise FormatError(f"{path.name} is not a JSON object", path=str(path))
    if "weight_map" in config:
        raise FormatError(f"{path.name} is an index of shards", hint="name its folder instead", path=str(path))
    refuse_foreign(config, "a model's config.json", path=str(path))
    return config


def _folder(folder: Path, name: str) -> LoadedModel:
    names = _list(folder)
    if "config.json" in names:
        config = _read_config(folder / "config.json")
        spec = read_model_config(config, name=name, source=str(folder / "config.json"))
        return loaded(_with_files(spec, config, folder, names), str(folder))
    parts = gguf_files(names)
    if parts:
        return _gguf(folder, parts, name)
    if "adapter_config.json" in names:
        hint = "name its base model, and this folder under adapters"
        raise FormatError(f"{folder.name} holds a LoRA adapter, not a model", hint=hint, path=str(folder))
    raise FormatError(
        f"{folder.name} holds neither config.json nor a .gguf file", hint=_RAW_HINT, path=str(folder)
    )


def _list(folder: Path) -> frozenset[str]:
    try:
        with os.scandir(folder) as entries:
            names = frozenset(entry.name for entry in islice(entries, MAX_ENTRIES + 1))
    except OSError as error:
        raise InputError(f"cannot list {folder}: {error.strerror or error}", path=str(folder)) from None
    if len(names) > MAX_ENTRIES:
        raise FormatError(f"{folder.name} holds more than {MAX_ENTRIES:,} files", path=str(folder))
    return names


def _with_files(spec: ModelSpec, config: Mapping[str, Any], folder: Path, names: frozenset[str]) -> ModelSpec:
    """The spec with the exact size of the weights, where the folder holds them as safetensors."""
    if INDEX_NAME in names:
        index = safetensors.read_index(
            _read_small(folder / INDEX_NAME, MAX_INDEX_BYTES), path=str(folder / INDEX_NAME)
        )
        files: tuple[str, ...] = tuple(sorted(set(index.values())))
    else:
        files = safetensors_files(names)
    missing = [file for file in files if file not in names]
    if missing:
        note = f"{len(missing)} of its {len(files)} shards are not in the folder: the size is computed"
        return replace(spec, notes=(*spec.notes, note))
    if not files:
        pickles = any(name.endswith(PICKLE_SUFFIXES) for name in names)
        note = "its weights are pickles, which are never opened: the size is computed"
        return replace(spec, notes=(*spec.notes, note)) if pickles else spec
    return with_weights(spec, _weights(folder, files, config))


def _weights(folder: Path, files: Iterable[str], config: Mapping[str, Any]) -> StoredWeights:
    tensors: list[TensorInfo] = []
    for file in files:
        with _ranged(folder / file) as (read, size):
            tensors += safetensors.read_header(read, size, path=str(folder / file))
    return stored_weights(tensors, packed_bits=packed_bits(config))


def _beside_config(path: Path, name: str) -> LoadedModel:
    """A safetensors file, all of its shards, and the config.json beside it."""
    config_path = path.with_name("config.json")
    if not config_path.is_file():
        hint = "put the model's config.json beside it: a safetensors file does not say how its layers are built"
        raise FormatError(f"{path.name} has no config.json beside it", hint=hint, path=str(path))
    config = _read_config(config_path)
    spec = read_model_config(config, name=name, source=str(config_path))
    return loaded(with_weights(spec, _weights(path.parent, shard_set(path.name), config)), str(path.parent))


def _config_only(path: Path, name: str) -> LoadedModel:
    spec = read_model_config(_read_config(path), name=name, source=str(path))
    return loaded(spec, str(path.parent))


def _gguf(folder: Path, parts: Iterable[str], name: str) -> LoadedModel:
    headers = []
    for part in parts:
        with _ranged(folder / part) as (read, size):
            headers.append(gguf.read_header(read, size, path=str(folder / part)))
    first = str(folder / next(iter(parts)))
    with at_path(first):
        spec = gguf_model(gguf.join_headers(headers), name, source=first)
    return loaded(spec, first)


@contextlib.contextmanager
def at_path(path: str) -> Iterator[None]:
    """Say where, in refusals of readers that do not know it."""
    try:
        yield
    except CotenantError as error:
        error.path = error.path or path
        raise


def loaded(spec: ModelSpec, model_id: str) -> LoadedModel:
    """A model whose own files are the one checkpoint that is known of it."""
    return LoadedModel(
        spec=spec,
        model_id=model_id,
        checkpoints={spec.quantization or spec.dtype: model_id},
        task="embed" if spec.encoder_only else "chat",
        source=spec.source,
    )
