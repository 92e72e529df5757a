"""Who joins a step: continuous batching with chunked prefill, first by rank, nobody overtaking.

The rules of vLLM's scheduler (v1/core/sched/scheduler.py): running sequences first, one token each; a prompt that
was begun goes on with what is left of the budget; then waiting requests join, while the budget, the slots and the
blocks last and nobody was preempted in this step.
"""

from __future__ import annotations

from cotenant.policy.ledger import blocks_of


def can_serve(input_tokens: int, output_tokens: int, max_model_len: int, block_size: int, num_blocks: int) -> bool:
    """Whether a replica can ever serve such a request: within its longest sequence, and within its whole pool.

    The last token is never read back, so a sequence holds one less than its length.
    """
    total = input_tokens + output_tokens
    return total <= max_model_len and blocks_of(total - 1, block_size) <= num_blocks


def chunk_tokens(remaining: int, budget: int) -> int:
    """Prompt tokens that a step reads of one sequence: all that remain, or what the budget has left."""
    return min(remaining, budget)


def may_join(
    running: int, max_num_seqs: int, budget: int, chunk_blocks: int, free_blocks: int, preempted: int
) -> bool:
    """Whether the first of the queue joins this step, with the `chunk_blocks` of its first chunk."""
    return preempted == 0 and running < max_num_seqs and budget > 0 and chunk_blocks <= free_blocks
