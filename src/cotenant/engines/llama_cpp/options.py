"""llama-server's options as words -> LlamaCppOptions: long names or short ones, as its own help lists them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any

from cotenant.domain.llama_cpp import ALL_LAYERS, LlamaCppOptions
from cotenant.engines.llama_cpp.cache import TYPES
from cotenant.engines.llama_cpp.process import PROGRAMS
from cotenant.errors import CotenantError, InputError, InputErrors
from cotenant.units import parse_bytes

_MANY = 2**31
_ON = {"on": True, "1": True, "true": True, "off": False, "0": False, "false": False, "auto": None}


def whole(low: int, high: int) -> Callable[[object], int]:
    """A reader of whole numbers in a range; ValueError for anything else."""

    def read(value: object) -> int:
        number = int(str(value))
        if not low <= number <= high:
            raise ValueError(f"a whole number from {low:,} to {high:,}")
        return number

    return read


def switch(value: object) -> bool | None:
    """on, off or auto (None)."""
    if isinstance(value, bool):
        return value
    text = str(value).lower()
    if text not in _ON:
        raise ValueError("on, off or auto")
    return _ON[text]


def cache_type(value: object) -> str:
    """A type of ggml that a cache may have."""
    if str(value) not in TYPES:
        raise ValueError(f"one of {', '.join(TYPES)}")
    return str(value)


def _program(value: object) -> str:
    if str(value) not in PROGRAMS:
        raise ValueError(f"one of {', '.join(PROGRAMS)}")
    return str(value)


def _named(value: object) -> str:
    text = str(value).strip()
    if not 0 < len(text) <= 1000:
        raise ValueError("a file or a hub id")
    return text


def _shares(value: object) -> tuple[float, ...]:
    parts = value if isinstance(value, (list, tuple)) else str(value).replace("/", ",").split(",")
    shares = tuple(float(part) for part in parts)
    if not shares or min(shares) < 0 or sum(shares) <= 0 or len(shares) > 16:
        raise ValueError("shares such as 3,1")
    return shares


# How --override-tensor is told to keep all experts with the host, escapes apart.
_ALL_EXPERTS = ("exps", ".ffn_.*_exps.", "ffn_.*_exps", ".*_exps.*", ".*exps.*", "ffn_(up|down|gate)_exps",
                ".ffn_(up|down|gate)_exps.", ".ffn_(gate|up|down)_exps.", "ffn_(gate|up|down)_exps")  # fmt: skip


def _every_expert(value: object) -> int:
    return ALL_LAYERS if switch(value) else 0


def _overridden(value: object) -> int:
    """Layers whose experts stay with the host: the one use of --override-tensor that has a rule."""
    pattern, _, buffer = str(value).rpartition("=")
    if buffer.upper() != "CPU" or pattern.replace("\\", "").strip("^$") not in _ALL_EXPERTS:
        raise ValueError("a pattern of all experts, exps=CPU (n_cpu_moe names the first layers alone)")
    return ALL_LAYERS


# Option -> (field, reader).
WORDS: Mapping[str, tuple[str, Callable[[object], Any]]] = {
    "n_gpu_layers": ("n_gpu_layers", whole(0, 100_000)),
    "ctx_size": ("n_ctx", whole(0, _MANY)),
    "parallel": ("n_parallel", whole(1, 256)),
    "batch_size": ("n_batch", whole(1, _MANY)),
    "ubatch_size": ("n_ubatch", whole(1, _MANY)),
    "flash_attn": ("flash_attn", switch),
    "cache_type_k": ("type_k", cache_type),
    "cache_type_v": ("type_v", cache_type),
    "kv_unified": ("kv_unified", switch),
    "swa_full": ("swa_full", switch),
    "no_kv_offload": ("kv_offload", lambda value: not switch(value)),
    "tensor_split": ("tensor_split", _shares),
    "n_cpu_moe": ("n_cpu_moe", whole(0, ALL_LAYERS)),
    "cpu_moe": ("n_cpu_moe", _every_expert),
    "override_tensor": ("n_cpu_moe", _overridden),
    "mmproj_size": ("mmproj_bytes", parse_bytes),
    "model_draft_size": ("draft_bytes", parse_bytes),
    "spec_type": ("spec_type", _named),
    "model_draft": ("draft_model", _named),
    "draft_max": ("draft_tokens", whole(1, 256)),
    "n_gpu_layers_draft": ("draft.n_gpu_layers", whole(0, 100_000)),
    "ctx_size_draft": ("draft.n_ctx", whole(1, _MANY)),
    "cache_type_k_draft": ("draft.type_k", cache_type),
    "cache_type_v_draft": ("draft.type_v", cache_type),
    "program": ("program", _program),
}
_SHORT = {
    "ngl": "n_gpu_layers", "c": "ctx_size", "np": "parallel", "b": "batch_size", "ub": "ubatch_size",
    "fa": "flash_attn", "ctk": "cache_type_k", "ctv": "cache_type_v", "kvu": "kv_unified", "ts": "tensor_split",
    "nkvo": "no_kv_offload", "ncmoe": "n_cpu_moe", "cmoe": "cpu_moe", "ot": "override_tensor",
    "md": "model_draft", "spec_draft_model": "model_draft", "hfd": "model_draft", "spec_draft_hf": "model_draft",
    "draft": "draft_max", "draft_n": "draft_max", "spec_draft_n_max": "draft_max",
    "ngld": "n_gpu_layers_draft", "gpu_layers_draft": "n_gpu_layers_draft", "spec_draft_ngl": "n_gpu_layers_draft",
    "cd": "ctx_size_draft", "ctkd": "cache_type_k_draft", "spec_draft_type_k": "cache_type_k_draft",
    "ctvd": "cache_type_v_draft", "spec_draft_type_v": "cache_type_v_draft",
}  # fmt: skip


def spelled(word: str, short: Mapping[str, str] = _SHORT) -> str:
    """A word as it stands in the table, long and without dashes."""
    key = word.lstrip("-").replace("-", "_")
    return short.get(key, key)


def options_from(words: Mapping[str, Any]) -> LlamaCppOptions:
    """The options that `words` ask for. Raises InputErrors with every fault and the nearest known word."""
    return read_words(words, WORDS, _SHORT, "llama.cpp")


def read_words(
    words: Mapping[str, Any],
    known: Mapping[str, tuple[str, Callable[[object], Any]]],
    short: Mapping[str, str],
    engine: str,
) -> LlamaCppOptions:
    """Words of one engine, read by its table."""
    faults: list[CotenantError] = []
    found: dict[str, Any] = {}
    for word, value in words.items():
        key = spelled(word, short)
        if key not in known:
            near = get_close_matches(key, known, 1)
            hint = f"did you mean {near[0]}?" if near else f"it knows {', '.join(known)}"
            faults.append(InputError(f"{engine} has no option {word[:60]!r} here", hint=hint))
            continue
        field, read = known[key]
        try:
            found[field] = read(value)
        except ValueError as error:
            said = str(error) if "invalid literal" not in str(error) else "a whole number"
            faults.append(InputError(f"{word} must be {said}, not {str(value)[:60]!r}"))
        except CotenantError as error:
            faults.append(error)
    if faults:
        raise InputErrors(faults)
    told = {field: value for field, value in found.items() if value is not None}
    drafts = {field.removeprefix("draft."): told.pop(field) for field in list(told) if field.startswith("draft.")}
    return LlamaCppOptions(**told, draft=LlamaCppOptions(**drafts) if drafts else None)
