"""The `models:` of a fleet file -> `ModelRequest`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

from cotenant.catalogue.quantization import find_format
from cotenant.catalogue.strict import nearest
from cotenant.domain.engine import EngineSettings, Speculation
from cotenant.domain.fleet import ModelRequest
from cotenant.domain.loaded import LoadedModel
from cotenant.domain.model import ModelSpec
from cotenant.domain.workload import SILENT, TASKS, Adapter, Arrivals, Lengths, Slo, Trace, Traffic
from cotenant.engines import find_engine
from cotenant.engines.speculative import read_speculative, refuse_elsewhere
from cotenant.errors import CotenantError, InputError
from cotenant.readers.draft_model import open_speculation
from cotenant.readers.fleet_checks import engine_faults, placed, repeated
from cotenant.readers.fleet_faults import MissingError
from cotenant.readers.fleet_schema import GapsEntry, LengthsEntry, ModelEntry, SloEntry, TrafficEntry

_KV_DTYPES = ("auto", "bf16", "fp16", "fp8", "fp8_e4m3", "fp8_e5m2", "int8", "q8_0", "q4_0")
_DEFAULT_LOSS_PERCENT = 1.0


def requests(
    entries: Sequence[ModelEntry | None],
    engine: str,
    load_model: Callable[[object], LoadedModel],
    load_trace: Callable[[str], Trace],
    faults: list[CotenantError],
) -> list[ModelRequest]:
    """One request an entry; what is wrong goes into `faults`, and then the list is not complete."""
    loaded: dict[str, LoadedModel] = {}
    found: list[ModelRequest] = []
    for i, entry in enumerate(entries):
        if entry is None:
            continue
        path = f"$.models[{i}]"
        own: list[CotenantError] = []
        key = json.dumps(entry.model, sort_keys=True)
        try:
            loaded[key] = loaded.get(key) or load_model(entry.model)
        except CotenantError as error:
            own.append(placed(error, f"{path}.model"))
        model = loaded.get(key)
        own += _faults(entry, model, engine, path)
        formats = _formats(entry, path, own)
        trace = _trace(entry.traffic, load_trace, f"{path}.traffic.trace", own)
        drafted = None if model is None else _speculation(entry, model, engine, load_model, path, own)
        if model is not None and not own:
            found.append(replace(_request(entry, model, engine, formats, trace), speculation=drafted))
        faults += own
    return found


def _speculation(
    entry: ModelEntry,
    model: LoadedModel,
    engine: str,
    load_model: Callable[[object], LoadedModel],
    path: str,
    faults: list[CotenantError],
) -> Speculation | None:
    """Speculative decoding as vLLM's speculative_config says it, with its draft opened."""
    if not entry.speculative_config:
        return None
    try:
        asked = read_speculative(entry.speculative_config)
        rules, _ = find_engine(entry.engine or engine)
        refuse_elsewhere(rules.name, rules.title, asked, EngineSettings())
        return open_speculation(asked, model.spec, load_model)
    except CotenantError as error:
        faults.append(placed(error, f"{path}.speculative_config"))
        return None


def _trace(
    entry: TrafficEntry, load_trace: Callable[[str], Trace], path: str, faults: list[CotenantError]
) -> Trace | None:
    """The trace that the traffic names, where it names one and it can be read."""
    if entry.trace is None:
        return None
    try:
        trace = load_trace(entry.trace)
    except CotenantError as error:
        faults.append(placed(error, path))
        return None
    if not trace.rated and entry.requests_per_second is None:
        hint = f"{{requests_per_second: 1, trace: {entry.trace}}} takes its lengths"
        lacks = "lasts less than a second, too short for a rate" if trace.timed else "holds lengths without times"
        faults.append(InputError(f"{trace.name} {lacks}", hint=hint, path=path))
    return trace


def _request(
    entry: ModelEntry, model: LoadedModel, engine: str, formats: tuple[str, ...], trace: Trace | None
) -> ModelRequest:
    wishes = zip(formats, entry.quantization or (), strict=True)
    stated = {name: wish.checkpoint for name, wish in wishes if wish.checkpoint}
    loss = entry.quality.max_loss * 100 if entry.quality is not None else _DEFAULT_LOSS_PERCENT
    return ModelRequest(
        name=entry.name,
        model=model.spec,
        model_id=model.model_id,
        checkpoints={**model.checkpoints, **stated},
        engine=_engine(entry.engine or engine),
        task=_task(entry, model),
        traffic=_traffic(entry.traffic, trace),
        slo=_slo(entry.slo),
        formats=formats,
        max_loss_percent=loss,
        kv_cache_dtypes=tuple(entry.kv_cache_dtype or ("auto",)),
        max_num_batched_tokens=entry.max_num_batched_tokens,
        adapters=tuple(
            Adapter(a.name, a.rank, a.source or "", a.share, tuple(a.target_modules)) for a in entry.adapters
        ),
        priority=entry.priority,
        min_replicas=entry.replicas.min,
        max_replicas=entry.replicas.max,
        sharing=tuple(entry.sharing or ("co-resident", "alone")),
        pin_gpus=tuple(entry.pin.gpus) if entry.pin is not None else (),
        apart_from=tuple(entry.apart_from),
        spread=entry.spread == "node",
    )


def _engine(text: str) -> str:
    """The engine's id in place of an alias, the version as written; an unknown one is a fault already."""
    try:
        name = find_engine(text)[0].name
    except CotenantError:
        return text
    _, at, version = text.partition("@")
    return name + at + version.strip()


def _task(entry: ModelEntry, model: LoadedModel) -> str:
    return entry.task or model.task or ("embed" if model.spec.encoder_only else "chat")


def _traffic(entry: TrafficEntry, trace: Trace | None) -> Traffic:
    if entry.requests_per_second is not None and trace is not None:
        given, written = (
            Lengths.of(tuple(sorted(Counter(tokens).items())))
            for tokens in (trace.input_tokens, [max(1, count) for count in trace.output_tokens])
        )
        return replace(_traffic(entry, None), input_tokens=given, output_tokens=written)
    return Traffic(
        trace=trace,
        requests_per_second=entry.requests_per_second,
        input_tokens=_lengths(entry.input_tokens),
        output_tokens=_lengths(entry.output_tokens),
        concurrent=entry.concurrent,
        context_tokens=_lengths(entry.context_tokens),
        by_hour=tuple(entry.by_hour or ()),
        timezone=entry.timezone,
        arrivals=_arrivals(entry.arrivals),
    )


def _arrivals(entry: GapsEntry) -> Arrivals:
    if entry == GapsEntry():
        return Arrivals()
    if entry.gamma is not None:
        return Arrivals("gamma", variation=entry.gamma)
    return Arrivals("on-off", on_s=entry.on or 1.0, off_s=entry.off or 0.0)


def _lengths(entry: LengthsEntry | None) -> Lengths | None:
    if entry is None:
        return None
    if not entry.histogram:
        return Lengths(entry.p50, entry.p95, entry.max)
    return Lengths.of(entry.histogram, entry.max)


def _slo(entry: SloEntry | None) -> Slo | None:
    return Slo(entry.ttft, entry.tpot, entry.percentile) if entry is not None else None


def _formats(entry: ModelEntry, path: str, faults: list[CotenantError]) -> tuple[str, ...]:
    """The catalogue's names of the formats that are asked for."""
    names: list[str] = []
    for j, wish in enumerate(entry.quantization or ()):
        try:
            names.append(find_format(wish.format).name)
        except CotenantError as error:
            faults.append(placed(error, f"{path}.quantization[{j}]"))
            names.append(f"?{j}")
    faults += repeated(names, f"{path}.quantization", "the format {!r} stands here twice")
    return tuple(names)


def _faults(entry: ModelEntry, model: LoadedModel | None, engine: str, path: str) -> list[CotenantError]:
    """What is wrong with one model, its name and its model apart."""
    faults: list[CotenantError] = []
    if entry.engine is not None:
        faults += engine_faults(entry.engine, f"{path}.engine")
    if entry.task is not None and entry.task not in TASKS:
        faults.append(_unknown("task", entry.task, TASKS, f"{path}.task"))
    for j, dtype in enumerate(entry.kv_cache_dtype or ()):
        if dtype not in _KV_DTYPES:
            faults.append(_unknown("KV cache type", dtype, _KV_DTYPES, f"{path}.kv_cache_dtype[{j}]"))
    if entry.max_num_batched_tokens is not None and (entry.engine or engine).partition("@")[0] == "ollama":
        faults.append(_in_model_file(f"{path}.max_num_batched_tokens"))
    faults += repeated(entry.kv_cache_dtype or [], f"{path}.kv_cache_dtype", "{!r} stands here twice")
    faults += repeated(entry.sharing or [], f"{path}.sharing", "{!r} stands here twice")
    if entry.replicas.max is not None and entry.replicas.max < entry.replicas.min:
        message = f"max {entry.replicas.max} is below min {entry.replicas.min}"
        faults.append(InputError(message, path=f"{path}.replicas.max"))
    spec, own_task = (None, "") if model is None else (model.spec, model.task)
    answers = (entry.task or own_task) not in SILENT and not (spec is not None and spec.encoder_only)
    faults += _traffic_faults(entry.traffic, answers, spec, f"{path}.traffic")
    faults += _slo_faults(entry.slo, f"{path}.slo")
    return faults + _adapter_faults(entry, f"{path}.adapters")


def _in_model_file(path: str) -> InputError:
    return InputError(
        "Ollama reads num_batch from a model file, not from its command", hint="leave it out", path=path
    )


def _unknown(what: str, word: str, known: Sequence[str], path: str) -> InputError:
    return InputError(f"unknown {what} {word[:60]!r}", hint=nearest(word[:60], known), path=path)


def _traffic_faults(entry: TrafficEntry, answers: bool, spec: ModelSpec | None, path: str) -> list[CotenantError]:
    shapes = {
        "requests_per_second": entry.requests_per_second,
        "concurrent": entry.concurrent,
        "trace": entry.trace,
    }
    given = [name for name, value in shapes.items() if value is not None]
    if given == ["requests_per_second", "trace"]:  # its lengths, at that rate
        given = ["trace"]
    if len(given) != 1:
        hint = f"exactly one of {', '.join(shapes)}"
        if not given:
            return [MissingError("how much traffic is there?", hint=hint, path=path)]
        contradiction = InputError(f"{' and '.join(given)} contradict each other", hint=hint, path=path)
        return [contradiction, *_all_length_faults(entry, spec, path)]
    faults = _by_hour_faults(entry, f"{path}.by_hour") + _arrival_faults(entry, f"{path}.arrivals")
    if given == ["trace"]:
        spare = [
            key for key in ("input_tokens", "output_tokens", "context_tokens") if getattr(entry, key) is not None
        ]
        return faults + [InputError(f"{key} stands in the trace already", path=f"{path}.{key}") for key in spare]
    rate = given == ["requests_per_second"]
    needed = (["input_tokens", "output_tokens"] if answers else ["input_tokens"]) if rate else ["context_tokens"]
    unused = ["context_tokens"] if rate else ["input_tokens", "output_tokens"]
    for key in needed:
        if getattr(entry, key) is None:
            faults.append(
                MissingError(f"{given[0]} needs {key}", hint=f"{key}: {{p50: 600, p95: 1600}}", path=path)
            )
    for key in unused:
        if getattr(entry, key) is not None:
            faults.append(InputError(f"{key} does not go with {given[0]}", path=f"{path}.{key}"))
    return faults + _all_length_faults(entry, spec, path)


def _all_length_faults(entry: TrafficEntry, spec: ModelSpec | None, path: str) -> list[CotenantError]:
    keys = ("input_tokens", "output_tokens", "context_tokens")
    return [fault for key in keys for fault in _length_faults(getattr(entry, key), spec, f"{path}.{key}")]


def _by_hour_faults(entry: TrafficEntry, path: str) -> list[CotenantError]:
    if entry.by_hour is not None and sum(entry.by_hour) <= 0:
        return [InputError("the 24 weights add up to nothing", path=path)]
    return []


def _arrival_faults(entry: TrafficEntry, path: str) -> list[CotenantError]:
    """Gaps or spells, of a rate that does not vary by hour."""
    gaps = entry.arrivals
    if gaps == GapsEntry():
        return []
    if entry.requests_per_second is None:
        return [InputError("arrivals go with requests_per_second", path=path)]
    if entry.by_hour is not None:
        return [InputError("arrivals and by_hour do not go together yet", path=path)]
    spells = (gaps.on is not None, gaps.off is not None)
    if (gaps.gamma is not None) == any(spells) or any(spells) != all(spells):
        return [MissingError("needs gamma, or on and off", hint="{gamma: 2}, or {on: 30s, off: 90s}", path=path)]
    if gaps.on is not None and not gaps.on > 0:
        return [InputError("on must be above zero", path=f"{path}.on")]
    return []


def _length_faults(entry: LengthsEntry | None, spec: ModelSpec | None, path: str) -> list[CotenantError]:
    if entry is None:
        return []
    if entry.histogram:
        return _histogram_faults(entry, spec, path)
    if entry.p50 is None and entry.p95 is None:
        return [MissingError("needs p50, p95 or both", hint="{p50: 600, p95: 1600}", path=path)]
    faults: list[CotenantError] = []
    steps = [(name, value) for name in ("p50", "p95", "max") if (value := getattr(entry, name)) is not None]
    for (lower, small), (upper, large) in pairwise(steps):
        if large < small:
            faults.append(InputError(f"{upper} {large:,} is below {lower} {small:,}", path=f"{path}.{upper}"))
    limit = spec.max_model_len if spec is not None else 0
    for name, value in steps:
        if 0 < limit < value:
            message = f"{value:,} tokens: the model takes at most {limit:,}"
            faults.append(InputError(message, path=f"{path}.{name}"))
    return faults


def _slo_faults(entry: SloEntry | None, path: str) -> list[CotenantError]:
    if entry is None:
        return []
    faults: list[CotenantError] = []
    if entry.ttft is None and entry.tpot is None:
        faults.append(MissingError("needs ttft, tpot or both", hint="{ttft: 3s, tpot: 80ms}", path=path))
    for name, value in (("ttft", entry.ttft), ("tpot", entry.tpot)):
        if value is not None and value <= 0:
            faults.append(InputError(f"{name} must be above zero", path=f"{path}.{name}"))
    return faults


def _adapter_faults(entry: ModelEntry, path: str) -> list[CotenantError]:
    names = [adapter.name for adapter in entry.adapters]
    faults = repeated(names, path, "the adapter {!r} stands here twice", ".name")
    if entry.name in names:
        message = f"the adapter has the model's own name {entry.name!r}"
        faults.append(InputError(message, path=f"{path}[{names.index(entry.name)}].name"))
    shares = sum(adapter.share or 0 for adapter in entry.adapters)
    if shares > 1 + 1e-9:
        faults.append(InputError(f"the shares add up to {shares:.0%}", hint="at most 100%", path=path))
    return faults


def _histogram_faults(entry: LengthsEntry, spec: ModelSpec | None, path: str) -> list[CotenantError]:
    faults: list[CotenantError] = [
        InputError(f"{name} stands in the histogram already", path=f"{path}.{name}")
        for name in ("p50", "p95")
        if getattr(entry, name) is not None
    ]
    longest = max(length for length, weight in entry.histogram if weight > 0)
    limit = spec.max_model_len if spec is not None else 0
    if 0 < limit < longest:
        message = f"{longest:,} tokens: the model takes at most {limit:,}"
        faults.append(InputError(message, path=f"{path}.histogram"))
    if entry.max is not None and entry.max < longest:
        faults.append(InputError(f"max {entry.max:,} is below {longest:,}", path=f"{path}.max"))
    return faults
