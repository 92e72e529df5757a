"""Blocks of KV cache: how many a sequence holds, and when it opens the next one."""

from __future__ import annotations

from cotenant.policy.kinds import Ints


def blocks_of(tokens: int, block_size: int) -> int:
    """Blocks that hold `tokens` tokens; the last one may be partly filled."""
    return (tokens + block_size - 1) // block_size


def opens_block(held_tokens: int, block_size: int) -> bool:
    """Whether one more token needs a new block: those that are held are full."""
    return held_tokens % block_size == 0


def phase_of(held_tokens: int, step: int, block_size: int) -> int:
    """Where a decoding sequence stands in its block, seen from step 0: alike for all steps to come.

    One that holds `held_tokens` at step `step` opens a block at every later step n with (phase + n) divisible by
    `block_size`. A count of sequences for each phase then says how many blocks any step opens.
    """
    return (held_tokens - step) % block_size


def opened_at(counts: Ints, step: int, block_size: int) -> int:
    """Blocks that step `step` opens, from the number of sequences in each phase."""
    return counts[(-step) % block_size]


def opened_within(counts: Ints, step: int, steps: int, sequences: int, block_size: int) -> int:
    """Blocks that the `steps` steps from `step` on open: each sequence one in every `block_size` steps."""
    rounds = steps // block_size
    opened = sequences * rounds
    phase = (-step) % block_size
    for _ in range(steps - rounds * block_size):
        opened += counts[phase]
        phase = phase - 1 if phase > 0 else block_size - 1
    return opened


def steps_within(counts: Ints, step: int, wanted: int, sequences: int, free_blocks: int, block_size: int) -> int:
    """The most steps from `step` on, `wanted` at most, whose blocks are free."""
    if sequences * blocks_of(wanted, block_size) <= free_blocks:
        return wanted
    steps = free_blocks // sequences * block_size
    free = free_blocks % sequences
    phase = (-step - steps) % block_size
    while steps < wanted:
        free -= counts[phase]
        if free < 0:
            return steps
        steps += 1
        phase = phase - 1 if phase > 0 else block_size - 1
    return wanted
