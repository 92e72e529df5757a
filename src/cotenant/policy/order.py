"""The order of service."""

from __future__ import annotations

from collections.abc import Sequence


def ranks(priorities: Sequence[int], arrivals: Sequence[int]) -> list[int]:
    """The rank of each request: higher priority first, then earlier arrival, then as listed."""
    order = sorted(range(len(arrivals)), key=lambda one: (-priorities[one], arrivals[one], one))
    found = [0] * len(order)
    for rank, request in enumerate(order):
        found[request] = rank
    return found
