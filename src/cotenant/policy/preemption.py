"""Who gives way where blocks run out: the lowest in rank, who then computes again from its first token.

vLLM takes the last of its running list; since nobody overtakes, that is the one with the greatest rank. Which
sequence asked for the block makes no difference: always the shortest tail of ranks goes that frees enough.
"""

from __future__ import annotations

from cotenant.policy.kinds import Ints


def must_preempt(wanted_blocks: int, free_blocks: int) -> bool:
    """Whether somebody has to give way."""
    return wanted_blocks > free_blocks


def victim(ranks: Ints, running: int) -> int:
    """The index, among the first `running` entries, of the greatest rank."""
    found = 0
    for index in range(1, running):
        if ranks[index] > ranks[found]:
            found = index
    return found
