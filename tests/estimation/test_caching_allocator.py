"""PyTorch's caching allocator in small: figures by hand, and laws under random orders of taking and giving."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.estimation.caching_allocator import CachingAllocator
from cotenant.estimation.eager_run import EagerShape, eager_run
from cotenant.units import GIB, MIB


def test_segments_have_the_sizes_of_the_allocator():
    """2 MiB for small tensors, 20 MiB for those below 10 MiB, else steps of 2 MiB."""
    for size, segment in ((1, 2 * MIB), (MIB, 2 * MIB), (MIB + 1, 20 * MIB), (10 * MIB, 10 * MIB),
                          (11 * MIB + 5, 12 * MIB)):  # fmt: skip
        arena = CachingAllocator()
        arena.take(size)
        assert arena.reserved_bytes == segment


def test_a_freed_block_serves_what_fits_and_no_more():
    arena = CachingAllocator()
    first = arena.take(100 * MIB)
    arena.give(first)
    arena.take(60 * MIB)  # split off
    arena.take(40 * MIB)  # the rest, exactly
    assert arena.reserved_bytes == 100 * MIB
    arena.take(40 * MIB)
    assert arena.reserved_bytes == 140 * MIB


def test_two_freed_neighbours_of_different_segments_never_join():
    arena = CachingAllocator()
    arena.give(arena.take(100 * MIB), arena.take(100 * MIB))
    arena.take(200 * MIB)
    assert arena.reserved_bytes == 400 * MIB
    assert arena.peak_bytes == 200 * MIB


@given(st.lists(st.tuples(st.integers(1, 64 * MIB), st.booleans()), max_size=60))
def test_what_is_reserved_holds_what_is_alive_and_all_of_it_joins_again(orders):
    arena, alive = CachingAllocator(), []
    for size, frees in orders:
        alive.append(arena.take(size))
        if frees and len(alive) > 1:
            arena.give(alive.pop(len(alive) // 2))
        assert arena.allocated_bytes == sum(block.size for block in alive)
        assert arena.allocated_bytes <= arena.peak_bytes <= arena.reserved_bytes
    reserved = arena.reserved_bytes
    arena.give(*alive)
    assert arena.allocated_bytes == 0
    assert sum(block.size for block in arena._free) == reserved
    assert all(block.before is None and block.after is None for block in arena._free)


SHAPE = EagerShape(
    tokens=32_768, hidden=4096, attention=6144, output=4096, inner=28_672, vocabulary=32_000, ranks=1,
    logit_copies=2, sampler_bytes=0, output_copies=0,
)  # fmt: skip


def test_logits_do_not_fit_in_what_the_layers_freed():
    """32,768 tokens of a 7B: 1.75 GiB of gate-up cannot hold 1.95 GiB of logits, so both stay reserved."""
    kept = eager_run(SHAPE)
    assert kept.peak_bytes / GIB == pytest.approx(5.26, abs=0.01)
    assert kept.reserved_bytes / GIB == pytest.approx(9.68, abs=0.01)


@given(st.integers(1, 20_000), st.integers(1, 40_000), st.sampled_from((1, 2, 4, 8)))
def test_an_eager_run_keeps_at_least_its_peak(tokens, vocabulary, ranks):
    kept = eager_run(EagerShape(tokens, 1024, 3072, 1024, 8192, vocabulary, ranks, 2, 1000, 0))
    assert kept.reserved_bytes >= kept.peak_bytes >= 2 * tokens * vocabulary
