"""Is every figure that engines printed read back to its last digit? `python -m bench.explain --gpu-records F ...`.

Each record's `raw` lines are read as a log by the reader of `cotenant explain`, and every measured field that is
not null is compared with what was read, to the digits of the record. A random fifth of the records (by id) is
counted apart: it was not looked at while the reader was written. Exit status 1 where a figure was read wrongly.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cotenant.domain.measurement import COUNT_FIGURES, GIB_FIGURES, Measurement
from cotenant.errors import CotenantError
from cotenant.readers.logs import read_log
from cotenant.report.explain_document import measurement_document

Row = Mapping[str, Any]
_LLAMA_FIELDS = (
    "model_buffer_mib", "kv_buffer_mib", "kv_total_mib", "kv_full_mib", "kv_swa_mib", "kv_indexer_mib",
    "kv_caches", "rs_buffer_mib",
    "rs_total_mib", "compute_buffer_mib", "output_buffer_mib", "draft", "mmproj", "breakdown", "fit",
    "ollama_estimate", "ollama_total_mib", "device_used_mib_nvidia_smi",
)  # fmt: skip
_UNITS = {"GiB": 1.0, "MiB": 2.0**-10, "KiB": 2.0**-20, "B": 2.0**-30}


@dataclass(frozen=True, slots=True)
class Checked:
    """One field of one record. `reason` is "" where it was read as it was printed."""

    record: str
    field: str
    wanted: Any
    read: Any
    reason: str
    held_out: bool


def check_gpu(row: Row) -> Iterator[Checked]:
    """The fields of a record of vLLM, SGLang, TGI or TensorRT-LLM."""
    fields = [name for name in (*GIB_FIGURES, *COUNT_FIGURES) if row.get(name) is not None]
    found = _read(row)
    document = measurement_document(found) if found is not None else {}
    for name in fields:
        value = document.get(name)
        reason = "" if _same(value, row[name]) else _reason(row, name, value)
        yield Checked(row["id"], name, row[name], value, reason, held_out(row))


def check_llama(row: Row) -> Iterator[Checked]:
    """The fields of a record of llama.cpp or Ollama: one each, whatever stands in it."""
    measured = row["measured"]
    found = _read(row)
    document = measurement_document(found).get("measured", {}) if found is not None else {}
    for name in _LLAMA_FIELDS:
        if measured.get(name) is None:
            continue
        value = document.get(name)
        reason = "" if _alike(value, measured[name]) else _reason(row, name, value)
        yield Checked(row["id"], name, measured[name], value, reason, held_out(row))


def _read(row: Row) -> Measurement | None:
    try:
        found = read_log(["\n".join(row.get("raw") or ()).encode()]).measurements
    except CotenantError:
        return None
    return next((one for one in found if one.model and _is_of(row, one.model)), found[0])


def _is_of(row: Row, name: str) -> bool:
    """Whether a run's name is the record's model: a table may hold several."""
    model = row["model"]
    told = model["name"] if isinstance(model, Mapping) else model
    return name.casefold() in str(told).casefold()


def held_out(row: Row) -> bool:
    """A random fifth, by id."""
    return hashlib.sha256(row["id"].encode()).digest()[0] % 5 == 0


def _same(value: Any, wanted: float) -> bool:
    """Equal to the digits of the record."""
    if value is None:
        return False
    digits = len(str(wanted).partition(".")[2])
    return bool(abs(float(value) - float(wanted)) <= 0.5 * 10.0**-digits + 1e-9)


def _alike(value: Any, wanted: Any) -> bool:
    """The same in every part; what the record leaves null counts for nothing, and so does a part that only says
    where the record's author put it."""
    if wanted is None:
        return True
    if isinstance(wanted, Mapping):
        if not isinstance(value, Mapping):
            return False
        named = {_plain(key): part for key, part in value.items()}
        return all(_alike(named.get(_plain(key)), part) for key, part in wanted.items())
    if isinstance(wanted, list):
        return isinstance(value, list) and len(value) == len(wanted) and all(map(_alike, value, wanted))
    if isinstance(wanted, str):
        return _text(value, wanted)
    return isinstance(value, (int, float)) and abs(value - wanted) <= 0.006


def _plain(key: str) -> str:
    return str(key).replace(".", "_").removesuffix("_gib")


def _text(value: Any, wanted: str) -> bool:
    """Words, or one of Ollama's sizes ("450.0 MiB", "[63.8 GiB]")."""
    if isinstance(value, str):
        return value.replace(" ", "") == wanted.replace(" ", "")
    number, _, unit = wanted.strip("[]").partition(" ")
    unit = unit.split(" ")[0]
    if not isinstance(value, (int, float)) or unit not in _UNITS:
        return False
    return abs(value - float(number) * _UNITS[unit]) <= 0.051 * _UNITS[unit]


def _reason(row: Row, name: str, value: Any) -> str:
    """Why it was not read: the record's own words, told by their shape."""
    lines = list(row.get("raw") or ())
    if value is not None:
        return "read otherwise"
    wanted = row["measured"].get(name) if "measured" in row else row[name]
    if not isinstance(wanted, (Mapping, list)) and not _stands_in(lines, wanted):
        return "the record's lines do not hold it"
    if any("REPORTED" in line for line in lines):
        return "the author's summary, not a line that the engine prints"
    if any(line.lstrip().startswith("|") for line in lines):
        return "a table in the post, not a line that the engine prints"
    return "a sentence of the post, not a line that the engine prints"


def _stands_in(lines: Sequence[str], wanted: float) -> bool:
    """Whether the digits stand in any of the lines."""
    text = "\n".join(lines).replace(",", "")
    return any(digits in text for digits in (str(wanted), f"{wanted:g}", f"{wanted:.2f}"))


def report(checked: Sequence[Checked]) -> dict[str, Any]:
    """Counts and misses."""
    misses = [one for one in checked if one.reason]
    return {
        "fields": len(checked),
        "equal": len(checked) - len(misses),
        "misread": sum(one.reason == "read otherwise" for one in misses),
        "misses": [
            {"id": one.record, "field": one.field, "wanted": one.wanted, "read": one.read, "reason": one.reason}
            for one in misses
        ],
    }


def _rows(paths: Sequence[Path]) -> list[Row]:
    return [json.loads(line) for path in paths for line in path.read_text("utf-8").splitlines() if line.strip()]


def checked_fields(gpu_records: Sequence[Path], llama_records: Sequence[Path]) -> list[Checked]:
    """Every measured field of the records' files."""
    checked = [one for row in _rows(gpu_records) for one in check_gpu(row)]
    return checked + [one for row in _rows(llama_records) for one in check_llama(row)]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpu-records", type=Path, nargs="*", default=[])
    parser.add_argument("--llama-records", type=Path, nargs="*", default=[])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(argv)
    checked = checked_fields(options.gpu_records, options.llama_records)
    parts = {
        "records that were looked at": report([one for one in checked if not one.held_out]),
        "the fifth kept apart": report([one for one in checked if one.held_out]),
    }
    if options.json:
        json.dump(parts, sys.stdout, indent=1)
        print()
    else:
        for title, part in parts.items():
            _show(title, part)
    return int(any(part["misread"] for part in parts.values()))


def _show(title: str, part: Mapping[str, Any]) -> None:
    share = part["equal"] / part["fields"] if part["fields"] else 1.0
    counts = f"{part['equal']} of {part['fields']} fields equal ({share:.1%})"
    print(f"{title}: {counts}, {part['misread']} read otherwise")
    for miss in part["misses"]:
        figures = f"{str(miss['wanted'])[:40]:>12}  {str(miss['read'])[:40]:>10}"
        print(f"  {miss['id']:22}{miss['field']:36}{figures}  {miss['reason']}")


if __name__ == "__main__":
    sys.exit(main())
