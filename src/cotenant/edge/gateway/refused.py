"""Refusals: what is said instead of an answer, in OpenAI's shape."""

from __future__ import annotations

from collections.abc import Iterable

from aiohttp import web

from cotenant.edge.gateway.answers import error_body


class RefusedError(Exception):
    """An answer that is an error."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        param: str | None = None,
        retry: int | None = None,
        allow: Iterable[str] = (),
    ):
        super().__init__(message)
        self.status, self.code, self.param, self.retry, self.allow = status, code, param, retry, allow


def refused(
    status: int,
    code: str,
    message: str,
    param: str | None = None,
    retry: int | None = None,
    *,
    allow: Iterable[str] = (),
    close: bool = False,
) -> web.Response:
    """The answer to who is refused. `retry`: seconds; `allow`: methods that the path takes; `close`: what follows
    on the connection could be read in two ways."""
    headers = {} if retry is None else {"Retry-After": str(retry)}
    if allow:
        headers["Allow"] = ", ".join(allow)
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    answer = web.Response(
        status=status,
        body=error_body(status, code, message, param),
        content_type="application/json",
        headers=headers,
    )
    if close or status in (408, 413):
        answer.force_close()
    return answer
