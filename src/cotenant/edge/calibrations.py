"""Calibrations that the user's own measurements make: one JSON file each in `calibrations/` of the data folder.

A file holds every measurement, so that each new one fits the factors anew. Two writers take turns; a damaged file
is set aside and named, and nothing else is lost.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cotenant.domain.calibration import CalibrationProfile, Factor
from cotenant.edge.store import data_dir, read_json, update_json
from cotenant.errors import FormatError, InputError
from cotenant.estimation.calibrated import InForce, calibrations

if TYPE_CHECKING:  # an estimate without measurements needs none of it
    from cotenant.domain.explanation import Explanation

SCHEMA = "cotenant/calibration/1"
_MOST = 200  # measurements that a file keeps: the newest
_SETTLED_NS = 2 * 10**9  # a folder's time is no finer than a clock's tick: what has just changed is read once more
_READ: dict[str, tuple[int, tuple[CalibrationProfile, ...]]] = {}
_NAMES = ("engine", "version", "gpu", "family")


def calibrations_dir() -> Path:
    """``$XDG_DATA_HOME/cotenant/calibrations``. The folder need not exist."""
    return data_dir() / "calibrations"


def keep(
    pairs: Mapping[str, tuple[float, float]], *, engine: str, version: str, gpu: str, family: str, source: str
) -> CalibrationProfile:
    """Add one measurement, (measured, estimated) by term, and fit anew. `source` says what was measured; the same
    again replaces itself. Raises InputError for what is no measurement, FormatError for a damaged file."""
    from cotenant.verification.fit import profile

    profile({name: [pair] for name, pair in pairs.items()}, engine=engine, version=version, gpu=gpu, family=family,
            provenance=source)  # fmt: skip
    told = {"engine": engine, "version": version, "gpu": gpu, "family": family}
    path = calibrations_dir() / _file_name(told)

    def add(found: Any) -> dict[str, Any]:
        before = _measurements(found, path) if found is not None else []
        others = [one for one in before if one["source"] != source]
        entry = {"source": source, "pairs": {name: list(pair) for name, pair in sorted(pairs.items())}}
        kept = [*others, entry][-_MOST:]
        return {"schema": SCHEMA, **told, "fit": _fit(kept), "measurements": kept}

    return _profile(update_json(path, add), path)


def keep_explanation(found: Explanation) -> CalibrationProfile | None:
    """What a log printed beside what was estimated for it; None where one of both is missing."""
    expected = found.predicted
    if expected is None or not found.shares:
        return None
    share = max(found.shares, key=lambda one: one.best_known)
    pairs = {
        name: (float(pair.printed_bytes), float(pair.predicted.value))
        for name, pair in share.terms.items()
        if pair.printed_bytes and pair.predicted is not None and pair.predicted.value
    }
    if not pairs:
        return None
    return keep(
        pairs, engine=expected.engine, version=expected.engine_version, gpu=expected.gpu.name,
        family=expected.model.family, source=f"log {found.input_hash[:16]}",
    )  # fmt: skip


def saved_calibrations() -> tuple[CalibrationProfile, ...]:
    """All of them. Raises FormatError naming the first damaged file, which was set aside.

    They are read again when a file comes, goes or is replaced, which is what the folder's own time tells.
    """
    folder = calibrations_dir()
    try:
        changed = os.stat(folder).st_mtime_ns
        before = _READ.get(str(folder))
        if before is not None and before[0] == changed:
            return before[1]
        paths = sorted(path for path in folder.iterdir() if path.suffix == ".json" and path.name[0] != ".")
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise InputError(f"cannot read {folder}: {error.strerror or error}", path=str(folder)) from None
    found = tuple(_profile(kept, path) for path in paths if (kept := read_json(path)) is not None)
    if time.time_ns() - changed > _SETTLED_NS:
        _READ[str(folder)] = (changed, found)
    return found


@contextmanager
def in_force(wanted: bool = True) -> Iterator[InForce]:
    """Estimates made inside use what was measured, unless it is not wanted."""
    with calibrations(saved_calibrations() if wanted else ()) as found:
        yield found


def version_of(found: InForce) -> str | None:
    """Names the calibrations that were used, for a document; None where none was."""
    if not found.used:
        return None
    text = json.dumps(
        [[one.provenance, *(f"{f.value}" for f in one.factors.values())] for one in found.used.values()]
    )
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _followed(one: CalibrationProfile) -> list[tuple[str, Factor]]:
    """The factors that estimates follow: weights and KV cache are by rule."""
    return [(name, factor) for name, factor in sorted(one.factors.items()) if name not in ("weights", "kv_cache")]


def notes_of(found: InForce) -> tuple[str, ...]:
    """What a report says of them."""
    return tuple(
        f"calibrated: {', '.join(f'{name} x {one.value:.3g}' for name, one in _followed(each))} "
        f"as measured ({each.provenance}); --no-calibration leaves it out"
        for each in found.used.values()
    )


def _profile(found: Any, path: Path) -> CalibrationProfile:
    from cotenant.verification.fit import profile

    measured = _measurements(found, path)
    pairs = _pairs(measured)
    who = f"{found['engine']} {found['version']} on {found['gpu']}, {found['family'] or 'any family'}"
    many = f"{len(measured)} measurement{'s' if len(measured) > 1 else ''}"
    return profile(
        pairs, engine=found["engine"], version=found["version"], gpu=found["gpu"], family=found["family"],
        provenance=f"{who}, {many}",
    )  # fmt: skip


def _fit(measured: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What was fitted and what it leaves of each measurement, for who reads the file: it is fitted anew on use."""
    from cotenant.verification.fit import factor, residuals

    found: dict[str, Any] = {}
    for name, pairs in _pairs(measured).items():
        one = factor(name, pairs)
        left = [round(each, 5) for each in residuals(pairs, one)]
        found[name] = {"value": one.value, "low": one.low, "high": one.high, "residuals": left}
    return found


def _pairs(measured: Sequence[Mapping[str, Any]]) -> dict[str, list[tuple[float, float]]]:
    found: dict[str, list[tuple[float, float]]] = {}
    for one in measured:
        for name, (value, expected) in one["pairs"].items():
            found.setdefault(name, []).append((value, expected))
    return found


def _measurements(found: Any, path: Path) -> Sequence[dict[str, Any]]:
    """Raises FormatError for a file that is not one of these, without touching it."""
    wrong = FormatError(
        f"{path} is no calibration", hint="remove it, or move it out of the folder", path=str(path)
    )
    if not isinstance(found, Mapping) or found.get("schema") != SCHEMA:
        raise wrong
    if not all(isinstance(found.get(name), str) for name in _NAMES):
        raise wrong
    measured = found.get("measurements")
    if not isinstance(measured, list) or not measured or not all(_is_entry(one) for one in measured):
        raise wrong
    return measured


def _is_entry(one: Any) -> bool:
    return (
        isinstance(one, Mapping)
        and isinstance(one.get("source"), str)
        and isinstance(one.get("pairs"), Mapping)
        and bool(one["pairs"])
        and all(
            isinstance(pair, list) and len(pair) == 2 and all(type(n) in (int, float) and n > 0 for n in pair)
            for pair in one["pairs"].values()
        )
    )


def _file_name(told: Mapping[str, str]) -> str:
    text = "-".join(re.sub(r"[^A-Za-z0-9.]+", "-", told[name]) for name in _NAMES)[:80]
    digest = hashlib.sha256(json.dumps(dict(told), sort_keys=True).encode()).hexdigest()[:8]
    return f"{text.strip('-.')}-{digest}.json"
