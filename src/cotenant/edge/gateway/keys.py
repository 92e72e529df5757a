"""API keys: from a file, never from the command line. A key names its client and bounds its priority."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path

from cotenant.errors import InputError, InputErrors

_LINE = re.compile(r"(?P<name>[\w.@-]{1,64})\s+(?P<key>[!-~]{8,512})(?:\s+priority=(?P<priority>-?\d{1,6}))?")


@dataclass(frozen=True, slots=True)
class Client:
    """Who asks. `priority` is the highest that it may ask for; None: any."""

    name: str
    priority: int | None = None


class Keys:
    """Known keys by their hash: a lookup takes the same time for a wrong key as for a right one."""

    def __init__(self, clients: dict[bytes, Client]) -> None:
        self._clients = clients

    def __len__(self) -> int:
        return len(self._clients)

    @property
    def have_priorities(self) -> bool:
        """Whether any of them bounds its client's priority."""
        return any(one.priority is not None for one in self._clients.values())

    def client(self, authorization: str) -> Client | None:
        """The client of an ``Authorization: Bearer KEY`` header; None for a key that is not known."""
        scheme, _, key = authorization.partition(" ")
        return self._clients.get(_hash(key.strip())) if scheme.lower() == "bearer" else None


def read_keys(path: Path) -> Keys:
    """A file with ``name key [priority=N]`` a line; # begins a comment. Raises InputErrors with every fault; no
    message shows a key."""
    clients: dict[bytes, Client] = {}
    for match in _matches(path, _private(path)):
        told = match["priority"]
        clients[_hash(match["key"])] = Client(match["name"], None if told is None else int(told))
    return Keys(clients)


def read_engine_keys(path: Path) -> dict[str, str]:
    """A file of the same kind: keys that engines ask us for, by replica or model."""
    return {match["name"]: match["key"] for match in _matches(path, _private(path))}


def _matches(path: Path, text: str) -> list[re.Match[str]]:
    faults: list[InputError] = []
    found: list[re.Match[str]] = []
    for number, line in enumerate(text.splitlines(), 1):
        bare = line.partition("#")[0].strip()
        match = _LINE.fullmatch(bare)
        if match is not None:
            found.append(match)
        elif bare:
            hint = "write: name key [priority=N], the key 8 characters or more"
            faults.append(InputError("not a key", path=f"{path}:{number}", hint=hint))
    if faults:
        raise InputErrors(faults)
    if not found:
        raise InputError(f"no key stands in {path}")
    return found


def _private(path: Path) -> str:
    """The file's text, if nobody but its owner can read it."""
    try:
        text = path.read_text(encoding="utf-8")
        mode = path.stat().st_mode
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not text"
        raise InputError(f"cannot read the keys in {path}: {reason}") from None
    if os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise InputError(f"{path} can be read by others", hint=f"chmod 600 {path}")
    return text


def _hash(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()
