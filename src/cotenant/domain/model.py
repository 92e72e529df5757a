"""What a model is made of: its parameters by role, and what each layer must remember per token."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from math import prod

from cotenant.domain.storage import Storage


class Role(StrEnum):
    """What a tensor does; quantisation formats decide by role what they shrink."""

    EMBEDDING = "embedding"
    HEAD = "head"
    ATTENTION = "attention"
    MLP = "mlp"
    EXPERT = "expert"
    ROUTER = "router"
    NORM = "norm"
    STATE = "state"  # recurrent mixers: linear attention, Mamba
    VISION = "vision"  # vision or audio tower and its projector
    OTHER = "other"


class Split(StrEnum):
    """How tensor parallel divides a tensor over `t` ranks."""

    NONE = "none"  # every rank holds all of it
    EVEN = "even"  # 1/t each
    KV = "kv"  # by key-value heads: replicated once t exceeds their number
    VOCAB = "vocab"  # rows padded up to a multiple of 64 (vLLM, SGLang), then 1/t each


class Stage(StrEnum):
    """Where pipeline parallel puts a tensor that belongs to no numbered layer."""

    FIRST = "first"
    LAST = "last"
    EVERY = "every"


@dataclass(frozen=True, slots=True)
class ParameterGroup:
    """Tensors of one shape and one role, `copies` of them in each of `layers` (or once, outside any layer).

    `shape` is (rows, columns) = (outputs, inputs) for a matrix, as safetensors stores a linear layer; a
    leading dimension counts stacked experts. `kv_heads` is set where `split` is KV. `own_storage` is what the
    checkpoint's own recipe says of these tensors: one Storage, () = they keep the model's dtype, None = nothing.
    """

    name: str
    role: Role
    shape: tuple[int, ...]
    split: Split = Split.NONE
    copies: int = 1
    layers: tuple[int, ...] = ()
    stage: Stage = Stage.FIRST
    kv_heads: int = 0
    dtype: str = ""  # set where it differs from the model's own, e.g. "fp32" for a state's A_log
    tied: bool = False  # a second name for a tensor already counted: no parameters of its own
    draft: bool = False  # multi-token prediction: stored with the model, loaded only for speculative decoding
    stored_bytes: int | None = None  # of all its tensors together, where a file's header says so
    own_storage: tuple[Storage, ...] | None = None
    host: bool = False  # a table that engines look rows up in from host memory: no bytes of a card

    @property
    def count(self) -> int:
        """How many tensors."""
        return self.copies * (len(self.layers) or 1)

    @property
    def elements(self) -> int:
        """Parameters in all of them; a tied tensor has none of its own."""
        return 0 if self.tied else self.count * prod(self.shape)


class AttentionKind(StrEnum):
    """What a layer keeps of the past."""

    FULL = "full"  # keys and values of every token
    SLIDING = "sliding"  # of the last `window` tokens
    CHUNKED = "chunked"  # of the current chunk of `window` tokens (Llama 4)
    LATENT = "latent"  # MLA: one compressed row a token, shared by all heads
    RECURRENT = "recurrent"  # a state of fixed size a sequence (Mamba, linear attention)
    CROSS = "cross"  # keys and values of the encoder's or the image's tokens
    NONE = "none"  # nothing (encoder-only; layers that reuse another layer's cache)


@dataclass(frozen=True, slots=True)
class RecurrentState:
    """Elements that a recurrent layer keeps for each sequence, split evenly by tensor parallel.

    `conv_elements` are kept in the model's dtype, `state_elements` in `state_dtype`. `conv_steps`: positions that
    the convolution looks back (its kernel less one). `chunk_tokens`: what the scan takes at once.
    """

    conv_elements: int
    state_elements: int
    state_dtype: str = ""  # "" = the model's own dtype
    conv_steps: int = 3
    chunk_tokens: int = 1


@dataclass(frozen=True, slots=True)
class LayerGroup:
    """Layers that cache alike. Head counts are the whole model's, before any split over ranks.

    MLA keeps `key_width` = kv_lora_rank + qk_rope_head_dim elements a token and no values
    (`value_width` 0, `kv_heads` 1); an indexer (DeepSeek sparse attention) adds `index_width` bytes.
    """

    kind: AttentionKind
    layers: tuple[int, ...]
    query_heads: int = 0
    kv_heads: int = 0
    key_width: int = 0
    value_width: int = 0
    window: int | None = None
    index_width: int = 0
    state: RecurrentState | None = None

    @property
    def num_layers(self) -> int:
        """Layers in the group."""
        return len(self.layers)

    @property
    def elements_per_token(self) -> int:
        """Cache elements of one token over the group's layers, windows apart."""
        if self.kind in (AttentionKind.RECURRENT, AttentionKind.NONE):
            return 0
        return self.num_layers * self.kv_heads * (self.key_width + self.value_width)


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A model's structure, from its config.json, its file headers or raw figures.

    `stored_bytes` is the exact size of the weights as stored, where headers were read; otherwise sizes are
    computed from `parameters` and the quantisation format. `quantization` names the format that the
    checkpoint is stored in ("" = unquantised), `cache_dtype` what it wants its KV cache kept in.
    `max_model_len` is the longest sequence that the model takes. `merges` are the pairs of a byte-pair
    vocabulary, 0 for other kinds, None where nothing tells. `rotary_share`: of a head, what turns with its
    position; `positions_in_time`: a position has a part for a video's time.
    """

    name: str
    architecture: str
    family: str
    layer_groups: tuple[LayerGroup, ...]
    parameters: tuple[ParameterGroup, ...]
    num_layers: int
    hidden_size: int
    intermediate_size: int
    vocab_size: int
    max_model_len: int
    dtype: str = "bf16"
    quantization: str = ""
    cache_dtype: str = ""
    num_experts: int = 0
    experts_per_token: int = 0
    modalities: tuple[str, ...] = ("text",)
    encoder_only: bool = False
    stored_bytes: int | None = None
    source: str = ""
    notes: tuple[str, ...] = field(default=())
    merges: int | None = None
    rotary_share: float = 1.0
    positions_in_time: bool = False

    @property
    def num_parameters(self) -> int:
        """The model's parameters, tied ones once; draft layers apart, as publishers count them."""
        return sum(group.elements for group in self.parameters if not group.draft)

    @property
    def num_draft_parameters(self) -> int:
        """Parameters of the multi-token prediction layers that the checkpoint holds beside the model."""
        return sum(group.elements for group in self.parameters if group.draft)

    def parameters_of(self, *roles: Role) -> Iterator[ParameterGroup]:
        """The groups with one of `roles`."""
        return (group for group in self.parameters if group.role in roles)

    @property
    def has_cache(self) -> bool:
        """Whether the engine keeps a KV cache or a state for this model at all."""
        return any(group.kind is not AttentionKind.NONE for group in self.layer_groups)
