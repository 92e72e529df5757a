"""A model on one type of card in one precision: what is the same whatever its traffic.

Fleets of hundreds serve a few dozen architectures. Step times, the cache of a sequence and the weights of a rank
follow from architecture, card, precision and split alone, so they are worked out once for all models that share
these, and kept by value.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, fields, replace
from operator import attrgetter
from typing import TypeVar

from cotenant.domain.engine import AdapterSlots, EngineSettings, Speculation, Version
from cotenant.domain.gpu import GpuSpec
from cotenant.domain.model import ModelSpec
from cotenant.domain.quantization import PrecisionChoice
from cotenant.engines.prompt_steps import keeps_own_step, other_steps, splits_prompts
from cotenant.engines.rules import EngineRules
from cotenant.estimation.given_bytes import PoolInBytes
from cotenant.estimation.memo import IdentityCache
from cotenant.estimation.memory_terms import (
    Frame,
    ReplicaMemory,
    StageTerms,
    frame_of,
    load_peak,
    opened,
    terms_of,
)
from cotenant.estimation.roofline import Roofline
from cotenant.estimation.served_format import ServedFormat
from cotenant.estimation.sizing import ReservedBytes, reserved_bytes
from cotenant.estimation.speculation import served_model
from cotenant.estimation.step_time import roofline
from cotenant.estimation.weights import weights_per_rank
from cotenant.planning.splits import Split

T = TypeVar("T")
Precision = tuple[str, str]
"""(format of the weights, type of the cache as it was asked for)"""


@dataclass(frozen=True, slots=True)
class Opened:
    """A replica with its pool left open. `in_bytes`: where the pool is a matter of bytes alone."""

    frame: Frame
    terms: tuple[StageTerms, ...]
    load_peak_bytes: int
    in_bytes: PoolInBytes | None

    @classmethod
    def of(cls, frame: Frame, resolved: EngineSettings) -> Opened:
        """In that frame, under those settings."""
        terms = terms_of(frame, resolved)
        peak = max(load_peak(stage).value for stage in terms)
        return cls(frame, terms, peak, PoolInBytes.of(frame, resolved, terms))

    @property
    def beside_pool_bytes(self) -> int:
        """What the fullest rank takes beside its pool."""
        return max(stage.own.value + stage.beyond.value for stage in self.terms)

    def memory(self, resolved: EngineSettings) -> ReplicaMemory:
        """All of it, under settings that differ in nothing that matters to its terms."""
        return opened(self.frame, resolved, self.terms)


_BESIDE_LENGTH = attrgetter(*(one.name for one in fields(EngineSettings) if one.name != "max_model_len"))
_OPENED: IdentityCache[Opened] = IdentityCache(8192)


@dataclass(frozen=True, slots=True, eq=False)
class Served:
    """One architecture as one engine serves it on one card; every method raises UnsupportedError for what the
    engine refuses. `choice` is the decision matrix's row."""

    model: ModelSpec
    gpu: GpuSpec
    engine: EngineRules
    version: Version
    choice: PrecisionChoice
    served: ServedFormat
    kv_cache_dtype: str
    slots: AdapterSlots | None
    speculation: Speculation | None
    batched_tokens: int | None = None  # as the user says
    _known: dict[Hashable, object] = field(default_factory=dict, repr=False)

    @property
    def precision(self) -> Precision:
        """What tells it from others of the same model and card."""
        return self.choice.format, self.kv_cache_dtype

    def settings(self, split: Split, step: int | None = None) -> EngineSettings:
        """What is known of a launch before its traffic is. `step`: the most tokens that one step reads (None: as
        the user says, else the engine)."""
        return self._once(("settings", split, step), lambda: self._settings(split, step))

    def _settings(self, split: Split, step: int | None) -> EngineSettings:
        return EngineSettings(
            tensor_parallel_size=split.tensor, pipeline_parallel_size=split.pipeline,
            enable_expert_parallel=split.experts, kv_cache_dtype=self.kv_cache_dtype, adapters=self.slots,
            speculation=self.speculation, max_num_batched_tokens=step or self.batched_tokens,
        )  # fmt: skip

    def times(self, split: Split, step: int | None = None) -> Roofline:
        """Step times of a replica."""
        return self._once(
            ("times", split, step),
            lambda: replace(self.whole_times(split), chunk_tokens=self.reserved(split, step).batched_tokens),
        )

    def whole_times(self, split: Split) -> Roofline:
        """The same, were every prompt read in one step."""
        return self._once(("times", split.tensor), lambda: self._times(split))

    def _times(self, split: Split) -> Roofline:
        # Where whole layers are dealt to GPUs, one works after another.
        at_once = split.tensor if self.is_filled else 1
        return roofline(
            self.model, self.gpu, engine=self.engine.name, version=self.version, format=self.served.format,
            kernel=self.served.kernel, tensor_parallel_size=at_once, kv_cache_dtype=self.kv_cache_dtype,
        )  # fmt: skip

    @property
    def is_filled(self) -> bool:
        """Whether the engine fills a budget with its pool; else it allocates what its settings say."""
        return self.engine.rules(self.version, self.gpu).allocate is None

    def reserved(self, split: Split, step: int | None = None) -> ReservedBytes:
        """What the engine reserves of a rank for a sequence."""
        return self._once(("reserved", split, step), lambda: self._reserved(split, step))

    def _reserved(self, split: Split, step: int | None) -> ReservedBytes:
        return reserved_bytes(
            self.model, self.gpu, self.settings(split, step), engine=self.engine, version=self.version
        )  # fmt: skip

    def weights_bytes(self, split: Split) -> int:
        """Of the rank that holds most."""
        return self._once(("weights", split.tensor, split.pipeline), lambda: self._weights(split))

    def _weights(self, split: Split) -> int:
        ranks = weights_per_rank(
            self.model, self.served.format, tensor_parallel_size=split.tensor,
            pipeline_parallel_size=split.pipeline,
        )  # fmt: skip
        return max(term.bytes.value for term in ranks)

    def opened(
        self, split: Split, used_bytes: int, seqs: int, length: int, step: int | None = None
    ) -> tuple[EngineSettings, Opened]:
        """(resolved settings, the replica) with so many sequences of up to `length` tokens, its pool left open, on
        a card of which others hold `used_bytes`."""
        asked = replace(self.settings(split, step), max_num_seqs=seqs, max_model_len=length)
        model = served_model(self.model, asked)
        resolved = self.engine.resolve(model, self.gpu, asked, self.version)
        frame = self._once(
            ("frame", split, used_bytes),
            lambda: frame_of(
                model, self.gpu, resolved, engine=self.engine, version=self.version, format=self.served.format,
                used_bytes=used_bytes,
            ),
        )  # fmt: skip
        key = (_BESIDE_LENGTH(resolved), resolved.max_model_len if frame.minds_length else 0)
        return resolved, _OPENED.get((frame,), key, lambda: Opened.of(frame, resolved))

    def other_steps(self, split: Split) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """(smaller, larger) tokens a step that may be told instead of the engine's own, the nearest first."""
        return self._once(("steps", split), lambda: self._other_steps(split))

    def _other_steps(self, split: Split) -> tuple[tuple[int, ...], tuple[int, ...]]:
        whole = not splits_prompts(self.engine.name, self.version, self.model, self.gpu)
        if self.batched_tokens is not None or whole or keeps_own_step(self.model):
            return (), ()
        smaller, larger = other_steps(self.engine.name, self.reserved(split).batched_tokens)
        return (smaller if self.is_filled else ()), larger

    def most_saved_bytes(self, split: Split, used_bytes: int) -> int:
        """What the fewest tokens a step save of a rank at the most: with one sequence, since what its sampler
        holds is a floor of both that grows with their number."""
        return self._once(("saved", split, used_bytes), lambda: self._most_saved(split, used_bytes))

    def _most_saved(self, split: Split, used_bytes: int) -> int:
        smaller, _ = self.other_steps(split)
        length = self.model.max_model_len
        if not smaller:
            return 0
        own, least = (self.opened(split, used_bytes, 1, length, step)[1] for step in (None, smaller[-1]))
        return own.beside_pool_bytes - least.beside_pool_bytes

    def _once(self, key: Hashable, compute: Callable[[], T]) -> T:
        if key not in self._known:
            self._known[key] = compute()
        return self._known[key]  # type: ignore[return-value]  # kept under the key of the same question
