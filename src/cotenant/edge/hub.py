"""Models on the Hugging Face hub: config.json and the headers of the weights, never a weight.

One request lists a repository's files and its commit, one fetches config.json, one each weights file's header (a
range of it). What a commit held is kept in our own cache, small and for ever true, so a second look costs one
request and an offline one none; files that the hub's own cache already holds are used from there. Decided against
huggingface_hub's get_safetensors_metadata: it reads a whole file into memory where a server ignores ranges, takes
headers as they come, and has no GGUF; and against its downloads: they retry for half a minute and draw bars.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cotenant.domain.loaded import LoadedModel
from cotenant.domain.model import ModelSpec
from cotenant.edge import store
from cotenant.edge.files import MAX_CONFIG_BYTES, MAX_INDEX_BYTES, at_path, load_path, loaded
from cotenant.edge.hub_errors import hub_error, is_offline
from cotenant.edge.hub_files import HubRepository, endpoint
from cotenant.errors import CotenantError, FormatError, HubError
from cotenant.readers import gguf, safetensors
from cotenant.readers.gguf_model import gguf_model
from cotenant.readers.json_text import parse_json
from cotenant.readers.model_config import read_model_config
from cotenant.readers.stored_weights import StoredWeights, packed_bits, stored_weights, with_weights
from cotenant.readers.weight_files import INDEX_NAME, PICKLE_SUFFIXES, gguf_files, safetensors_files

TIMEOUT_S = 10.0
_REQUESTS_AT_ONCE = 8
_ID = re.compile(
    r"(?P<id>(?:[\w-][\w.-]{0,95}/)?[\w-][\w.-]{0,95})(?:@(?P<revision>[\w./-]{1,200}))?(?::(?P<mix>[\w.-]{1,40}))?"
)
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Listing:
    """What a repository holds at one commit: file name -> bytes."""

    model_id: str
    commit: str
    sizes: Mapping[str, int]


def load_hub(model_id: str, *, name: str = "", timeout_s: float = TIMEOUT_S) -> LoadedModel:
    """The model ``owner/name`` on the hub; ``owner/name@revision``; ``owner/name:Q4_K_M`` for one GGUF file of it.

    Raises HubError (gated, missing, rate-limited, offline, out of order: each with its own message),
    FormatError for files that are not what they should be, and whatever the readers refuse.
    """
    match = _ID.fullmatch(model_id)
    if match is None or not is_model_id(match["id"]):
        raise HubError(f"{model_id[:100]!r} cannot be a model's name on the hub", hint="write it as owner/name")
    wanted, mix = match["id"], match["mix"] or ""
    try:
        listing = _list(wanted, match["revision"], timeout_s)
    except Exception as error:
        if not is_offline(error):
            raise _refusal(error, wanted) from error
        found = _from_caches(wanted, match["revision"], name or wanted, mix)
        if found is None:
            raise _refusal(error, wanted) from error
        return found
    return _load(listing, wanted, name or wanted, mix, timeout_s)


def is_model_id(text: str) -> bool:
    """Whether the hub could know a model of this name: ``owner/name``, or ``name`` for the oldest ones."""
    match = _ID.fullmatch(text)
    if match is None or match["id"] != text or ".." in text or "--" in text or text.endswith(".git"):
        return False
    return text.isascii() and not any(part[0] in "-." or part[-1] in "-." for part in text.split("/"))


def _refusal(error: Exception, model_id: str) -> Exception:
    return hub_error(error, model_id) or error


def _list(model_id: str, revision: str | None, timeout_s: float) -> _Listing:
    from huggingface_hub import HfApi, constants, errors

    if constants.HF_HUB_OFFLINE:
        raise errors.OfflineModeIsEnabled("HF_HUB_OFFLINE is set")
    api = HfApi(endpoint=endpoint(), library_name="cotenant")
    try:
        info = api.model_info(model_id, revision=revision, files_metadata=True, timeout=timeout_s)
    except (AttributeError, KeyError, TypeError):  # JSON, but not of a model
        raise HubError(f"the answer about {model_id} is not the hub's", hint="is HF_ENDPOINT right?") from None
    sizes = {sibling.rfilename: int(sibling.size or 0) for sibling in info.siblings or ()}
    called = info.id if is_model_id(info.id) else model_id
    return _Listing(called, info.sha or revision or "main", sizes)


def _load(listing: _Listing, asked: str, name: str, mix: str, timeout_s: float) -> LoadedModel:
    repository = HubRepository(listing.model_id, listing.commit, timeout_s=timeout_s)
    if "config.json" in listing.sizes and not mix:
        config_text = _small_file(repository, listing, "config.json", MAX_CONFIG_BYTES)
        found = loaded(_spec(repository, listing, config_text, name), listing.model_id)
    else:
        found = _gguf(repository, listing, name, mix)
    if listing.model_id.lower() != asked.lower():
        note = f"{asked} is now called {listing.model_id}"
        found = replace(found, spec=replace(found.spec, notes=(*found.spec.notes, note)))
    return found


def _spec(repository: HubRepository, listing: _Listing, config_text: bytes, name: str) -> ModelSpec:
    source = f"{listing.model_id}@{listing.commit[:12]}/config.json"
    config = parse_json(config_text, what="config.json", path=source)
    with at_path(source):
        spec = read_model_config(config, name=name, source=source)
    weights = _weights(repository, listing, config)
    if weights is not None:
        return with_weights(spec, weights)
    if any(file.endswith(PICKLE_SUFFIXES) for file in listing.sizes):
        note = "its weights are pickles, which are never opened: the size is computed"
        return replace(spec, notes=(*spec.notes, note))
    return spec


def _weights(repository: HubRepository, listing: _Listing, config: Mapping[str, Any]) -> StoredWeights | None:
    """The sum of the checkpoint, from our cache or from each shard's header; None without safetensors."""
    path = _cache_folder(listing.model_id, listing.commit) / "weights.json"
    kept = _cached_weights(path)
    if kept is not None:
        return kept
    files = _weight_files(repository, listing)
    if not files:
        return None
    with ThreadPoolExecutor(_REQUESTS_AT_ONCE) as pool:
        headers = list(pool.map(lambda file: _header(repository, listing, file), files))
    tensors = [tensor for header in headers for tensor in header]
    weights = stored_weights(tensors, packed_bits=packed_bits(config))
    value = {
        "total_bytes": weights.total_bytes,
        "parameters": weights.parameters,
        "by_dtype": dict(weights.by_dtype),
    }
    _keep(path, value)
    return weights


def _weight_files(repository: HubRepository, listing: _Listing) -> tuple[str, ...]:
    if INDEX_NAME not in listing.sizes:
        return safetensors_files(listing.sizes.keys())
    text = _small_file(repository, listing, INDEX_NAME, MAX_INDEX_BYTES)
    files = tuple(sorted(set(safetensors.read_index(text, path=f"{listing.model_id}/{INDEX_NAME}").values())))
    missing = [file for file in files if file not in listing.sizes]
    if missing:
        raise FormatError(f"{listing.model_id} lacks {len(missing)} of its {len(files)} shards: {missing[0]}")
    return files


def _header(repository: HubRepository, listing: _Listing, file: str) -> tuple[Any, ...]:
    size = _size(repository, listing, file)
    return safetensors.read_header(repository.reader(file, size), size, path=f"{listing.model_id}/{file}")


def _gguf(repository: HubRepository, listing: _Listing, name: str, mix: str) -> LoadedModel:
    with at_path(listing.model_id):
        parts = gguf_files(listing.sizes.keys(), mix)
    if not parts:
        what = "no GGUF file" if mix else "neither config.json nor a GGUF file"
        raise FormatError(f"{listing.model_id} holds {what}", hint="is it an adapter, or a data set?")
    headers = []
    for part in parts:
        size = _size(repository, listing, part)
        headers.append(gguf.read_header(repository.reader(part, size), size, path=f"{listing.model_id}/{part}"))
    source = f"{listing.model_id}@{listing.commit[:12]}/{parts[0]}"
    with at_path(source):
        spec = gguf_model(gguf.join_headers(headers), name, source=source)
    return loaded(spec, f"{listing.model_id}:{mix}" if mix else listing.model_id)


def _size(repository: HubRepository, listing: _Listing, file: str) -> int:
    """Bytes of a file; asked for where the listing does not say (some mirrors leave it out)."""
    return listing.sizes[file] or repository.size(file)


def _small_file(repository: HubRepository, listing: _Listing, file: str, limit: int) -> bytes:
    """A whole small file: from the hub's cache, from ours, or fetched and kept in ours."""
    size = _size(repository, listing, file)
    if size > limit:
        raise FormatError(f"{file} has {size:,} bytes, above {limit:,}", path=f"{listing.model_id}/{file}")
    ours = _cache_folder(listing.model_id, listing.commit) / file
    for path in (_in_hub_cache(listing.model_id, file, listing.commit), ours):
        if path is not None and path.is_file() and path.stat().st_size == size:
            return path.read_bytes()
    data = repository.fetch(file, 0, limit)
    _write(ours, data)
    _keep(_ref_path(listing.model_id), {"commit": listing.commit})
    return data


def _in_hub_cache(model_id: str, file: str, revision: str | None) -> Path | None:
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(model_id, file, revision=revision)
    return Path(found) if isinstance(found, str) else None


def _cache_folder(model_id: str, commit: str) -> Path:
    return store.cache_dir() / "hub" / model_id.replace("/", "--") / re.sub(r"[^\w-]", "_", commit)


def _ref_path(model_id: str) -> Path:
    return store.cache_dir() / "hub" / model_id.replace("/", "--") / "latest.json"


def _keep(path: Path, value: Any) -> None:
    """Write to our cache; a cache that cannot be written costs time, not the answer."""
    try:
        store.write_json(path, value)
    except CotenantError as error:
        _LOG.debug("not cached: %s", error.message)


def _write(path: Path, data: bytes) -> None:
    try:
        store.write_atomic(path, data)
    except CotenantError as error:
        _LOG.debug("not cached: %s", error.message)


def _cached(path: Path) -> Any:
    """A value from our cache; a damaged one has been set aside and counts as absent."""
    try:
        return store.read_json(path)
    except CotenantError as error:
        _LOG.warning("%s (%s)", error.message, error.hint)
        return None


def _cached_weights(path: Path) -> StoredWeights | None:
    value = _cached(path)
    if not isinstance(value, dict):
        return None
    total, parameters, by_dtype = (value.get(key) for key in ("total_bytes", "parameters", "by_dtype"))
    if type(total) is not int or type(parameters) is not int or not isinstance(by_dtype, dict):
        return None
    return StoredWeights(total, parameters, by_dtype)


def _from_caches(model_id: str, revision: str | None, name: str, mix: str) -> LoadedModel | None:
    """The model without the net: a snapshot in the hub's cache, else what we kept of its last commit."""
    snapshot = _in_hub_cache(model_id, "config.json", revision)
    if snapshot is not None and not mix:
        return replace(load_path(snapshot.parent, name=name), model_id=model_id)
    latest = _cached(_ref_path(model_id))
    commit = revision or (latest.get("commit") if isinstance(latest, dict) else None)
    if not isinstance(commit, str) or mix:
        return None
    folder = _cache_folder(model_id, commit)
    if not (folder / "config.json").is_file():
        return None
    spec = load_path(folder / "config.json", name=name).spec
    weights = _cached_weights(folder / "weights.json")
    note = f"the hub was not asked: this is what {model_id} was at {commit[:12]}"
    spec = replace(spec if weights is None else with_weights(spec, weights), notes=(*spec.notes, note))
    return loaded(spec, model_id)
