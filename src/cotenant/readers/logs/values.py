"""One line read: its figures in the units of their names, facts, and settings as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite

from cotenant.domain.measurement import Setting
from cotenant.engines.logs import LogLine

_GIB = {"b": 2.0**-30, "bytes": 2.0**-30, "kib": 2.0**-20, "kb": 2.0**-20, "mib": 2.0**-10, "mb": 2.0**-10,
        "gib": 1.0, "gb": 1.0, "tib": 1024.0, "tb": 1024.0}  # fmt: skip
FACTS = ("engine_version", "model", "gpu")
_LABELS = (
    "device",
    "draft",
    "mmproj",
    "kv_kind",
    "type_k",
    "type_v",
    "type_c",
    "seqs",
    "oom_device",
    "fallback",
    "file_type",
)
_SETTINGS = (
    "gpu_memory_utilization", "block_size", "max_num_batched_tokens", "max_num_seqs", "max_model_len",
    "max_input_tokens", "max_total_tokens", "tensor_parallel_size", "decode_context_parallel_size", "n_parallel",
)  # fmt: skip
_WORDS_OF_LINES = ("kv_cache_dtype", "draft_model")
_LARGEST = 1e18
_BEFORE, _AFTER = 600, 1400  # characters around a needle


@dataclass(frozen=True, slots=True)
class Value:
    """A figure and its digits."""

    value: float
    text: str


@dataclass(frozen=True, slots=True)
class LineValues:
    """What one line gave."""

    figures: Mapping[str, Value]
    facts: Mapping[str, str]
    settings: Mapping[str, Setting]
    labels: Mapping[str, str]


def read_line(line: LogLine, text: str) -> LineValues | None:
    """The values of `text`, in which the needle stands; None when it is another kind of line after all."""
    match = line.regex.search(_near(line, text)) if line.pattern else None
    if line.pattern and match is None and not (line.keys or line.flags):
        return None
    groups = {name: found for name, found in (match.groupdict() if match else {}).items() if found is not None}
    labels = {name: groups[name].strip() for name in _LABELS if name in groups}
    facts = {name: groups[name] for name in FACTS if name in groups}
    figures, settings = _figures(groups), _settings(line, text)
    settings |= {name: setting(figures.pop(name).text) for name in _SETTINGS if name in figures}
    settings |= {name: setting(groups[name]) for name in _WORDS_OF_LINES if name in groups}
    if "model" in settings:
        facts.setdefault("model", str(settings.pop("model")))
    return LineValues(figures, facts, settings, labels | _section(labels))


def _near(line: LogLine, text: str) -> str:
    """What stands around the needle: an engine's figures do, and expressions over a hostile line of any length
    would take time that grows faster than the line."""
    if len(text) <= _BEFORE + _AFTER:
        return text
    place = text.find(line.needle)
    return text[max(0, place - _BEFORE) : place + _AFTER]


def _settings(line: LogLine, text: str) -> dict[str, Setting]:
    found: dict[str, Setting] = {}
    for ours, expression in line.setting_regexes:
        match = expression.search(text)
        if match is not None:
            word = next(group for group in match.groups() if group is not None)
            if word not in ("None", "null", "") and not word.endswith(":"):  # the next word of a list
                found.setdefault(ours, setting(word))
    return found


def _section(labels: Mapping[str, str]) -> dict[str, str]:
    if "draft" in labels or "mmproj" in labels:
        return {"section": "draft" if "draft" in labels else "mmproj"}
    kind = {"non-SWA": "full", "SWA": "swa", "indexer": "indexer"}.get(labels.get("kv_kind", ""))
    return {"section": kind} if kind else {}


def _figures(groups: Mapping[str, str]) -> dict[str, Value]:
    figures: dict[str, Value] = {}
    for name, text in groups.items():
        if name in FACTS or name in _LABELS or name.endswith("_unit"):
            continue
        value = _number(text)
        if value is None:
            continue
        unit = groups.get(f"{name}_unit", "").lower()
        plain = name.removesuffix("_old").removesuffix("_2").removesuffix("_last")
        if unit and not plain.endswith(("_gib", "_mib")):
            plain += "_gib"
        factor = _GIB.get(unit, 1.0) * (1024 if unit and plain.endswith("_mib") else 1)
        figures.setdefault(plain, Value(value * factor, text))
    return figures


def _number(text: str) -> float | None:
    try:
        value = float(text.replace(",", "").replace("−", "-"))
    except ValueError:
        return None
    return value if isfinite(value) and abs(value) < _LARGEST else None


_WORDS = {"true": True, "false": False}


def setting(text: str) -> Setting:
    """A setting as a value: whole number, fraction, true or false, else the word (torch.bfloat16 -> bfloat16)."""
    word = text.strip().removeprefix("torch.").rstrip(",.")
    if word.lower() in _WORDS:
        return _WORDS[word.lower()]
    number = _number(word) if word[:1] in "-.0123456789" and len(word) < 40 else None
    if number is None:
        return word
    return int(number) if number == int(number) and "." not in word else number
