"""One short question to an engine: whether it answers at all, and the same as before.

A vLLM that wakes may say that it is healthy and answer nonsense (user reports of 2026): so the first answer after
a start is kept, and after each wake the same question must get the same answer before any traffic does.
"""

from __future__ import annotations

import json

from cotenant.edge.engines.calls import call
from cotenant.errors import EngineError

_QUESTION = "The capital of France is"


def checkup(url: str, model: str, *, timeout_s: float = 60.0, key: str = "") -> str:
    """What it answers, as text to compare. Raises EngineError where it answers nothing, or nothing sound."""
    ask = {"model": model, "prompt": _QUESTION, "max_tokens": 4, "temperature": 0, "seed": 1}
    status, body = call(url, "/v1/completions", method="POST", body=ask, timeout_s=timeout_s, key=key)
    if status in (400, 404, 405, 501):  # an embedding model writes nothing
        ask = {"model": model, "input": _QUESTION}
        status, body = call(url, "/v1/embeddings", method="POST", body=ask, timeout_s=timeout_s, key=key)
    if status != 200:
        raise EngineError(f"asked a short question, it answered {status}")
    try:
        told = json.loads(body)
        if "choices" in told:
            text = told["choices"][0]["text"]
        else:
            text = " ".join(f"{number:.2g}" for number in told["data"][0]["embedding"][:8])
    except (ValueError, KeyError, TypeError, IndexError, RecursionError):
        raise EngineError("asked a short question, its answer has no text") from None
    if not isinstance(text, str) or not text.strip():
        raise EngineError("asked a short question, its answer is empty")
    return text
