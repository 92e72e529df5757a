"""Which of a model's replicas takes a request."""

from __future__ import annotations

from cotenant.policy.kinds import Ints


def round_robin(turn: int, replicas: int) -> int:
    """One after the other, whatever their load."""
    return turn % replicas


def least_loaded(loads: Ints, replicas: int) -> int:
    """The one with the least load (requests waiting and running); of equals the first."""
    found = 0
    for index in range(1, replicas):
        if loads[index] < loads[found]:
            found = index
    return found
