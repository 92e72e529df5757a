"""What a user asks of a verification, read from words."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cotenant.errors import InputError
from cotenant.units import parse_percent, parse_seconds
from cotenant.verification.campaign import Rules


@dataclass(frozen=True, slots=True)
class Asked:
    """`urls` name replicas or models that run already, `logs` and `pids` where their logs are and which processes
    they are; `metrics` says where figures of cards come from (devices.py); times in seconds."""

    urls: Mapping[str, str] = field(default_factory=dict)
    logs: Mapping[str, Path] = field(default_factory=dict)
    pids: Mapping[str, int] = field(default_factory=dict)
    rules: Rules = field(default_factory=Rules)
    seed: int = 0
    state: Path | None = None
    fresh: bool = False
    metrics: str = "auto"
    sample_s: float = 0.25
    watch_s: float = 0.0
    every_s: float = 10.0
    calibration: bool = True
    key: str = ""


def asked_from(
    *,
    urls: Mapping[str, str] | None,
    logs: Mapping[str, str | os.PathLike[str]] | None,
    pids: Mapping[str, int | str] | None,
    quick: bool,
    max_kv: str,
    max_errors: int,
    max_tokens: int | None,
    max_concurrency: int | None,
    rounds: int,
    seed: int,
    metrics: str,
    watch: str | None,
    every: str,
    state: str | os.PathLike[str] | None,
    fresh: bool,
    calibration: bool,
    traffic: str | None = None,
    key_env: str | None = None,
) -> Asked:
    """Raises InputError for what cannot be meant."""
    every_s = parse_seconds(every)
    if every_s <= 0:
        raise InputError("between two readings some time must pass", path="--every")
    for name, url in (urls or {}).items():
        if not str(url).startswith(("http://", "https://")):
            raise InputError(f"{str(url)[:80]!r} is no http address", path=f"--url {name}")
    return Asked(
        urls=dict(urls or {}),
        logs={name: _file(name, place) for name, place in (logs or {}).items()},
        pids={name: _pid(name, pid) for name, pid in (pids or {}).items()},
        rules=Rules(
            max_kv=parse_percent(max_kv), most_errors=max_errors, quick=quick, rounds=rounds,
            most_tokens=max_tokens, most_concurrency=max_concurrency,
            open_s=0.0 if traffic is None else parse_seconds(traffic),
        ),
        seed=seed, state=None if state is None else Path(state), fresh=fresh, metrics=metrics,
        watch_s=0.0 if watch is None else parse_seconds(watch), every_s=every_s, calibration=calibration,
        key=_key(key_env),
    )  # fmt: skip


def _key(variable: str | None) -> str:
    if variable is None:
        return ""
    found = os.environ.get(variable, "")
    if not found or not found.isascii() or not found.isprintable():
        raise InputError(f"no key in the environment's {variable[:60]!r}", path="--key-env")
    return found


def _file(name: str, place: str | os.PathLike[str]) -> Path:
    path = Path(place).expanduser()
    if not path.is_file():
        raise InputError(f"no log at {os.fspath(place)[:200]}", path=f"--log {name}")
    return path


def _pid(name: str, pid: int | str) -> int:
    text = str(pid)
    if not text.isdecimal() or not text.isascii() or not 0 < int(text) < 2**31:
        raise InputError(f"{text[:40]!r} is no process id", path=f"--pid {name}")
    return int(text)
