"""One replica on one card, as `cotenant estimate` answers it: the same words, the same bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cotenant.domain.defaults import KV_OVERFLOW
from cotenant.domain.loaded import LoadedModel
from cotenant.web.documents import written

# What the command line says where the user says nothing: they are part of the question, and of its hash.
_SAID = {
    "engine": "vllm", "used": "0", "enforce_eager": False, "enable_expert_parallel": False, "enable_lora": False,
    "language_model_only": False,
    "kv_overflow": KV_OVERFLOW, "percentile": 95.0,
}  # fmt: skip


def estimate_bytes(words: Mapping[str, Any], model: LoadedModel) -> bytes:
    """`words` are the keyword arguments of `cotenant.estimate`, checked (`names.checked_words`); `model` what its
    `model` names. Raises InputErrors and its kin."""
    from cotenant import api
    from cotenant.catalogue import VERSION
    from cotenant.readers.input_hash import input_hash
    from cotenant.report.document import estimate_document

    given: dict[str, Any] = _SAID | {
        name: value for name, value in words.items() if value is not None and value != {}
    }
    if "options" in given:
        given["options"] = _as_typed(given["options"])
    question = dict(given)
    question.pop("model")
    found = api.estimate(model, **question)
    return written(estimate_document(found, catalogue=VERSION, input_hash=input_hash(given)))


def _as_typed(options: Mapping[str, Any]) -> dict[str, Any]:
    """An engine's own options as a command line holds them: numbers are text, switches that are off not there."""
    return {
        name: str(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else value
        for name, value in options.items()
        if value is not None and value is not False
    }
