"""What would have worked for llama.cpp and Ollama: each option alone, the smallest step that fits.

Their buffers are allocated one after the other, so a log that ran out does not say by how much; the estimator's
headroom decides, at the low end of its interval.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from cotenant.domain.estimate import Estimate
from cotenant.domain.explanation import Change
from cotenant.domain.llama_cpp import LlamaCppOptions
from cotenant.domain.measurement import Setting
from cotenant.errors import CotenantError
from cotenant.estimation.question import Question, answer

_LEAST = {"n_ctx": 512, "n_ubatch": 32}
_FLAGS = {
    "n_ctx": "ctx_size", "n_ubatch": "ubatch_size", "n_gpu_layers": "n_gpu_layers", "type_k": "cache_type_k",
}  # fmt: skip


def llama_changes(question: Question, predicted: Estimate) -> tuple[Change, ...]:
    """One change an option, in the order in which they cost least; options that cannot help are left out."""
    resolved = predicted.settings.llama_cpp
    if resolved is None:
        return ()
    found = []
    for name in ("n_ctx", "type_k", "n_ubatch", "n_gpu_layers"):
        now = getattr(resolved, name)
        change = _first(question, name, now, _steps(resolved, name, now))
        if change is not None:
            found.append(change)
    return tuple(found)


_Step = tuple[Setting, LlamaCppOptions]


def _steps(options: LlamaCppOptions, name: str, now: int | str | None) -> Iterator[_Step]:
    """Values to try, from the smallest change on."""
    if name == "type_k":
        if now == "f16":
            yield "q8_0", replace(options, type_k="q8_0", type_v="q8_0")
        return
    value = int(now or 0)
    while value > _LEAST.get(name, 0):
        value = value - 1 if name == "n_gpu_layers" else value // 2
        if value >= _LEAST.get(name, 0):
            yield value, replace(options, **{name: value})


def _first(question: Question, name: str, was: Setting | None, steps: Iterator[_Step]) -> Change | None:
    for value, options in steps:
        try:
            estimate = answer(replace(question, settings=replace(question.settings, llama_cpp=options)))
        except CotenantError:
            continue
        if estimate.fits:
            spare = min(rank.headroom.low for rank in estimate.per_gpu)
            return Change(_FLAGS[name], was, value, spare, estimate.kv_cache.max_concurrency, estimate)
    return None
