"""Files given in place of others: what they are, and which command takes them, in one line."""

from __future__ import annotations

import re
from collections.abc import Mapping

from cotenant.errors import InputError
from cotenant.readers.traces import looks_like_trace

_OURS = re.compile(r'\s*\{\s*"schema":\s*"cotenant/([a-z-]{1,40})/')
_ANSWERS: dict[str, tuple[str, str]] = {
    "plan": (
        "a plan",
        "simulate, deploy, serve, verify and ui take plans; so does cotenant plan FLEET --from PLAN",
    ),
    "estimate": ("an estimate of one replica", "what it was asked for, written as a fleet, can be planned"),
}
_STRANGERS: tuple[tuple[tuple[str, ...], str, str], ...] = (
    (("services",), "a Docker Compose file", "cotenant deploy PLAN --to compose writes them"),
    (("apiVersion", "kind"), "a Kubernetes manifest", "cotenant deploy PLAN --to kubernetes writes them"),
    (("architectures",), "a model's config.json", "name its folder at `model:`, or ask cotenant estimate of it"),
    (("model_type",), "a model's config.json", "name its folder at `model:`, or ask cotenant estimate of it"),
    (("model_list",), "a LiteLLM configuration", "write its models under `models:`, each with its traffic"),
)
_FLEET = ("a fleet", "cotenant plan, simulate and ui take fleets")
_TRACE = ("a request trace", "cotenant workload describes it; a fleet names it at `traffic: {trace: FILE}`")


def refuse_foreign_text(text: str, wanted: str, *, path: str = "") -> None:
    """Raise InputError where `text` is an answer of ours or a request trace, and not the `wanted` ("a fleet")."""
    ours = _OURS.match(text)
    if ours is not None:
        _refuse(*_answer(ours.group(1)), wanted, path)
    lines = text.lstrip().split("\n", 2)
    if looks_like_trace(lines[0]) and len(lines) > 1:
        _refuse(*_TRACE, wanted, path)


def refuse_foreign(value: Mapping[str, object], wanted: str, *, path: str = "") -> None:
    """Raise InputError where `value` is known to be something else than the `wanted`."""
    schema = value.get("schema")
    if isinstance(schema, str) and schema.startswith("cotenant/"):
        _refuse(*_answer(schema.split("/")[1]), wanted, path)
    if "gpus" in value and "models" in value:
        if wanted != _FLEET[0]:
            _refuse(*_FLEET, wanted, path)
        return
    for keys, what, hint in _STRANGERS:
        if what != wanted and all(key in value for key in keys):
            _refuse(what, hint, wanted, path)


def _answer(kind: str) -> tuple[str, str]:
    return _ANSWERS.get(kind, (f"an answer of cotenant ({kind})", "it is made to be read, nothing takes it"))


def _refuse(what: str, hint: str, wanted: str, path: str) -> None:
    raise InputError(f"this is {what}, not {wanted}", hint=hint, path=path)
