"""Every way in which the hub can fail to answer, as a HubError with its own message and what to do."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from cotenant.errors import HubError

_OFFLINE_HINT = (
    "use a catalogue name, a downloaded folder or a .gguf file, or raw figures; nothing else needs the net"
)
_TRANSPORT = ("httpx", "httpx2", "httpcore", "httpcore2", "requests", "urllib3")


@contextlib.contextmanager
def hub_errors(model_id: str) -> Iterator[None]:
    """Turn what huggingface_hub and its transport raise into HubError; our own errors pass through."""
    try:
        yield
    except Exception as error:
        mapped = hub_error(error, model_id)
        if mapped is None:
            raise
        raise mapped from error


def hub_error(error: Exception, model_id: str) -> HubError | None:
    """The HubError for what the hub's client raised, None when the hub has nothing to do with it."""
    from huggingface_hub import errors

    if isinstance(error, errors.GatedRepoError):
        return _gated(model_id)
    if isinstance(error, errors.RevisionNotFoundError):
        return HubError(f"{model_id} has no such revision on the hub", hint="name a branch, a tag or a commit")
    if isinstance(error, errors.RepositoryNotFoundError):
        return _missing(model_id)
    if isinstance(error, errors.HFValidationError):
        return HubError(f"{model_id[:100]!r} cannot be a model's name on the hub", hint="write it as owner/name")
    if isinstance(error, errors.HfHubHTTPError):
        return _by_status(error, model_id)
    if "JSONDecodeError" in type(error).__name__ or isinstance(error, UnicodeDecodeError):
        hint = "is there a login page or a proxy between you and the hub?"
        return HubError(f"the answer about {model_id} is not the hub's", hint=hint)
    if is_offline(error):
        return _offline(error, model_id)
    return None


def is_offline(error: Exception) -> bool:
    """Whether the hub was never reached: switched off, no route, no answer in time, an answer cut short."""
    module = type(error).__module__.partition(".")[0]
    return isinstance(error, (ConnectionError, TimeoutError)) or module in _TRANSPORT


def _has_token() -> bool:
    from huggingface_hub import get_token

    return bool(get_token())


def _gated(model_id: str) -> HubError:
    page = f"accept its terms at https://huggingface.co/{model_id}"
    then = "" if _has_token() else ", then log in: `hf auth login`, or set HF_TOKEN"
    return HubError(f"{model_id} is gated: its owner has not granted you access", hint=page + then)


def _missing(model_id: str) -> HubError:
    hint = "check the spelling, or search for it: it may have been renamed or removed"
    if not _has_token():
        hint += "; a private one needs you to log in: `hf auth login`, or set HF_TOKEN"
    return HubError(f"no model {model_id!r} on the hub that you may see", hint=hint)


def _by_status(error: Any, model_id: str) -> HubError:
    response = getattr(error, "response", None)
    status = getattr(response, "status_code", 0)
    if status == 429:
        return _limited(response, model_id)
    if status in (401, 403):
        hint = "log in again: `hf auth login`" if _has_token() else "log in: `hf auth login`, or set HF_TOKEN"
        return HubError(
            f"the hub refuses to show {model_id} ({status}): your token is wrong or lacks the right", hint=hint
        )
    if status == 404:
        return HubError(
            f"a file of {model_id} is not on the hub (404)", hint="was it renamed or removed just now?"
        )
    if status >= 500:
        return HubError(f"the hub is out of order ({status}) for {model_id}", hint="try again in a while")
    return HubError(f"the hub answers {status or 'oddly'} for {model_id}")


def _limited(response: Any, model_id: str) -> HubError:
    """429: the wait stands in Retry-After, or as t=SECONDS in the RateLimit header (an IETF draft)."""
    wait = str(response.headers.get("retry-after", ""))
    for part in str(response.headers.get("ratelimit", "")).split(";"):
        name, _, value = part.strip().partition("=")
        wait = value if name == "t" and not wait else wait
    when = (
        f"try again in {int(wait):,} s"
        if wait.isascii() and wait.isdigit() and len(wait) < 8
        else "try again later"
    )
    more = "" if _has_token() else "; with a token the limit is higher: `hf auth login`, or set HF_TOKEN"
    return HubError(f"the hub limits your requests (429), {model_id} was not read", hint=when + more)


def _offline(error: Exception, model_id: str) -> HubError:
    if type(error).__name__ == "OfflineModeIsEnabled":
        hint = f"unset HF_HUB_OFFLINE, or {_OFFLINE_HINT}"
        return HubError(f"the hub is switched off (HF_HUB_OFFLINE), and {model_id} is not in its cache", hint=hint)
    return HubError(f"the hub cannot be reached for {model_id}: {_reason(error)}", hint=_OFFLINE_HINT)


def _reason(error: Exception) -> str:
    """One short line; what requests wraps three deep is better named than quoted."""
    text = str(error).strip().partition("\n")[0]
    return text if 0 < len(text) <= 100 else type(error).__name__
