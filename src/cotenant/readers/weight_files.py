"""Which of a folder's or repository's files hold the model's weights, from their names alone."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from cotenant.errors import FormatError

INDEX_NAME = "model.safetensors.index.json"
PICKLE_SUFFIXES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle")
PICKLE_HINT = "convert it to safetensors: a pickle can run any code, so none is ever opened here"

_SHARD = re.compile(r"(?P<base>.+?)-(?P<part>\d{5})-of-(?P<count>\d{5})(?P<suffix>\.safetensors|\.gguf)")
_NOT_THE_MODEL = re.compile(
    r"(^|/)(consolidated|adapter|optimizer|training|mmproj|imatrix)|imatrix", re.IGNORECASE
)
_MIX = re.compile(r"(?:^|[-._/])((?:UD-)?(?:I?Q\d\w*|TQ\d_0|F16|F32|BF16|FP16|MXFP4\w*|NVFP4))$", re.IGNORECASE)


def shard_set(name: str) -> tuple[str, ...]:
    """Every part of the file that `name` is a part of, in order; the name alone when it is no part."""
    match = _SHARD.fullmatch(name)
    if match is None:
        return (name,)
    count = int(match["count"])
    if not 1 <= int(match["part"]) <= count:
        raise FormatError(f"{name!r} is part {int(match['part'])} of {count}")
    return tuple(f"{match['base']}-{part:05d}-of-{count:05d}{match['suffix']}" for part in range(1, count + 1))


def safetensors_files(names: Collection[str]) -> tuple[str, ...]:
    """The model's safetensors files among `names` where no index lists them; () where there are none.

    ``model.safetensors`` first, then a whole set of shards, then the only other file; Mistral's second copy of the
    same weights (``consolidated*``) counts only when it stands alone. Raises FormatError when several could be it.
    """
    found = {name for name in names if name.endswith(".safetensors") and "/" not in name}
    if "model.safetensors" in found:
        return ("model.safetensors",)
    sets = {shard_set(name) for name in found if not _NOT_THE_MODEL.search(name)}
    sets = sets or {shard_set(name) for name in found if name.startswith("consolidated")}
    if not sets:
        return ()
    return _only(sets, set(names), "safetensors")


def gguf_files(names: Collection[str], mix: str = "") -> tuple[str, ...]:
    """The parts of the GGUF file among `names` that holds the model, in the quantisation `mix` (``Q4_K_M``).

    () where there is none. Raises FormatError when several could be it, and names their mixes.
    """
    found = [name for name in names if name.lower().endswith(".gguf") and not _NOT_THE_MODEL.search(name)]
    sets = {shard_set(name) for name in found}
    if mix:
        wanted = {files for files in sets if mix_of(files[0]).lower() == mix.lower()}
        if sets and not wanted:
            raise FormatError(f"no GGUF file in {mix}", hint=f"there are {_mixes(sets)}")
        sets = wanted
    return _only(sets, set(names), "GGUF") if sets else ()


def mix_of(name: str) -> str:
    """The quantisation that a GGUF file's name states (``Q4_K_M``), "" where it states none."""
    match = _SHARD.fullmatch(name)
    found = _MIX.search(match["base"] if match else name.rpartition(".")[0])
    return found.group(1) if found else ""


def _only(sets: Collection[tuple[str, ...]], names: Collection[str], kind: str) -> tuple[str, ...]:
    if len(sets) > 1:
        hint = f"name one: {_mixes(sets)}" if kind == "GGUF" else "name the file itself"
        raise FormatError(f"{len(sets)} {kind} files could be the model: {_some(s[0] for s in sets)}", hint=hint)
    (files,) = sets
    missing = [name for name in files if name not in names]
    if missing:
        raise FormatError(
            f"{len(missing)} of {len(files)} parts are missing: {_some(missing)}", hint="fetch them all"
        )
    return files


def _mixes(sets: Iterable[tuple[str, ...]]) -> str:
    return ", ".join(sorted({mix_of(files[0]) or files[0] for files in sets})[:20])


def _some(names: Iterable[str]) -> str:
    ordered = sorted(names)
    return ", ".join(ordered[:4]) + (", ..." if len(ordered) > 4 else "")
