"""One run explained: printed beside predicted, what is left, why it ran out, what would have worked."""

from __future__ import annotations

from collections.abc import Sequence

from cotenant.diagnosis.causes import Cause, cause
from cotenant.diagnosis.changes import changes, situation
from cotenant.diagnosis.launch import launch
from cotenant.diagnosis.llama_changes import llama_changes
from cotenant.diagnosis.llama_words import ENGINES as LLAMA_ENGINES
from cotenant.diagnosis.shares import device_shares, host_terms
from cotenant.domain.estimate import Estimate
from cotenant.domain.explanation import Change, Explanation
from cotenant.domain.gpu import GpuSpec
from cotenant.domain.loaded import LoadedModel
from cotenant.domain.measurement import Measurement
from cotenant.errors import CotenantError
from cotenant.estimation.question import Question, answer

# The order of starts does, or the host, or fewer requests at once.
_NO_FLAG_HELPS = ("others_changed_memory", "out_of_host_memory", "pool_ran_out", "unbalanced")


def explain(
    found: Measurement,
    *,
    model: LoadedModel | None = None,
    draft: LoadedModel | None = None,
    gpu: GpuSpec | None = None,
    cards: Sequence[GpuSpec] = (),
    others: Sequence[Measurement] = (),
    notes: Sequence[str] = (),
    input_hash: str = "",
) -> Explanation:
    """Explain `found`. `model` is what it ran (None: unknown, then nothing is predicted), `draft` the
    one that it named beside, `gpu` its card (None:
    the one that the log names, or the one of `cards` with the capacity that it prints).

    Never raises for a log that was read: what cannot be predicted is said in `assumed`.
    """
    launched = launch(found, model, gpu, cards, draft)
    assumed = list(launched.assumed)
    predicted = _predict(launched.question, assumed)
    why = cause(found, predicted)
    found_changes: tuple[Change, ...] = ()
    if why.kind and predicted is not None and launched.question is not None:
        found_changes = _changes(found, launched.question, predicted, why)
    return Explanation(
        measurement=found,
        predicted=predicted,
        shares=device_shares(found, launched, predicted),
        verdict=str(found.outcome) if found.outcome is not None else "unknown",
        cause=why.sentence,
        advice=() if found_changes else why.advice,
        shortfall_bytes=why.shortfall_bytes,
        changes=found_changes,
        assumed=(*notes, *assumed),
        input_hash=input_hash,
        others=tuple(others),
        host=host_terms(found),
    )


def _changes(found: Measurement, question: Question, predicted: Estimate, why: Cause) -> tuple[Change, ...]:
    if why.kind in _NO_FLAG_HELPS:
        return ()
    if found.engine in LLAMA_ENGINES:
        return llama_changes(question, predicted)
    at = situation(found, question, predicted, why)
    return () if at is None else changes(at)


def _predict(question: Question | None, assumed: list[str]) -> Estimate | None:
    if question is None:
        return None
    try:
        return answer(question)
    except CotenantError as error:
        assumed.append(f"no prediction: {error.message}")
        return None
