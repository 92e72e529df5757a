"""An eager prefill, tensor by tensor, as a decoder's modules hold them, for an engine that counts what is kept.

    layer  = normed input and new residual, query-key-value, attention's output, its projection, normed again,
             gate-up, activation, product, down; callers hold a layer's inputs until it returns
    head   = logits of every prompt token where the warm-up asks for them, each rank's part beside the whole, and
             their log-softmax (in place, or beside them)

Modules of text_generation_server/models/custom_modeling/flash_llama_modeling.py and
models/flash_causal_lm.py, generate_token. Three layers reach the steady state: what a fourth needs, a third gave.
"""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.estimation.caching_allocator import Block, CachingAllocator
from cotenant.units import MIB

_ELEMENT = 2
_LAYERS = 3
_CUBLAS_WORKSPACE = 8 * MIB + 512 * 1024  # aten/src/ATen/cuda/CUDABlas: 8.5 MiB below Hopper, 32 MiB there


@dataclass(frozen=True, slots=True)
class EagerShape:
    """Elements a token of one rank: `attention` are query, key and value, `output` what their projection reads,
    `inner` gate and up together. `vocabulary`: logits of each prompt token, 0 where none are asked for;
    `logit_copies`: 2 where the log-softmax stands beside them; `sampler_bytes`: what the first
    tokens' sampling takes. `output_copies`: how many partial results a
    quantised linear layer writes before it sums them."""

    tokens: int
    hidden: int
    attention: float
    output: float
    inner: float
    vocabulary: int
    ranks: int
    logit_copies: int
    sampler_bytes: int
    output_copies: int


@dataclass(frozen=True, slots=True)
class Kept:
    """`peak_bytes`: alive at once; `reserved_bytes`: what the allocator holds after the run."""

    peak_bytes: int
    reserved_bytes: int


def eager_run(shape: EagerShape) -> Kept:
    """A prefill of `shape.tokens` prompt tokens from an empty cache."""
    arena = CachingAllocator()
    arena.take(_CUBLAS_WORKSPACE)
    for _ in range(3):  # input ids, positions, slots: 64-bit
        arena.take(8 * shape.tokens)
    hidden, residual = arena.take(_bytes(shape, shape.hidden)), None
    for _ in range(_LAYERS):
        hidden, residual = _layer(arena, shape, hidden, residual)
    normed = arena.take(_bytes(shape, shape.hidden))
    arena.give(hidden, *(() if residual is None else (residual,)))
    if shape.vocabulary:
        _head(arena, shape, normed)
    else:
        arena.give(arena.take(shape.sampler_bytes))
    return Kept(arena.peak_bytes, arena.reserved_bytes)


def _bytes(shape: EagerShape, width: float) -> float:
    return _ELEMENT * shape.tokens * width


def _layer(
    arena: CachingAllocator, shape: EagerShape, hidden: Block, residual: Block | None
) -> tuple[Block, Block]:
    held = [hidden, arena.take(_bytes(shape, shape.hidden))]
    if residual is not None:
        held += [residual, arena.take(_bytes(shape, shape.hidden))]
    scores = _linear(arena, shape, shape.attention)
    output = arena.take(_bytes(shape, shape.output))
    held.append(_linear(arena, shape, shape.hidden))
    arena.give(scores, output)
    held.append(arena.take(_bytes(shape, shape.hidden)))
    stream = arena.take(_bytes(shape, shape.hidden))
    gates = _linear(arena, shape, shape.inner)
    active = arena.take(_bytes(shape, shape.inner / 2))
    product = arena.take(_bytes(shape, shape.inner / 2))
    arena.give(active)
    down = _linear(arena, shape, shape.hidden)
    arena.give(gates, product, *held)
    return down, stream


def _linear(arena: CachingAllocator, shape: EagerShape, width: float) -> Block:
    if not shape.output_copies:
        return arena.take(_bytes(shape, width))
    parts = arena.take(shape.output_copies * _bytes(shape, width))
    result = arena.take(_bytes(shape, width))
    arena.give(parts)
    return result


def _head(arena: CachingAllocator, shape: EagerShape, normed: Block) -> None:
    logits = arena.take(_bytes(shape, shape.vocabulary))
    if shape.ranks > 1:
        arena.give(arena.take(_bytes(shape, shape.vocabulary / shape.ranks)))
    arena.give(normed, arena.take(shape.sampler_bytes))
    if shape.logit_copies > 1:
        arena.give(arena.take(_bytes(shape, shape.vocabulary)))
    arena.give(logits)
