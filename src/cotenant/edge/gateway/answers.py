"""Answers in OpenAI's shapes: errors, and the list of models."""

from __future__ import annotations

import json
from collections.abc import Iterable

KINDS = {
    400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error",
    405: "invalid_request_error", 408: "timeout_error", 413: "invalid_request_error", 415: "invalid_request_error",
    429: "rate_limit_error", 500: "server_error", 501: "invalid_request_error", 502: "server_error",
    503: "server_error", 504: "timeout_error", 505: "invalid_request_error",
}  # fmt: skip
"""The `type` of an error by its status (OpenAI API reference, error codes)."""


def error_body(status: int, code: str, message: str, param: str | None = None) -> bytes:
    """``{"error": {"message", "type", "param", "code"}}``."""
    kind = KINDS.get(status, "invalid_request_error" if status < 500 else "server_error")
    return json.dumps({"error": {"message": message, "type": kind, "param": param, "code": code}}).encode()


def error_event(status: int, code: str, message: str) -> bytes:
    """An error in the middle of a stream: one event, and no [DONE] after it."""
    return b"data: " + error_body(status, code, message) + b"\n\n"


def models_body(names: Iterable[str], created: int) -> bytes:
    """The list of models."""
    data = [{"id": name, "object": "model", "created": created, "owned_by": "cotenant"} for name in names]
    return json.dumps({"object": "list", "data": data}).encode()
