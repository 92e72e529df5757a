"""Prefill and decode apart: who shares the next batch of either kind."""

from __future__ import annotations

from cotenant.policy.kinds import Ints


def batch_within(tokens: Ints, waiting: int, budget: int) -> int:
    """How many of the first `waiting` requests fit a batch of `budget` tokens, in order, nobody overtaking.

    Prompts are read whole (no chunks), and a request too long for any batch still goes alone.
    """
    left = budget
    for index in range(waiting):
        if tokens[index] > left:
            return max(index, 1)
        left -= tokens[index]
    return waiting
