"""llama.cpp by build number: what changed where.

Builds are tags bNNNN of ggml-org/llama.cpp. Where a change is known by its pull request, the build is that of the
merge (to within some dozens); where it was found by running released builds, the range is given.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from cotenant.domain.engine import Version

NEWEST = Version((11549,), "b11549")
OLDEST = Version((1300,), "b1300")

_MICRO_BATCHES = 2413  # pull 6017 (March 2024): n_ubatch apart from n_batch, 512
ENCODERS_APART = 4880  # pull 12181 (March 2025): encoders attend without a cache's detours
_CONTEXT_OF_MODEL, _CONTEXT_4096 = 3087, 4014  # pulls 7675 (June 2024) and 10136 (November 2024): -c unsaid
_LATENT = 5130  # pull 12801 (April 2025): MLA caches the compressed row and its values apart
_WINDOWS = 5438  # pull 13194 (May 2025): sliding layers get a cache of their own
_GLU = 5783  # pull 14158 (June 2025): gate and up joined by one operation
JOINED_VIEWS = 5848  # pull 14568 (July 2025): parts of a joined matrix are read where they lie, not copied out
_STREAMS = 5913  # pull 14363 (July 2025): one stream of cells a slot unless unified
_ROW_STORES = 6060  # pull 14285 (July 2025), the default from August 2025: K and V stored by row index
_FLASH_AUTO = 6325  # pull 15434 (August 2025): -fa auto
VULKAN_SORTS = 6423  # pull 15850 (September 2025): Vulkan computes in an order of its own
_PAD_256 = 6970  # pulls 16812 and 17046 (November 2025): every cache in steps of 256 cells
_VALUES_FIRST = 6960  # pull 16884 (November 2025): values before keys, so that rotation writes into the cache
_AUTO_SLOTS = 6906  # pull 16736 (November 2025): -np auto = 4 slots that share one cache
_FIT = 7400  # pull 16653 (December 2025): --fit on by default
_OUTPUT_FIRST = 7520  # pull 18148 (December 2025): the output layer is the first to go to a GPU, not the last
_VULKAN_EVENTS = 7500  # pull 18047 (December 2025): Vulkan has events, so that several cards make a pipeline
_VECTORS = 7640  # pull 18550 (January 2026): token ids and vectors are inputs of one graph
_KEYS_ONLY = 7840  # pull 19067 (January 2026): MLA keeps no values
_DRAFTS_TOGETHER = 9109  # pull 22838 (May 2026): one context of the draft for all slots
_FUSED_RECURRENCE = 8180  # March 2026: gated delta nets as one operation
_HALF_MASK = 9390  # pull 23764 (28 May 2026): the mask is filled in as f16 for fused attention
_CAPPED = 9430  # pull 23861 (June 2026): rows of logits capped at what the slots can ask for
CONVERTS = 9500  # pull 23907 (June 2026): CUDA reserves room to convert a quantised cache at once
_MIXED = 11000  # found between b10809 and b11549: ids and vectors mixed in a batch, one more input


@dataclass(frozen=True, slots=True)
class BuildRules:
    """One build. `latent_values`: MLA caches values beside the compressed keys; `latent`: it caches compressed
    rows at all. `pad_flash` and `pad_plain` are the steps in cells of a cache with and without fused attention.
    `late_outputs`: recurrent hybrids pick rows behind the last layer. `own_engine`: Ollama's Go engine builds the
    graphs: no pipeline, inputs in buffers of their own on the host, joined matrices in gpt-oss. `offloads`: large
    batches for layers on the host are computed by the GPU. `vulkan`, `cuda` (HIP too): that is the backend.
    `default_context`: tokens where no -c says them; 0: all that the model takes."""

    number: int
    micro_batch: int
    auto_slots: int
    flash_auto: bool
    streams: bool
    windows: bool
    latent: bool
    latent_values: bool
    glu: bool
    row_stores: bool
    pad_flash: int
    pad_plain: int
    window_pad_256: bool
    output_first: bool
    values_first: bool
    vectors: int
    fused_recurrence: bool
    half_mask: bool
    capped_outputs: bool
    late_outputs: bool
    default_context: int
    fits_itself: bool
    drafts_together: bool
    own_engine: bool = False
    vulkan: bool = False
    cuda: bool = False
    offloads: bool = True
    notes: tuple[str, ...] = ()

    @property
    def pipelines(self) -> bool:
        """Whether several cards make a pipeline: the scheduler knows how, the backend has events."""
        return not self.own_engine and self.number >= (_VULKAN_EVENTS if self.vulkan else _MICRO_BATCHES)


def build_rules(version: Version) -> BuildRules:
    """The rules of a build; the same object for the same build."""
    return _rules(version.parts[0])


@lru_cache(maxsize=256)
def _rules(build: int) -> BuildRules:
    late = build >= _PAD_256
    note = f"rules were read from llama.cpp {NEWEST} and earlier; a newer build may differ"
    return BuildRules(
        number=build,
        micro_batch=512,
        auto_slots=4 if build >= _AUTO_SLOTS else 1,
        flash_auto=build >= _FLASH_AUTO,
        streams=build >= _STREAMS,
        windows=build >= _WINDOWS,
        latent=build >= _LATENT,
        latent_values=build < _KEYS_ONLY,
        glu=build >= _GLU,
        row_stores=build >= _ROW_STORES,
        pad_flash=256,
        pad_plain=256 if late else 32,
        window_pad_256=late,
        values_first=build >= _VALUES_FIRST,
        output_first=build >= _OUTPUT_FIRST,
        vectors=(build >= _VECTORS) + (build >= _MIXED),
        fused_recurrence=build >= _FUSED_RECURRENCE,
        half_mask=build >= _HALF_MASK,
        capped_outputs=build >= _CAPPED,
        late_outputs=build >= _CAPPED,
        default_context=_default_context(build),
        fits_itself=build >= _FIT,
        drafts_together=build >= _DRAFTS_TOGETHER,
        notes=(note,) if build > NEWEST.parts[0] else (),
    )


def _default_context(build: int) -> int:
    """common/common.h, `n_ctx`: 512, then the model's, 4,096, and the model's again once --fit cuts it."""
    if build < _CONTEXT_OF_MODEL:
        return 512
    return 4096 if _CONTEXT_4096 <= build < _FIT else 0
