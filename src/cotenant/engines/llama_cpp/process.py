"""What a llama-server process on a processor holds beside the buffers that it prints, part by part.

    process = program + rest + vocabulary + 3 graphs + slots x candidates

program     pages of its own file and of its libraries that were touched (/proc/PID/smaps)
rest        stacks, the server's tables, heap that is free but not given back; an interpreter, where one runs it
vocabulary  an entry is a text with score and kind, a node of a hash table and its piece as it is written out; a
            merge is a node with two texts (src/llama-vocab.cpp: ``id_to_token``, ``token_to_id``,
            ``cache_token_to_piece``, ``bpe_ranks``); byte pairs are split by a table of all code points
            (src/unicode.cpp), 2 bytes each
graphs      one reserved and two that are used again, each an arena of ``graph_max_nodes`` tensors that is written
            with zeros (src/llama-graph.cpp, ``llm_graph_result::reset``; src/llama-context.cpp)
candidates  12 bytes (``llama_token_data``) an entry, for each slot that samples (common/sampling.cpp)

Two kinds of program stand apart: a binary compiled with today's C++ strings (32 bytes, short texts inside), and
the xllamacpp wheel, a library in a Python process, compiled with the strings of before 2015 (8 bytes and a block
of the heap each; the hash table shares its texts with the list). Nodes are libstdc++'s, each rounded up as
glibc's malloc does; they agree with the blocks that builds 11434 and 11549 allocate, counted one by one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import dropwhile
from types import MappingProxyType

from cotenant.domain.interval import Interval
from cotenant.domain.llama_cpp import LlamaCppOptions
from cotenant.domain.model import ModelSpec
from cotenant.units import MIB


@dataclass(frozen=True, slots=True)
class Program:
    """A kind of program: its pages, its rest, and bytes of an entry and of a merge. `left_percent` of the
    vocabulary stay in a thread's arena where the reader's own copy of it was freed (low, value, high)."""

    pages: Interval
    rest: Interval
    entry: int
    merge: int
    left_percent: tuple[int, int, int]


PROGRAMS: Mapping[str, Program] = MappingProxyType(
    {
        # 7.1 of 10.8 MiB of a static build 11434, libstdc++ and libc 4.0; releases bring more libraries
        "native": Program(
            Interval(9 * MIB, round(11.1 * MIB), 26 * MIB), Interval(2 * MIB, round(2.7 * MIB), 5 * MIB),
            entry=40 + 64 + 32 + 4, merge=96, left_percent=(0, 0, 0),
        ),
        # 12.0 of 101 MiB of build 11549's library, libpython 5.1, C libraries 4.9; the interpreter's objects 7
        "wheel": Program(
            Interval(20 * MIB, 22 * MIB, 26 * MIB), Interval(8 * MIB, round(9.4 * MIB), 12 * MIB),
            entry=16 + 48 + 48 + 56 + 4, merge=48 + 2 * 48, left_percent=(0, 10, 20),
        ),
    }
)  # fmt: skip
_POINTS = 0x110000 * 2
_CANDIDATE = 12
_GRAPHS = 3
_TENSOR, _LEAST_NODES = 336 + 32, 1024  # ggml_tensor and its object
_BESIDE_TENSOR = Interval(1200, 2200, 3200)  # a tensor's own record in model, cache and allocator
_LONG = Interval(0, 4, 16)  # texts of an entry that are longer than a string holds inside
# Where nothing tells: vocabularies of 32,000 are SentencePiece's, and Gemma's; others have about a merge an entry,
# those converted from tiktoken up to 2.3 (Llama 3: 280,147 of 128,256).
_SENTENCE_PIECE = 33_000
_MERGES_PERCENT = (90, 100, 230)
# libstdc++'s steps of a growing table (src/c++11/hashtable_c++0x.cc), and ggml's for its sets (ggml_hash_size).
_BUCKETS = (1, 13, 29, 59, 127, 257, 541, 1109, 2357, 5087, 10273, 20753, 42043, 85229, 172933, 351061, 712697)
_SETS = (1031, 2053, 4099, 8209, 16411, 32771, 65537, 131101, 262147, 524309, 1048583)
# graph_max_nodes: these unroll a recurrence over tokens.
_UNROLLED = frozenset({
    "qwen3next", "qwen3_next", "kimi-linear", "kimi_linear", "qwen35", "qwen35moe", "qwen3_5", "qwen3_5_moe",
    "minimax-01", "minimax", "deepseek4", "bailingmoe3",
})  # fmt: skip


def process_bytes(model: ModelSpec, options: LlamaCppOptions) -> Interval:
    """Resident bytes of a server that uses all of its slots, without weights, cache and compute buffers. Where
    nobody says which kind of program it is, a binary is assumed and the interval holds both."""
    if options.program:
        return _process(model, options, PROGRAMS[options.program])
    native, wheel = (_process(model, options, PROGRAMS[kind]) for kind in ("native", "wheel"))
    return Interval(native.low, native.value, wheel.high)


def _process(model: ModelSpec, options: LlamaCppOptions, program: Program) -> Interval:
    entries = model.vocab_size
    vocabulary = _vocabulary(model, program)
    candidates = _CANDIDATE * entries * (options.n_parallel or 1)
    tensors = _num_tensors(model)
    used = Interval(_CANDIDATE * entries, candidates, candidates) if entries else Interval.exact(0)
    graphs = Interval.exact(_GRAPHS * graph_bytes(max_nodes(model, options)))
    return program.pages + program.rest + vocabulary + graphs + _BESIDE_TENSOR.scaled(tensors) + used


def _vocabulary(model: ModelSpec, program: Program) -> Interval:
    entries, merges = model.vocab_size, _merges(model)
    size = Interval.exact(entries * program.entry + 8 * _buckets(entries)) + _LONG.scaled(entries)
    if merges.high:
        low, value, high = (
            each * program.merge + 8 * _buckets(each) for each in (merges.low, merges.value, merges.high)
        )
        size = (size + Interval(low, value, high)).shifted(_POINTS)
    low, value, high = program.left_percent
    left = Interval(size.low * low // 100, size.value * value // 100, size.high * high // 100)
    return size + left


def _merges(model: ModelSpec) -> Interval:
    if model.merges is not None:
        return Interval.exact(model.merges)
    if model.family.startswith("gemma") or model.vocab_size < _SENTENCE_PIECE:
        return Interval.exact(0)
    low, value, high = _MERGES_PERCENT
    entries = model.vocab_size
    return Interval(entries * low // 100, entries * value // 100, entries * high // 100)


def _num_tensors(model: ModelSpec) -> int:
    return sum(max(1, len(group.layers)) for group in model.parameters if not group.draft)


def max_nodes(model: ModelSpec, options: LlamaCppOptions) -> int:
    """How many tensors a graph may have (``llama_context::graph_max_nodes``, build 11434)."""
    tensors = _num_tensors(model)
    if model.family in _UNROLLED:
        tokens = min(options.n_ubatch or 512, options.n_ctx or 512)
        return max(40 * tokens, 32 * tensors)
    return max(_LEAST_NODES, 8 * tensors)


def graph_bytes(nodes: int) -> int:
    """Bytes of the arena of one graph (ggml.c, ``ggml_graph_nbytes``): nodes, leaves, a set of twice as many."""
    size = _next(2 * nodes, _SETS)
    return nodes * (_TENSOR + 16) + size * 12 + size // 8


def _buckets(entries: int) -> int:
    return _next(entries, _BUCKETS)


def _next(number: int, steps: tuple[int, ...]) -> int:
    return next(dropwhile(lambda step: step < number, steps), 2 * number)
