"""What would have worked for llama.cpp and Ollama: each option alone, the smallest step that fits.

Their buffers are allocated one after the other, so a log that ran out does not say by how much; the estimator's
headroom decides, at the low end of its interval.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from cotenant.domain.estimate import Estimate
from cotenant.domain.explanation import Change
from cotenant.domain.llama_cpp import LlamaCppOptions
from cotenant.domain.measurement import Setting
from cotenant.errors import CotenantError
from cotenant.estimation.question import Question, answer

_LEAST_UBATCH = 32
_CONTEXT_STEP = 1024
_ARGUMENTS = {
    "llama.cpp": {
        "n_ctx": "--ctx-size", "n_ubatch": "--ubatch-size", "n_gpu_layers": "--n-gpu-layers",
        "n_cpu_moe": "--n-cpu-moe",
        "type_k": "--cache-type-k and -v",
    },
    "ollama": {
        "n_ctx": "num_ctx", "n_ubatch": "num_batch", "n_gpu_layers": "num_gpu", "type_k": "OLLAMA_KV_CACHE_TYPE",
    },
}  # fmt: skip


def llama_changes(question: Question, predicted: Estimate) -> tuple[Change, ...]:
    """One change an option, in the order in which they cost least; options that cannot help are left out."""
    now = predicted.settings.llama_cpp
    if now is None:
        return ()
    found = []
    for name, was, options in _options(question, now):
        change = None if options is None else _change(question, name, was, options)
        if change is not None:
            found.append(change)
    return tuple(found)


_Found = tuple[str, Setting | None, LlamaCppOptions | None]


def _options(question: Question, now: LlamaCppOptions) -> Iterator[_Found]:
    """(option, its value now, the options with the smallest change that fits)."""
    steps = (now.n_ctx or 0) // _CONTEXT_STEP
    fewer = _largest(question, steps - 1, lambda count: replace(now, n_ctx=count * _CONTEXT_STEP))
    yield "n_ctx", now.n_ctx, fewer
    if now.type_k == "f16":
        yield "type_k", now.type_k, replace(now, type_k="q8_0", type_v="q8_0")
    halves = [(now.n_ubatch or 0) >> shift for shift in range(1, 8)]
    smaller = (replace(now, n_ubatch=size) for size in halves if size >= _LEAST_UBATCH)
    yield "n_ubatch", now.n_ubatch, next((one for one in smaller if _fits(question, one)), None)
    if question.engine.name == "llama.cpp" and question.model.spec.num_experts:  # attention stays on the card
        yield "n_cpu_moe", now.n_cpu_moe, _experts_away(question, now)
    layers = now.n_gpu_layers or 0
    yield "n_gpu_layers", layers, _largest(question, layers - 1, lambda count: replace(now, n_gpu_layers=count))


def _experts_away(question: Question, now: LlamaCppOptions) -> LlamaCppOptions | None:
    """The fewest layers whose experts go to the host, none beyond those that are there."""
    layers = question.model.spec.num_layers
    kept = _largest(question, layers - now.n_cpu_moe - 1, lambda count: replace(now, n_cpu_moe=layers - count))
    return kept or replace(now, n_cpu_moe=layers)


def _largest(question: Question, most: int, options: Callable[[int], LlamaCppOptions]) -> LlamaCppOptions | None:
    """The options of the largest whole number from 1 to `most` that fits, where smaller ones fit too."""
    low, high = 1, most
    if most < 1 or not _fits(question, options(1)):
        return None
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if _fits(question, options(middle)) else (low, middle - 1)
    return options(low)


def _fits(question: Question, options: LlamaCppOptions) -> bool:
    try:
        return answer(_with(question, options)).fits
    except CotenantError:
        return False


def _with(question: Question, options: LlamaCppOptions) -> Question:
    return replace(question, settings=replace(question.settings, llama_cpp=options))


def _change(question: Question, name: str, was: Setting | None, options: LlamaCppOptions) -> Change | None:
    try:
        estimate = answer(_with(question, options))
    except CotenantError:
        return None
    if not estimate.fits:
        return None
    spare = min(rank.headroom.low for rank in estimate.per_gpu)
    becomes = getattr(options, name)
    argument = _ARGUMENTS[question.engine.name][name]
    return Change(name, argument, was, becomes, spare, estimate.kv_cache.max_concurrency, estimate)
