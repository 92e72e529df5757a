"""What the gateway takes and answers, in one place: the table that requests are dispatched by, and its OpenAPI
document. A field that stands here is checked here; what else an engine knows is passed on as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from cotenant._version import __version__

Schema = Mapping[str, Any]
JSON = "application/json"
EVENTS = "text/event-stream"

_TEXT: Schema = {"type": "string"}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_LIST: Schema = {"type": "array"}
_TEXTS: Schema = {"type": ["string", "array"]}
_ANY: Schema = {}
_ANY_OBJECT: Schema = {"type": "object"}


@dataclass(frozen=True, slots=True)
class Operation:
    """One thing that can be asked. `needs`: the field of the body that it cannot do without, and what it may be;
    `kinds`: content type -> schema of a good answer; `open`: asks for no key."""

    method: str
    path: str
    name: str
    summary: str
    kinds: Mapping[str, Schema]
    needs: tuple[str, Schema] | None = None
    open: bool = False
    refusals: tuple[int, ...] = ()

    @property
    def streams(self) -> bool:
        """Whether it can be answered in events, as they come."""
        return EVENTS in self.kinds


def _object(**properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "required": list(properties)}


def _listed(item: Schema) -> Schema:
    return {"type": "array", "items": item}


_MODEL = _object(id=_TEXT, object={"const": "model"}, created=_COUNT, owned_by=_TEXT)
_STATUS = _object(
    draining={"type": "boolean"},
    models=_listed(_object(name=_TEXT, waiting=_COUNT, priority={"type": "integer"})),
    replicas=_listed(
        _object(
            id=_TEXT,
            model=_TEXT,
            state=_TEXT,
            running=_COUNT,
            slots=_COUNT,
            held_bytes=_COUNT,
            failures=_COUNT,
            retires={"type": "boolean"},
            reason=_TEXT,
        )
    ),
    devices=_listed(_object(name=_TEXT, held_bytes=_COUNT, capacity_bytes=_COUNT)),
)
ERROR = _object(
    error=_object(message=_TEXT, type=_TEXT, param={"type": ["string", "null"]}, code={"type": ["string", "null"]})
)
_WRITES = (400, 404, 408, 413, 415, 429, 502, 503, 504)

OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "POST", "/v1/chat/completions", "generate", "An answer to a conversation, in one piece or as events",
        {JSON: _object(id=_TEXT, choices=_LIST), EVENTS: _ANY}, ("messages", _LIST), refusals=_WRITES,
    ),
    Operation(
        "POST", "/v1/completions", "generate", "A text continued, in one piece or as events",
        {JSON: _object(id=_TEXT, choices=_LIST), EVENTS: _ANY}, ("prompt", _TEXTS), refusals=_WRITES,
    ),
    Operation(
        "POST", "/v1/embeddings", "generate", "Texts as vectors",
        {JSON: _object(data=_listed(_ANY_OBJECT))}, ("input", _TEXTS), refusals=_WRITES,
    ),
    Operation("GET", "/v1/models", "models", "The models served, and adapters on them",
              {JSON: _object(object={"const": "list"}, data=_listed(_MODEL))}),
    Operation("GET", "/v1/models/{model}", "model", "One of them", {JSON: _MODEL}, refusals=(404,)),
    Operation("GET", "/health", "health", "Whether requests are taken", {JSON: _object(status=_TEXT)}, open=True,
              refusals=(503,)),
    Operation("GET", "/metrics", "metrics", "Figures for Prometheus", {"text/plain": _TEXT}),
    Operation("GET", "/status.json", "status_json", "Queues, engines and devices", {JSON: _STATUS}),
    Operation("GET", "/", "status", "The same for people", {"text/html": _TEXT}),
    Operation("GET", "/openapi.json", "openapi", "This document", {JSON: _ANY_OBJECT}),
)  # fmt: skip

BY_PATH: dict[str, dict[str, Operation]] = {}
for _one in OPERATIONS:
    BY_PATH.setdefault(_one.path, {})[_one.method] = _one

LONGEST_S = 3600  # of any request
_OF_TYPE: dict[str, type] = {"string": str, "array": list}
_HEADERS = (
    ("X-Priority", "Higher first; at most what the key allows.",
     {"type": "integer", "minimum": -1_000_000, "maximum": 1_000_000}),
    ("X-Request-Timeout", "Seconds until a 504 instead of an answer.",
     {"type": "number", "exclusiveMinimum": 0, "maximum": LONGEST_S}),
)  # fmt: skip


def fault_of(operation: Operation, given: Mapping[str, Any]) -> tuple[str, str, str] | None:
    """(code, message, field) of what is wrong with a body beyond its model; None where nothing is."""
    if operation.needs is None:
        return None
    field, schema = operation.needs
    if field not in given:
        return "missing_parameter", f"`{field}` is missing", field
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    if not isinstance(given[field], tuple(_OF_TYPE[kind] for kind in kinds)):
        return "invalid_type", f"`{field}` is {' or '.join(_article(kind) for kind in kinds)}", field
    if operation.streams and not isinstance(given.get("stream", False), bool):
        return "invalid_type", "`stream` is true or false", "stream"
    return None


def document(names: Iterable[str], *, keys: bool) -> dict[str, Any]:
    """The OpenAPI 3.1 document of a gateway that serves these names; `keys`: whether it asks for them."""
    known = list(names)
    paths: dict[str, dict[str, Any]] = {}
    for one in OPERATIONS:
        paths.setdefault(one.path, {})[one.method.lower()] = _described(one, known, keys=keys)
    found: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": "Cotenant gateway", "version": __version__},
        "paths": paths,
        "components": {"schemas": {"Error": ERROR}},
    }
    if keys:
        found["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    return found


def _described(one: Operation, names: list[str], *, keys: bool) -> dict[str, Any]:
    good = {kind: {"schema": schema} for kind, schema in one.kinds.items()}
    bad = {"description": "an error", "content": {JSON: {"schema": {"$ref": "#/components/schemas/Error"}}}}
    refusals = [*one.refusals, *(() if one.open else (401, 403))]
    told: dict[str, Any] = {
        "summary": one.summary,
        "responses": {"200": {"description": "done", "content": good}, **{str(code): bad for code in refusals}},
    }
    if one.path == "/health":
        told["responses"]["503"] = {"description": "it drains", "content": good}
    if keys and not one.open:
        told["security"] = [{"key": []}]
    if "{model}" in one.path:
        told["parameters"] = [_parameter("model", "path", {"type": "string", "enum": names}, required=True)]
    if one.needs is not None:
        told["parameters"] = [
            _parameter(name, "header", schema, description=words) for name, words, schema in _HEADERS
        ]
        told["requestBody"] = {"required": True, "content": {JSON: {"schema": _body(one, one.needs, names)}}}
    return told


def _body(one: Operation, needs: tuple[str, Schema], names: list[str]) -> Schema:
    field, schema = needs
    fields = {"model": {"type": "string", "enum": names}, field: schema}
    if one.streams:
        fields["stream"] = {"type": "boolean"}
    return {"type": "object", "required": ["model", field], "properties": fields}


def _parameter(name: str, place: str, schema: Schema, **more: object) -> dict[str, Any]:
    return {"name": name, "in": place, "schema": schema, **more}


def _article(kind: str) -> str:
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"
