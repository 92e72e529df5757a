"""What a prefix cache shares: whole blocks, and never all of a prompt.

The rules of vLLM (v1/core/kv_cache_manager.py): a block is known by what it holds and by all
that comes before it; only full blocks are kept; the last token must be computed for its logits, so that a prompt
which is cached whole computes its last block again.
"""

from __future__ import annotations


def most_hits(known_tokens: int, block_size: int) -> int:
    """Blocks that a sequence of `known_tokens` may take from the cache: all full ones before its last token."""
    return (known_tokens - 1) // block_size


def full_blocks(computed_tokens: int, block_size: int) -> int:
    """Blocks that are full, and may be shared."""
    return computed_tokens // block_size


def chunk_needs(blocks: int, hits: int, idle_hits: int) -> int:
    """Free blocks that a first chunk takes: those beyond its hits, and those of its hits that nobody holds (they
    count as free until then)."""
    return blocks - hits + idle_hits
