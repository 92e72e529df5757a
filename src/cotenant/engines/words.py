"""Launch options in an engine's own words -> the common settings that they mean: `max_total_tokens` is the longest
sequence to TGI and a cap of the pool to SGLang."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from cotenant.errors import CotenantError, InputError, InputErrors

Words = Mapping[str, str]
"""An engine's word -> the field of `EngineSettings` (or `quantization`, `max_loras`, `max_lora_rank`)."""


def word_for(words: Words, field: str) -> str:
    """What the engine calls a common setting; the common name where it has none."""
    return next((word for word, meant in words.items() if meant == field), field)


_SWITCHES = ("enforce_eager", "enable_expert_parallel")
_LISTS = ("max_loras",)  # told as a list of adapters: how many
_TEXTS = ("dtype", "kv_cache_dtype", "quantization")


def common_options(engine: str, words: Words, told: Mapping[str, Any]) -> dict[str, Any]:
    """The common options that `told` means. Raises InputErrors with every word that the engine does not know or
    that has no such value."""
    faults: list[CotenantError] = []
    found: dict[str, Any] = {}
    for word, value in told.items():
        key = word.lstrip("-").replace("-", "_").lower()
        field = words.get(key)
        if field is None:
            near = get_close_matches(key, words, 1)
            hint = f"did you mean {near[0]}?" if near else f"it knows {', '.join(words)}"
            faults.append(InputError(f"{engine} has no option {word[:60]!r} here", hint=hint))
            continue
        try:
            found[field] = _read(field, value)
        except ValueError:
            faults.append(InputError(f"{word} must be a number, not {str(value)[:60]!r}"))
    if faults:
        raise InputErrors(faults)
    return found


def listed_adapters(words: Words, told: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """(name, source) of each adapter that an option lists: ``legal=org/legal,org/med``; none where a number says
    how many."""
    found: list[tuple[str, str]] = []
    for word, value in told.items():
        listed = words.get(str(word).lstrip("-").replace("-", "_").lower()) in _LISTS
        if listed and isinstance(value, str) and not value.strip().isdigit():
            parts = [part.strip() for part in value.split(",") if part.strip()]
            found += [
                (name.strip(), source.strip()) for name, _, source in (part.partition("=") for part in parts)
            ]
    return tuple(found)


def _read(field: str, value: object) -> object:
    """Text of the command line as the type of its field; other types are held to their range later."""
    if not isinstance(value, str):
        return value
    text = value.strip()
    if field in _SWITCHES:
        return text.lower() in ("true", "1", "on")
    if field in _TEXTS:
        return text
    if field in _LISTS and not text.isdigit():
        return len([part for part in text.split(",") if part.strip()])
    return float(text) if field == "gpu_memory_utilization" else int(text)
