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
        remote = cluster.remote(function)
        for waiting in [remote.remote(item) for item in items]:
            yield cluster.get(waiting)
    finally:
        cluster.shutdown()


def _connected(address: str) -> Any:
    try:
        import ray
    except ImportError:
        raise InputError("--ray needs Ray, which is not installed", hint="pip install 'cotenant[ray]'") from None
    try:
        ray.init(
            address=None if address == "local" else address, log_to_driver=False, logging_level="error",
            include_dashboard=False if address == "local" else None,
        )  # fmt: skip
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        first = (str(error).splitlines() or [""])[0]
        raise InputError(f"no Ray cluster at {address!r}: {first[:160]}", hint="ray start --head") from None
    return ray
