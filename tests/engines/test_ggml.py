"""ggml's allocator, replayed: best fit, work in place, inputs first, copies kept."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from cotenant.engines.llama_cpp.ggml import Graph, buffer_bytes

KIB = 1024


def test_a_chain_takes_two_places_at_a_time():
    g = Graph()
    first = g.new((256,), g.input(256))
    second = g.new((256,), first)
    g.expand(g.new((256,), second))
    assert buffer_bytes(g) == 3 * KIB - KIB  # the input's place serves the second result


def test_in_place_takes_over_a_tensor_that_nobody_else_reads():
    g = Graph()
    source = g.input(256)
    g.expand(g.inplace(g.inplace(g.new((256,), source))))
    assert buffer_bytes(g) == 2 * KIB
    shared = Graph()
    made = shared.new((256,), shared.input(256))
    shared.expand(shared.new((256,), shared.inplace(made), made))
    assert buffer_bytes(shared) == 3 * KIB


def test_views_have_no_memory_and_are_never_taken_over():
    g = Graph()
    made = g.new((256,), g.input(256))
    g.expand(g.inplace(g.view(made, 16, 16)))
    assert buffer_bytes(g) == 2 * KIB
    alone = Graph()
    alone.expand(alone.view(alone.new((256,), alone.input(256))))
    assert buffer_bytes(alone) == 2 * KIB


def test_holes_are_joined_and_used_before_the_buffer_grows():
    g = Graph()
    small, large = g.input(256), g.input(512)
    keep = g.expand(g.new((256,), small))  # behind both inputs: 3 KiB to 4 KiB
    g.expand(g.new((1,), large))  # into the small input's hole, which then joins the large one's
    g.expand(g.new((512,), keep))
    assert buffer_bytes(g) == 4 * KIB


def test_copies_multiply_every_input_and_keep_it():
    def graph() -> Graph:
        g = Graph()
        g.expand(g.new((256,), g.inplace(g.new((256,), g.input(256)))))
        return g

    assert buffer_bytes(graph(), copies=4) == buffer_bytes(graph()) + 4 * KIB


@given(st.lists(st.integers(1, 10_000), min_size=1, max_size=30))
def test_a_buffer_is_never_smaller_than_two_neighbours_nor_larger_than_all(sizes):
    g = Graph()
    last = g.input(1)
    for size in sizes:
        last = g.new((size,), last)
    g.expand(last)
    aligned = [-(-4 * size // 128) * 128 for size in (1, *sizes)]
    found = buffer_bytes(g)
    assert max(map(sum, pairwise(aligned))) <= found <= sum(aligned)
