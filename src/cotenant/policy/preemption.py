"""Who gives way where blocks run out: the lowest in rank, who then computes again from its first token, or comes
back from host memory.

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


def cheapest(priorities: Ints, ranks: Ints, again: Ints, frees: Ints, short: int, running: int) -> int:
    """The index of who costs least to send away: of the lowest priority, what it takes to compute again (`again`)
    for each of the `short` blocks that its leaving frees; of equals the greatest rank.

    The least rank of all stays, so that somebody always gets to the end; alone, it is the answer.
    """
    best, found = 0, -1
    for index in range(1, running):
        if ranks[index] < ranks[best]:
            best = index
    for index in range(running):
        if index == best or frees[index] <= 0:
            continue
        if found < 0 or priorities[index] < priorities[found]:
            found = index
        elif priorities[index] == priorities[found]:
            ours = again[index] * min(frees[found], short)
            theirs = again[found] * min(frees[index], short)
            if ours < theirs or (ours == theirs and ranks[index] > ranks[found]):
                found = index
    return found if found >= 0 else victim(ranks, running)


def held_back(running: int, num_blocks: int) -> int:
    """Blocks that must be left free for one to come back from host memory: a hundredth of the pool, as vLLM's V0
    engine had it (`watermark`, vllm/core/block_manager.py), so that it is not sent away with the next block. None
    where nobody runs: nobody would take them."""
    return num_blocks // 100 if running > 0 else 0
