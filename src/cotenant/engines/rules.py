"""What an estimate must know of an engine: plain data by version, and a few small pure functions.

A new engine is one file in this room that answers `EngineRules`; the general formulas of `estimation` read
the data below and never ask which engine it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from cotenant.domain.engine import EngineSettings, Version
from cotenant.domain.estimate import HostMemory, Term
from cotenant.domain.gpu import GpuSpec
from cotenant.domain.interval import Interval
from cotenant.domain.model import ModelSpec, Role
from cotenant.domain.workload import Adapter
from cotenant.engines.held import AS_STORED, Held, Loaded


class Capacity(StrEnum):
    """Which total of a card an engine's fraction multiplies."""

    CUDA = "cuda"
    DRIVER = "driver"


class Printed(StrEnum):
    """What a log's number of KV cache tokens means."""

    BLOCKS = "blocks"  # blocks / groups x tokens a block
    CONCURRENCY = "concurrency"  # (pool / one longest sequence) x max_model_len
    TOKENS = "tokens"  # those of the layers that keep everything


class Packing(StrEnum):
    """How pages of several sizes beside a window of MLA rows share one block."""

    APART = "apart"  # each kind counts in blocks by its bytes
    TUPLES = "tuples"  # a page of every size, as many times as the longest kind has layers
    SLOTS = "slots"  # of every size as many pages as any group has
    LARGEST = "largest"  # the largest group's pages


class Online(StrEnum):
    """How an engine quantises a 16-bit checkpoint while it loads it."""

    WHOLE = "whole"  # all in 16 bits first, then tensor by tensor
    HELD = "held"  # the 16 bits stay until everything is quantised
    STREAMED = "streamed"  # a layer at a time


class AdapterPlace(StrEnum):
    """Where an engine counts its LoRA slots."""

    WEIGHTS = "weights"  # made before the weights are read off: printed with them
    BUDGET = "budget"  # made after, but measured with what the process holds
    NOWHERE = "nowhere"  # made after, between two snapshots: on top of the budget


class Base(StrEnum):
    """What an engine's fraction is a fraction of."""

    CARD = "card"  # the card's whole capacity
    AT_START = "at start"  # what is free once the process stands, before the weights
    REST = "rest"  # what is free after weights and warm-up


@dataclass(frozen=True, slots=True)
class PoolRules:
    """How the pool is sized from an engine's fraction.

        CARD      pool = kept x (fraction x usable x capacity - spent - first) + first
        AT_START  pool = fraction x (capacity - others - what the process took before) - spent
        REST      pool = fraction x (capacity - others - spent)

    `spent` are weights, runtime inside the budget and, with `activations_inside`, the warm-up's peak (else that
    needs what the fraction leaves). `first`: the cache of the warm-up's own batch, which `kept` spares and the
    pool never falls below; only with `warms_cache`, and with `warms_answers` with room for whole answers.
    `of_free`: the pool is cut from what is really free, so that only what comes after it can overflow the card.
    `holds_longest`: refuses to start when the pool cannot hold one longest sequence; with `infers_longest` only
    where max_input_tokens is told or has a default (else it takes what the pool holds).
    `unspared`: the pool takes every byte that the warm-up leaves, and up to this part of it may be missed once
    requests of other sizes come, which do not find their place in the blocks that the warm-up was served from.
    """

    base: Base = Base.CARD
    usable: float = 1.0
    kept: float = 1.0
    activations_inside: bool = True
    warms_cache: bool = False
    warms_answers: bool = True
    of_free: bool = False
    holds_longest: bool = True
    infers_longest: bool = False
    unspared: float = 0.0

    def needs_longest(self, settings: EngineSettings) -> bool:
        """Whether it refuses to start with those settings when the pool cannot hold one longest sequence."""
        return self.holds_longest and not (self.infers_longest and settings.max_input_tokens is None)


@dataclass(frozen=True, slots=True)
class CacheRules:
    """How the KV pool is cut into pages.

    `block_size` and `latent_block_size` (MLA) are tokens a block. `hybrid`: layers that forget (windows, chunks)
    get pages of their own and give them back; else every attention layer is reserved as if it kept all tokens;
    `hybrid_chunks`: also where some layers attend to chunks. Hybrid layers are dealt into groups of equal size:
    the smallest kind's number of layers, or the largest's where that is below `padding_ratio` times the smallest.
    A windowed layer keeps the window and `batches_in_flight` x max_num_batched_tokens more. Attention blocks grow
    in steps of `state_alignment` tokens until a recurrent state fits in a page; a sequence holds `state_blocks`
    of a state, and with `draft_states` one more for each token that a draft proposes. Where prefixes are cached
    (unasked with `caches_states`) it holds `cached_states` more, or the state behind every block for the
    architectures of `every_state`, in blocks of whole scans.
    `stored_dtype`: a cache of dtype auto takes the checkpoint's own where that names one.
    `rest_on_last_stage`: layers that do not divide over pipeline stages all go to the last one.
    `checks_whole_model`: at start every stage's room is held against one longest sequence of all layers.
    `packed`: architectures whose cache has a format of its own, with its bytes an element.
    `own_pools`: layers that keep everything, windows and states have pools of their own, sized against each
    other: a window's pool has `window_ratio` tokens for each of the first, the states' pool `state_ratio` bytes
    for each of both; a sequence takes of every pool, and the first that is full decides.
    `own_windows`: only these architectures' windows have such a pool (None: all); others keep every token.
    `latent_heads_width`: MLA is cached expanded, a key and a value of that width for every head (0: as it is).
    `sparse_fp8_bytes`: a row of sparse MLA in fp8: 512 values, 4 scales in fp32, 64 rotary in bf16 (0: one scale).
    `packing`: how DeepSeek-V4's compressed rows, its window and its compressors' sums share blocks.
    """

    block_size: int = 16
    latent_block_size: int = 64
    hybrid: bool = True
    hybrid_chunks: bool = True
    padding_ratio: float = 1.5
    batches_in_flight: int = 1
    state_alignment: int = 16
    state_blocks: int = 1
    draft_states: bool = True
    caches_states: bool = False
    cached_states: int = 0
    every_state: frozenset[str] = frozenset()
    printed: Printed = Printed.CONCURRENCY
    stored_dtype: bool = False
    rest_on_last_stage: bool = False
    checks_whole_model: bool = False
    packed: tuple[tuple[str, float], ...] = ()
    own_pools: bool = False
    window_ratio: float = 1.0
    state_ratio: float = 1.0
    own_windows: frozenset[str] | None = None
    latent_heads_width: int = 0
    sparse_fp8_bytes: int = 656
    packing: Packing = Packing.APART


@dataclass(frozen=True, slots=True)
class ProfileRules:
    """What the start-up profile run makes the process reach.

    `logit_bytes` are the bytes alive per element of (rows x vocabulary) at the sampler's peak; `rows` follow
    max_num_seqs. `compiled`: the forward pass runs compiled, so intermediates die early.
    `latent_workspace_tokens`: MLA's chunked-prefill workspace, whose up-projection is allocated in full.
    `index_workspace_rows`: rows of an indexer's workspace for each token of max_model_len, and `index_logit_bytes`
    what its scores may take (sparse attention; it then has no workspace of the first kind). `padded_heads`: by how
    an architecture begins, the fewest heads that its kernels take queries and outputs of.
    `resident_logit_bytes`: kept per element of (max_num_seqs x vocabulary) for as long as the engine runs; where
    the run samples fewer rows than there are slots, `slot_logit_bytes` for each slot, and `slot_token_bytes` per
    element of (max_num_seqs x max_model_len).
    `video_frames`: the most of a video that is profiled (0: unknown). `video_stamps`: outputs are kept for so many
    times the tokens of a video whose frames have times between them (0: for its tokens).
    `prompt_logit_bytes`: alive per element of (tokens x vocabulary) where the warm-up asks for the logits of every
    prompt token, whole on each rank; `gathered_logits`: each rank holds its own part of them beside the whole.
    `whole_prompts`: the batch is of prompts as long as they may be, each with one row of logits.
    `counts_reserved`: the pool is cut from what the driver calls free after an eager run, so that all that
    PyTorch's allocator keeps counts, not only what was alive. `output_copies`: partial results that a quantised
    linear layer writes before it sums them. `formats`: formats of weights (by the start of their names) that run
    otherwise.
    """

    logit_bytes: float
    logit_bytes_low: float  # where another sampler may be installed
    logit_bytes_small: float  # with fewer rows than `small_rows`
    small_rows: int = 0
    compiled: bool = True
    moe_chunk_tokens: int = 32768
    latent_workspace_tokens: int = 0
    index_workspace_rows: int = 0
    index_logit_bytes: int = 0
    padded_heads: tuple[str, int] = ("", 0)
    resident_logit_bytes: float = 0.0
    slot_logit_bytes: float = 0.0
    slot_token_bytes: float = 0.0
    video_frames: int = 0
    video_stamps: float = 0.0
    prompt_logit_bytes: float = 0.0
    gathered_logits: bool = False
    whole_prompts: bool = False
    counts_reserved: bool = False
    output_copies: int = 0
    formats: tuple[tuple[str, ProfileRules], ...] = ()
    reserves_graphs: bool = True  # else graphs come on top even where the version's budget pays for them
    run: str = "profile run"  # what makes it reach that

    def served_as(self, format_name: str) -> ProfileRules:
        """How the run goes for weights of that format."""
        return next((other for start, other in self.formats if format_name.startswith(start)), self)


@dataclass(frozen=True, slots=True)
class RuntimeRules:
    """What CUDA, NCCL and graphs take, and what of it the budget pays.

    `context_in_budget`, `communicators_in_budget`: charged to the engine's own budget (else beside it).
    `graphs_in_budget`: an estimate of CUDA graphs is subtracted before the pool is sized (else they come on top),
    `graphs_estimated`: extrapolated from two captures. `others_in_budget`: memory of other processes is charged
    to the newcomer. `start_check`: refuses to start unless the whole budget is free. `graph_modes` graphs are
    captured per size of `graph_sizes`, up to `largest_graph` tokens. `graph_slots`: how many times max_num_seqs
    the largest may be (None: any; 1: the next size that holds them). `graph_sets`: architectures with sizes of
    their own. `piecewise`: every layer's part is a graph of its own. `adapter_graphs`: a second set where there
    are adapters. `graphs_hold_states`: only where the pool has a state for each of max_num_seqs.
    `graph_slack_bytes`: how much more they have been seen to take. `prefill_sizes`: sizes of prefill that are
    captured too, up to a batch, each `prefill_bytes` (MLA: `latent_prefill_bytes` in all). `copy_bytes`: what
    graphs may take more for each request of the largest one and each copy of attention. `slot_bytes`: a table
    kept for each (slot x token of max_model_len), past the budget; `default_slots`: fewest and most, where they
    are not told. `index_bytes`: of another for (tokens of the largest graph x max_model_len), from a backend that
    counts in pages to the widest. `libraries`: kernels that take more than PyTorch's own.
    """

    context_in_budget: bool
    communicators_in_budget: bool
    graphs_in_budget: bool
    others_in_budget: bool
    start_check: bool
    graph_modes: int
    largest_graph: int
    graph_sizes: tuple[int, ...] = ()
    graph_slots: int | None = 2
    graph_sets: tuple[tuple[str, tuple[int, ...]], ...] = ()
    piecewise: bool = False
    adapter_graphs: bool = False
    graphs_hold_states: bool = False
    slot_bytes: int = 0
    default_slots: tuple[int, int] = (0, 0)
    index_bytes: tuple[int, int, int] | None = None
    graphs_estimated: bool = False
    graph_slack_bytes: int = 0
    prefill_sizes: tuple[int, ...] = ()
    prefill_bytes: int = 0
    latent_prefill_bytes: int = 0
    copy_bytes: int = 0
    libraries: Interval | None = None


@dataclass(frozen=True, slots=True)
class ExpertPadding:
    """What a kernel rounds the sides of expert matrices up to: the experts' inner width, the hidden width, or
    whatever side is the input."""

    inner: int = 1
    hidden: int = 1
    inputs: int = 1


@dataclass(frozen=True, slots=True)
class TensorBytes:
    """Tensors of one role in their format: `bytes` of those of each of `layers` (or of all, outside any layer).
    `tied`: another name for the embedding, stored once."""

    role: Role
    layers: tuple[int, ...]
    bytes: float
    tied: bool = False


@dataclass(frozen=True, slots=True)
class DeviceBuffers:
    """What an engine allocates on one GPU, each buffer with its interval and why."""

    weights: Term
    kv_cache: Term
    compute: Term
    runtime: Term


@dataclass(frozen=True, slots=True)
class Allocation:
    """What an engine allocates that takes what it is told to and leaves the rest of the card alone.

    `token_bytes` are those of one more token of context over all devices, `sequence_bytes` the fixed part of a
    sequence, `slot_bytes` all that one sequence of the longest length takes; `cells` is the whole context.
    """

    devices: tuple[DeviceBuffers, ...]
    host: HostMemory
    token_bytes: int
    sequence_bytes: int
    slot_bytes: int
    cells: int
    notes: tuple[str, ...] = ()


class Allocate(Protocol):
    """The rule of such an engine: from resolved settings and the sizes of all tensors to its buffers."""

    def __call__(
        self, model: ModelSpec, gpu: GpuSpec, settings: EngineSettings, tensors: Sequence[TensorBytes]
    ) -> Allocation:
        """The buffers by device."""


class Limits(Protocol):
    """What becomes of requests beyond an engine's limits."""

    def __call__(self, settings: EngineSettings, tokens: int) -> tuple[str, ...]:
        """Sentences, from resolved settings and the tokens that the pool holds."""


@dataclass(frozen=True, slots=True)
class MemoryRules:
    """One version of one engine. `adapters_on_vocabulary`: LoRA buffers also on embedding and head,
    `adapters`: where they are counted.
    `unties_head`: stores an output layer of its own beside the embedding that the checkpoint shares with it.
    `allocate`: set for an engine that allocates what it is told to; without it, the pool fills what a budget
    leaves. `limits`: what it does with requests beyond what it was told."""

    capacity: Capacity
    cache: CacheRules
    profile: ProfileRules
    runtime: RuntimeRules
    has_cache_bytes: bool  # knows kv_cache_memory_bytes
    adapters_on_vocabulary: bool
    adapters: AdapterPlace = AdapterPlace.WEIGHTS
    unties_head: bool = False
    allocate: Allocate | None = None
    notes: tuple[str, ...] = ()
    pool: PoolRules = PoolRules()
    has_cache_tokens: bool = False  # knows kv_cache_tokens
    share_option: str = "gpu_memory_utilization"  # what it calls its fraction
    copies_share: frozenset[Role] = frozenset({Role.EXPERT})  # what copies of attention split between them
    limits: Limits | None = None
    online: tuple[tuple[str, Online], ...] = ()  # formats made while loading; others are streamed
    loaded: Loaded = AS_STORED
    held: tuple[Held, ...] = ()  # formats that kernels repack
    load_slack_bytes: int = 0  # the most that its "weights" hold beside them: a difference of free memory


class EngineRules(Protocol):
    """One engine. Values are immutable and may be cached by identity."""

    @property
    def name(self) -> str:
        """The engine's id in the contract."""

    @property
    def title(self) -> str:
        """As its own pages write it."""

    @property
    def newest(self) -> Version:
        """The newest version that the rules were read from; the default."""

    @property
    def oldest(self) -> Version:
        """The oldest version that the rules cover."""

    def rules(self, version: Version, gpu: GpuSpec | None = None) -> MemoryRules:
        """The rules of that version (on that card, where they differ): the same object for the same rules."""

    def profile(self, model: ModelSpec, version: Version, gpu: GpuSpec | None = None) -> ProfileRules:
        """How the profile run goes for that model: one version may run models in more than one way."""

    def expert_padding(self, format_name: str, gpu: GpuSpec) -> ExpertPadding | None:
        """How its kernels for that format pad expert matrices on that card; None: not at all."""

    def resolve(
        self, model: ModelSpec, gpu: GpuSpec, settings: EngineSettings, version: Version
    ) -> EngineSettings:
        """Every default filled in, as that version does on that card; block_size stays None where the engine
        chooses it by backend.

        Raises UnsupportedError for what the engine itself refuses (heads that do not divide, a flag that the
        version does not know).
        """

    def budget(self, base: Interval, settings: EngineSettings) -> Interval:
        """What the engine allows itself of `base` (what its fraction multiplies), from resolved settings."""

    def arguments(
        self,
        settings: EngineSettings,
        *,
        version: Version,
        model_path: str,
        port: int | None = None,
        quantization: str = "",
        served_name: str = "",
        adapters: Sequence[Adapter] = (),
    ) -> tuple[str, ...]:
        """The argument vector that starts it so; settings that are None are left to the engine."""
