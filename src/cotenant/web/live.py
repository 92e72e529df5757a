"""The live tab: what a `cotenant serve` gateway says of itself. Its address comes from the command line alone."""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any

from cotenant.errors import EngineError, FormatError, InputError
from cotenant.readers.json_text import parse_json
from cotenant.readers.prometheus import labelled
from cotenant.web.outcomes import NeedsKeyError

_TIMEOUT_S, _MOST_BYTES = 2.0, 4 * 2**20
_KEY = re.compile(r"[!-~]{8,512}")


class Gateway:
    """A gateway at `url`. Redirects are not followed, proxies not used."""

    def __init__(self, url: str) -> None:
        if not re.fullmatch(r"https?://[\w.\-\[\]:]+/?", url, re.ASCII):
            raise InputError(f"{url[:80]!r} is not the address of a gateway", hint="http://127.0.0.1:8080")
        self.url = url.rstrip("/")
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirect())

    def document(self, key: str | None = None) -> dict[str, Any]:
        """Status and metrics as they are now, asked for with `key` where the gateway wants one. Raises
        NeedsKeyError where it wants another, EngineError where it does not answer."""
        if key is not None and not _KEY.fullmatch(key):
            raise InputError(
                "this is no key of a gateway", hint="8 to 512 letters, digits and signs, without spaces"
            )
        try:
            status = _status(self._read("/status.json", key))
            metrics = samples(self._read("/metrics", key).decode("utf-8", "replace"))
        except urllib.error.HTTPError as error:
            if error.code in (401, 403):
                raise NeedsKeyError(
                    f"the gateway at {self.url} asks for a key", hint="one of its --api-keys"
                ) from None
            raise EngineError(
                f"the gateway at {self.url} answers {error.code}", hint="cotenant serve PLAN"
            ) from None
        except (OSError, HTTPException, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            raise EngineError(
                f"the gateway at {self.url} does not answer: {reason}", hint="cotenant serve PLAN"
            ) from None
        return {"gateway": self.url, "status": status, "metrics": metrics}

    def _read(self, path: str, key: str | None = None) -> bytes:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        asked = urllib.request.Request(self.url + path, headers=headers)
        with self._opener.open(asked, timeout=_TIMEOUT_S) as answer:
            data: bytes = answer.read(_MOST_BYTES + 1)
        if len(data) > _MOST_BYTES:
            raise ValueError("its answer is too long")
        return data


_DRAWN: Mapping[str, Mapping[str, type]] = {
    "models": {"name": str, "waiting": int},
    "replicas": {
        "id": str,
        "model": str,
        "state": str,
        "reason": str,
        "running": int,
        "slots": int,
        "held_bytes": int,
    },
    "devices": {"name": str, "held_bytes": int, "capacity_bytes": int},
}
"""What the page draws of a status: lists, and of each entry these (`edge.gateway.status`)."""


def _status(data: bytes) -> Mapping[str, Any]:
    """The status, where it has all that the page draws. Raises ValueError where it is something else."""
    try:
        found = parse_json(data, what="its status")
    except FormatError as error:
        raise ValueError(error.message) from None
    if not isinstance(found, Mapping) or not all(
        _is_drawn(found.get(name), keys) for name, keys in _DRAWN.items()
    ):
        raise ValueError("what it says is no gateway's status")
    return found


def _is_drawn(entries: object, keys: Mapping[str, type]) -> bool:
    return isinstance(entries, list) and all(
        isinstance(one, Mapping) and all(isinstance(one.get(key), kind) for key, kind in keys.items())
        for one in entries
    )


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        """None is followed."""


def samples(text: str) -> list[dict[str, Any]]:
    """Prometheus text as `{name, labels, value}`, what is no finite number left out."""
    return [{"name": name, "labels": labels, "value": value} for name, labels, value in labelled(text)]
