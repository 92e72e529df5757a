"""From what was read of a run to a measurement: derived figures, the model's own before a draft's."""

from __future__ import annotations

from dataclasses import replace

from cotenant.domain.measurement import Failure, Figure, Measurement
from cotenant.engines.logs import LOGS
from cotenant.readers.logs.runs import Run

_STYLES = {log.engine: log.styles for log in LOGS}
_LAST_V0, _LATER_V0 = "0.7.3", "0.7.4"  # the second is no release: the older core in 0.8 and 0.9
_BUFFERS = ("model_buffer_mib", "kv_buffer_mib", "compute_buffer_mib")


def measurement(run: Run) -> Measurement:
    """The run as a value."""
    assumed = next((version for needle, version in _STYLES.get(run.engine, ()) if needle in run.styles), None)
    version = run.facts.get("engine_version")
    figures = _with_sums(run)
    return Measurement(
        engine=run.engine,
        engine_version=version,
        model=run.facts.get("model"),
        gpu=_gpu(run.facts.get("gpu")),
        settings=dict(run.settings),
        figures=figures,
        failures=tuple(run.failures) or _empty_pool(figures),
        ready=run.ready and not _was_trial(run, figures),
        source=run.source,
        ranks=tuple(dict.fromkeys(figure.rank for figure in figures if figure.rank)),
        version_assumed=_assumed(run, version, assumed),
        first_line=run.first_line,
        notes=_notes(run),
    )


def _empty_pool(figures: tuple[Figure, ...]) -> tuple[Failure, ...]:
    """A pool of nothing is a failure, whether or not the log goes on to say so."""
    pool = next((f for f in figures if f.name in ("available_kv_gib", "gpu_blocks") and f.value <= 0), None)
    if pool is None:
        return ()
    return (Failure("no_room_for_pool", f"{pool.name} {pool.text}", pool.line, pool.rank),)


def _assumed(run: Run, version: str | None, style: str | None) -> str | None:
    """The release whose rules hold: by the lines where none is named, and V0's where 0.8 or 0.9 ran V0."""
    if version is None:
        return style
    old_engine = run.engine == "vllm" and style == _LAST_V0 and version.lstrip("v").startswith(("0.8.", "0.9."))
    return _LATER_V0 if old_engine else None


def _gpu(text: str | None) -> str | None:
    return None if text is None else text.replace("_", " ").strip()


def _with_sums(run: Run) -> tuple[Figure, ...]:
    """SGLang prints keys and values apart: their sum is the pool. What Ollama's server prints of its buffers
    counts where its runner printed none; the recurrent state is added up where no total stands in the log."""
    figures = _without_trial(_ollama_buffers(run.figures))
    keys = next((f for f in figures if f.name == "sglang_k_gib"), None)
    values = next((f for f in figures if f.name == "sglang_v_gib"), None)
    if keys and values and not any(f.name == "available_kv_gib" for f in figures):
        total = round(keys.value + values.value, 6)
        figures.append(replace(keys, name="available_kv_gib", value=total, text=f"{keys.text} + {values.text}"))
    figures += _weights_by_difference(figures)
    states = [f for f in figures if f.name == "rs_buffer_mib" and f.section != "draft"]
    if states and not any(f.name == "rs_total_mib" for f in figures):
        total = round(sum(f.value for f in states), 2)
        figures.append(
            replace(states[0], name="rs_total_mib", value=total, text=f"{total:g}", device="", section="")
        )
    return tuple(figures)


def _weights_by_difference(figures: list[Figure]) -> list[Figure]:
    """Releases of SGLang before 0.4.4 print what is free before and after the weights, not what they take."""
    after = next((f for f in figures if f.name == "free_after_weights_gib"), None)
    before = next((f for f in figures if f.name == "free_gib"), None)
    if after is None or before is None or any(f.name == "weights_gib" for f in figures):
        return []
    taken = round(before.value - after.value, 2)
    return [replace(after, name="weights_gib", value=taken, text=f"{before.text} - {after.text}")]


_POOL = ("available_kv_gib", "kv_cache_tokens", "gpu_blocks")


def _without_trial(figures: list[Figure]) -> list[Figure]:
    """TensorRT-LLM's trial has a pool of its own, before each rank says what room it found for the real one."""
    found = {figure.rank: figure.line for figure in figures if figure.name == "peak_gib"}
    return [
        figure for figure in figures
        if figure.name not in _POOL or figure.line > found.get(figure.rank, max(found.values(), default=0))
    ]  # fmt: skip


def _was_trial(run: Run, figures: tuple[Figure, ...]) -> bool:
    """Whether the one pool that was made is the trial's: the engine got no further."""
    return any(f.name in _POOL for f in run.figures) and not any(f.name in _POOL for f in figures)


_OLLAMA_GRAPH = "ollama_compute_buffer_mib"


def _ollama_buffers(figures: list[Figure]) -> list[Figure]:
    printed = {figure.name for figure in figures}
    last = {figure.device: figure for figure in figures if figure.name == _OLLAMA_GRAPH}  # told anew as it grows
    figures = [one for one in figures if one.name != _OLLAMA_GRAPH or one is last[one.device]]
    own = {f"ollama_{name}": name for name in _BUFFERS if name not in printed}
    return [replace(f, name=own[f.name]) if f.name in own else f for f in figures]


def _notes(run: Run) -> tuple[str, ...]:
    notes = ["read from a table that names no engine: the words are vLLM's"] if run.posted else []
    if any(figure.labels.get("fallback") for figure in run.figures):
        notes.append("max batch total tokens is a fallback constant here, not a measurement")
    return tuple(notes)
