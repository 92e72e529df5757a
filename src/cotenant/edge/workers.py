"""The same question of many values: in this process, in processes of this machine, or on a Ray cluster.

What comes back is in the order of the values, and the same wherever it was worked out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from cotenant.edge.apart import each_apart
from cotenant.errors import InputError

T = TypeVar("T")
R = TypeVar("R")
_ANSWERS_S = 10.0


def each(
    function: Callable[[T], R], items: Sequence[T], *, workers: int | None = None, ray: str | None = None
) -> Iterator[R]:
    """`function` of each item, in order. `ray` is a cluster's address (``auto``: the one this machine belongs to,
    ``local``: one that is started for this), which must have the same cotenant installed; without it `workers`
    processes (None: as many as cores). Raises InputError where Ray is missing or does not answer.
    """
    return each_apart(function, items, workers=workers) if ray is None else _on_ray(function, items, ray)


def _on_ray(function: Callable[[T], R], items: Sequence[T], address: str) -> Iterator[R]:
    cluster = _connected(address)
    try:
        remote, shared = cluster.remote(_called), cluster.put(function)  # sent once, however many items there are
        for waiting in [remote.remote(shared, item) for item in items]:
            yield cluster.get(waiting)
    finally:
        cluster.shutdown()


def _called(function: Callable[[T], R], item: T) -> R:
    return function(item)


def _connected(address: str) -> Any:
    try:
        import ray
    except ImportError:
        hint = "pip install '.[ray]' in the clone"
        raise InputError("--ray needs Ray, which is not installed", hint=hint) from None
    _refuse_silence(address)
    try:
        ray.init(
            address=None if address == "local" else address, log_to_driver=False, logging_level="error",
            include_dashboard=False if address == "local" else None,
        )  # fmt: skip
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        first = (str(error).splitlines() or [""])[0]
        raise InputError(f"no Ray cluster at {address!r}: {first[:160]}", hint="ray start --head") from None
    return ray


def _refuse_silence(address: str) -> None:
    """Ray itself waits for minutes where nobody listens."""
    import socket

    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon:
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_ANSWERS_S).close()
    except (OSError, ValueError, OverflowError) as error:
        raise InputError(f"no Ray cluster at {address!r}: {error}", hint="ray start --head") from None
