"""Options as users give them -> settings, traffic and targets, every number held to a sane range."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import isfinite
from typing import Any

from cotenant.domain.engine import AdapterSlots, EngineSettings
from cotenant.domain.workload import Adapter, Arrivals, Lengths, Slo, Traffic
from cotenant.errors import CotenantError, InputError, InputErrors
from cotenant.estimation.elements import CACHE_DTYPES
from cotenant.units import parse_percent, parse_seconds

_TOKENS, _MANY = 2**31, 1_000_000
_SLOWEST = 1e-9  # requests a second: one in thirty years; below that sums lose all meaning
# Engine options that are whole numbers: (smallest, largest) that any engine could mean.
_RANGES = {
    "tensor_parallel_size": (1, 1024),
    "pipeline_parallel_size": (1, 1024),
    "decode_context_parallel_size": (1, 1024),
    "max_model_len": (1, _TOKENS),
    "max_num_seqs": (1, _MANY),
    "max_num_batched_tokens": (1, _TOKENS),
    "kv_cache_memory_bytes": (1, 2**50),
    "block_size": (1, 65536),
    "kv_cache_tokens": (1, _TOKENS),
    "max_input_tokens": (1, _TOKENS),
    "max_graph_batch": (1, _MANY),
    "max_loras": (1, 10_000),
    "max_lora_rank": (1, 1024),
}
_FLAGS = (
    "enforce_eager", "enable_expert_parallel", "enable_prefix_caching", "enable_lora", "language_model_only",
)  # fmt: skip
_LORA_SLOTS, _LORA_RANK = 1, 16  # what `--enable-lora` alone means (vLLM: config/lora.py)
_WORDS = {
    "dtype": ("auto", "bfloat16", "float16", "float32", "bf16", "fp16", "fp32", "half", "float"),
    "kv_cache_dtype": (
        "auto", "bfloat16", "float16", "bf16", "fp16", "fp8", "int8", *CACHE_DTYPES,
    ),
}  # fmt: skip


def engine_settings(options: Mapping[str, Any], adapters: Sequence[Adapter] = ()) -> EngineSettings:
    """The settings that `options` (the engine's own names) ask for. Raises InputErrors with every fault."""
    faults: list[CotenantError] = []
    for name, (low, high) in _RANGES.items():
        if options.get(name) is not None:
            _check_whole(name, options[name], low, high, faults)
    for name, words in _WORDS.items():
        if options.get(name) is not None and options[name] not in words:
            faults.append(_fault(name, options[name], f"one of {', '.join(words)}"))
    faults += [
        _fault(name, options[name], "true or false")
        for name in _FLAGS
        if options.get(name) is not None and not isinstance(options[name], bool)
    ]
    share = options.get("gpu_memory_utilization")
    if share is not None and not (_is_number(share) and 0 < share <= 1):
        faults.append(_fault("gpu_memory_utilization", share, "a fraction above 0 and up to 1, such as 0.9"))
    _raise(faults)
    plain = {name: value for name, value in options.items() if name in EngineSettings.__dataclass_fields__}
    slots = _slots(options, adapters)
    return EngineSettings(**{name: value for name, value in plain.items() if value is not None}, adapters=slots)


def _slots(options: Mapping[str, Any], adapters: Sequence[Adapter]) -> AdapterSlots | None:
    """Room for LoRA where it is switched on, implied by one of its options, or needed by `adapters`."""
    many, rank = options.get("max_loras"), options.get("max_lora_rank")
    if not (options.get("enable_lora") or adapters or many or rank):
        return None
    largest = max((adapter.rank for adapter in adapters), default=0)
    return AdapterSlots(many or len(adapters) or _LORA_SLOTS, rank or largest or _LORA_RANK)


def traffic_from(
    *,
    concurrent: int | None = None,
    requests_per_second: float | None = None,
    context_tokens: Mapping[str, Any] | None = None,
    input_tokens: Mapping[str, Any] | None = None,
    output_tokens: Mapping[str, Any] | None = None,
) -> Traffic | None:
    """The traffic that was described; None where nothing was. Raises InputErrors with every fault."""
    faults: list[CotenantError] = []
    lengths: dict[str, Any] = {
        name: _lengths(name, value, faults)
        for name, value in (
            ("context_tokens", context_tokens), ("input_tokens", input_tokens), ("output_tokens", output_tokens),
        )
        if value is not None and value != {}
    }  # fmt: skip
    if concurrent is not None:
        _check_whole("concurrent", concurrent, 1, _MANY, faults)
    if requests_per_second is not None and not (
        _is_number(requests_per_second) and _SLOWEST <= requests_per_second <= 1e6
    ):
        faults.append(_fault("requests_per_second", requests_per_second, "a number from 0.000000001 to 1,000,000"))
    faults += _shape_faults(concurrent is not None, requests_per_second is not None, lengths)
    _raise(faults)
    if concurrent is None and requests_per_second is None:
        return None
    return Traffic(requests_per_second=requests_per_second, concurrent=concurrent, **lengths)


def arrivals_from(text: str | None) -> Arrivals | None:
    """``poisson``, ``gamma:2`` (deviation of gaps over their mean) or ``on-off:30s/90s`` (mean spells)."""
    kind, _, rest = ("" if text is None else text).strip().partition(":")
    if text is None:
        return None
    if kind == "poisson" and not rest:
        return Arrivals()
    if kind == "gamma" and rest.replace(".", "", 1).isdecimal() and 0.05 <= float(rest) <= 50:
        return Arrivals("gamma", variation=float(rest))
    if kind == "on-off" and rest.count("/") == 1:
        on_s, off_s = (parse_seconds(part.strip()) for part in rest.split("/"))
        if on_s > 0:
            return Arrivals("on-off", on_s=on_s, off_s=off_s)
        raise _fault("arrivals", text, "a spell above zero in which requests come, as in on-off:30s/90s")
    raise _fault("arrivals", text, "poisson, gamma:2 (0.05 to 50) or on-off:30s/90s")


def slo_from(ttft: str | None, tpot: str | None, percentile: float = 95.0) -> Slo | None:
    """Targets such as ``3s`` and ``80ms``; None where there are none."""
    faults: list[CotenantError] = []
    if not (_is_number(percentile) and 1 <= percentile <= 99.99):
        faults.append(_fault("percentile", percentile, "from 1 to 99.99"))
        if _is_number(percentile) and 0 < percentile < 1:
            faults[-1].hint = f"did you mean {percentile * 100:g}? a percentile is out of 100"
    seconds = {name: parse_seconds(text) for name, text in (("ttft", ttft), ("tpot", tpot)) if text is not None}
    faults += [_fault(name, value, "a time above zero") for name, value in seconds.items() if value <= 0]
    _raise(faults)
    return Slo(seconds.get("ttft"), seconds.get("tpot"), percentile) if seconds else None


def overflow_from(text: object) -> float:
    """A probability written ``1%``."""
    share = parse_percent(text)
    if not 0 < share < 1:
        raise _fault("kv_overflow", text, "a percentage between 0% and 100%, such as 1%")
    return share


def adapters_from(entries: Sequence[Adapter | Mapping[str, Any]]) -> tuple[Adapter, ...]:
    """LoRA adapters, each with a name and a rank."""
    if isinstance(entries, (str, bytes)) or not isinstance(entries, Sequence):
        raise _fault("adapters", entries, "a list such as [{name: legal, rank: 16}]")
    return tuple(_adapter(entry) for entry in entries)


def _adapter(entry: Adapter | Mapping[str, Any]) -> Adapter:
    if isinstance(entry, Adapter):
        return entry
    if not isinstance(entry, Mapping):
        raise _fault("an adapter", entry, "a mapping such as {name: legal, rank: 16}")
    unknown = set(entry) - set(Adapter.__dataclass_fields__)
    name, rank = entry.get("name"), entry.get("rank")
    if unknown or not isinstance(name, str) or not name:
        raise _fault("an adapter", dict(entry), "{name: legal, rank: 16}, and a source, share or target_modules")
    faults: list[CotenantError] = []
    _check_whole(f"rank of the adapter {name[:60]!r}", rank, 1, 1024, faults)
    _raise(faults)
    share = entry.get("share")
    share = parse_percent(share) if isinstance(share, str) else share
    if share is not None and not (_is_number(share) and 0 <= share <= 1):
        raise _fault(f"share of the adapter {name[:60]!r}", share, "a percentage such as 20%")
    modules = entry.get("target_modules") or ()
    if not isinstance(modules, (list, tuple)) or not all(isinstance(module, str) for module in modules):
        raise _fault(f"target_modules of the adapter {name[:60]!r}", modules, "a list such as [q_proj, v_proj]")
    source = str(entry.get("source") or "")
    return Adapter(name, int(rank or 0), source=source, share=share, target_modules=tuple(modules))


def _shape_faults(concurrent: bool, rate: bool, lengths: Mapping[str, Lengths]) -> list[CotenantError]:
    """One kind of traffic, with the lengths that belong to it."""
    if concurrent and rate:
        hint = "a rate with lengths, or a number in flight"
        return [InputError("concurrent and requests_per_second contradict each other", hint=hint)]
    if not concurrent and not rate:
        hint = "add concurrent (with context_tokens) or requests_per_second (with input_tokens and output_tokens)"
        return [InputError(f"{' and '.join(lengths)} without traffic", hint=hint)] if lengths else []
    if rate and "context_tokens" in lengths:
        return [InputError("context_tokens goes with concurrent", hint="a rate needs input_tokens, output_tokens")]
    if not lengths:
        needed = "input_tokens and output_tokens" if rate else "context_tokens"
        return [InputError(f"how long are the requests? {needed} are missing", hint="give their p50 and p95")]
    return []


def _lengths(name: str, value: Mapping[str, Any], faults: list[CotenantError]) -> Lengths:
    known = {"p50": "p50", "p95": "p95", "max": "maximum"}
    if not isinstance(value, Mapping):
        faults.append(_fault(name, value, "a mapping such as {p50: 600, p95: 1600}"))
        return Lengths()
    given = {key: number for key, number in value.items() if number is not None}
    faults += [_fault(name, key, "p50, p95 or max") for key in given if key not in known]
    for key, number in given.items():
        _check_whole(f"{key} of {name}", number, 1, _TOKENS, faults)
    if not faults:
        for lower, upper in pairwise(key for key in known if key in given):
            if given[upper] < given[lower]:
                faults.append(InputError(f"{name}: {upper} {given[upper]:,} is below {lower} {given[lower]:,}"))
        if "p50" not in given and "p95" not in given:
            faults.append(InputError(f"{name} needs p50, p95 or both", hint="{p50: 600, p95: 1600}"))
    return Lengths(**{known[key]: number for key, number in given.items() if key in known})


def _is_number(value: object) -> bool:
    """Whether `value` is a finite number; callers from Python may have passed anything."""
    if isinstance(value, int) and abs(value) >= 10**30:  # more than a float may hold
        return False
    return isinstance(value, (int, float)) and not isinstance(value, bool) and isfinite(value)


def _check_whole(name: str, value: object, low: int, high: int, faults: list[CotenantError]) -> None:
    if not (isinstance(value, int) and not isinstance(value, bool) and low <= value <= high):
        faults.append(_fault(name, value, f"a whole number from {low:,} to {high:,}"))


def _fault(name: str, value: object, wanted: str) -> InputError:
    shown = "a huge number" if isinstance(value, int) and abs(value) >= 10**30 else repr(value)[:60]
    return InputError(f"{name} must be {wanted}, not {shown}")


def _raise(faults: list[CotenantError]) -> None:
    if faults:
        raise InputErrors(faults)
