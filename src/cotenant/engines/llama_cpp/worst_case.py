"""What llama.cpp reserves for at start, and which part of the work a device does."""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.engines.llama_cpp.shape import LayerShape


@dataclass(frozen=True, slots=True)
class Reserve:
    """What is reserved for: `tokens` of a micro-batch with `outputs` rows of logits, `sequences` slots; the cache
    has `cells` a stream (`window_cells` in sliding layers). `mask_bytes` is an element of the attention mask as
    the program fills it in; where it is 4 and attention is fused, the device holds an f16 copy beside.
    `late_outputs`: rows are picked behind the last layer, not in it. `vectors` inputs of embeddings are
    held beside the token ids though none is used. `row_stores`: rows are stored by index (set_rows), an i64
    each. `joined`: one matrix makes queries, keys and values, one makes gate and up of the experts; where a model
    joins its queries anyway, `copies_joined` says that the parts are copied out. `rotary_first`: MLA's keys begin
    with their rotary part. `values_across`: encoders turn values before anything else of attention.
    `converts_keys` and `converts_values`: the result of fused attention has room behind it for the whole cache in
    f16 (CUDA and HIP with quantised caches)."""

    tokens: int
    outputs: int
    sequences: int
    streams: int
    cells: int
    window_cells: int
    flash: bool
    mask_bytes: int
    vectors: int
    row_stores: bool
    fused_recurrence: bool
    glu: bool  # gate and up are joined by one operation with a result of its own
    values_first: bool = True  # values are computed before keys; caches with windows keep the older order
    late_outputs: bool = False
    joined: bool = False
    copies_joined: bool = False
    rotary_first: bool = False
    values_across: bool = False
    converts_keys: bool = False
    converts_values: bool = False


@dataclass(frozen=True, slots=True)
class Part:
    """What one device computes: `first` begins with the embeddings, `last` ends with the logits."""

    layers: tuple[LayerShape, ...]
    first: bool
    last: bool
    host: bool = False  # the CPU, which also holds the program's inputs
    inputs_apart: bool = False  # those lie in buffers of their own
    reordered: bool = False  # in the order of Vulkan
    head_copy_bytes: int = 0  # the output layer, where it is copied over from the host
