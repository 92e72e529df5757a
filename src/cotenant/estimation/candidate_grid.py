"""Many sizes of one replica at once: what `settings_for_pool` and `estimate_memory` say of each, with numpy.

Where the pool is asked for in bytes, all but the pool follows from max_num_seqs and, in steps, from max_model_len:
the terms are taken from the scalar formulas once for each such step, and the pool, the claim and the checks, which
are sums and comparisons of whole numbers, are taken for all candidates together. So there is no second set of
rules, and a test holds the two ways equal, value for value.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from cotenant.domain.engine import EngineSettings, Version
from cotenant.domain.gpu import GpuSpec
from cotenant.domain.interval import Interval, total
from cotenant.domain.model import ModelSpec
from cotenant.domain.quantization import QuantizationFormat
from cotenant.engines.rules import EngineRules
from cotenant.errors import UnsupportedError
from cotenant.estimation.inverse import STEPS
from cotenant.estimation.memory_checks import holds_states
from cotenant.estimation.memory_terms import ReplicaMemory, StageMemory, load_peak, replica_memory

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    Whole = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class CandidateGrid:
    """Arrays of one shape, an entry a candidate: `pool_bytes` to ask for, what the binding rank then claims (by
    value, and at the upper end of the 90 % interval), and whether even that end fits on the card."""

    pool_bytes: Whole
    claimed_bytes: Whole
    confident_bytes: Whole
    fits: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Replica:
    """What all candidates of a grid share. `used_bytes` is held on each card by others."""

    model: ModelSpec
    gpu: GpuSpec
    settings: EngineSettings
    engine: EngineRules
    version: Version
    format: QuantizationFormat
    used_bytes: int = 0

    def memory(self, seqs: int, length: int) -> ReplicaMemory:
        """The scalar terms with so many sequences of so many tokens, the pool left open."""
        settings = replace(
            self.settings, max_num_seqs=seqs, max_model_len=length, kv_cache_memory_bytes=None
        )  # fmt: skip
        return replica_memory(
            self.model, self.gpu, settings, engine=self.engine, version=self.version, format=self.format,
            used_bytes=self.used_bytes,
        )  # fmt: skip


def candidate_grid(
    replica: Replica, *, max_num_seqs: ArrayLike, max_model_len: ArrayLike, kv_bytes: ArrayLike
) -> CandidateGrid:
    """All of max_num_seqs, max_model_len and `kv_bytes` (of rank 0), broadcast against each other.

    Raises UnsupportedError where the version does not take its pool in bytes, the model has no cache, or the
    engine refuses the settings.
    """
    import numpy as np

    seqs, lengths, needs = np.broadcast_arrays(
        *(np.asarray(each, np.int64) for each in (max_num_seqs, max_model_len, kv_bytes))
    )
    seq_values, seq_places = np.unique(seqs, return_inverse=True)
    length_values, length_places = np.unique(lengths, return_inverse=True)
    steps = _Steps(replica, length_values.tolist())
    number = np.empty((len(seq_values), len(length_values)), np.int64)
    blocks = np.empty_like(number)
    for row, each in enumerate(seq_values.tolist()):
        for first, last, step in steps.of(each):
            number[row, first:last] = step
            blocks[row, first:last] = steps.blocks(step)[first:last]
    at = (seq_places.reshape(seqs.shape), length_places.reshape(seqs.shape))
    return _judged(replica, steps.found, number[at], blocks[at], needs, seqs)


class _Steps:
    """The scalar terms, each different one once. They never fall with max_model_len, so where its ends have the
    same terms all between have them; else the stretch is halved."""

    def __init__(self, replica: Replica, lengths: list[int]) -> None:
        self._replica = replica
        self._lengths = lengths
        self._numbers: dict[object, int] = {}
        self._seen: dict[tuple[int, int], int] = {}
        self._blocks: dict[int, list[int]] = {}
        self.found: list[ReplicaMemory] = []

    def of(self, seqs: int) -> Iterator[tuple[int, int, int]]:
        """(first length, one past the last, number of the step), in order."""
        last = len(self._lengths) - 1
        waiting = [(0, last, self._number(seqs, 0), self._number(seqs, last))]
        while waiting:
            low, high, below, above = waiting.pop()
            if below == above:
                yield low, high + 1, below
                continue
            middle = (low + high) // 2
            waiting.append((middle + 1, high, self._number(seqs, middle + 1), above))
            waiting.append((low, middle, below, self._number(seqs, middle)))

    def blocks(self, step: int) -> list[int]:
        """Blocks of one sequence of each length."""
        memory = self.found[step]
        tokens = memory.settings.max_num_batched_tokens or 1
        if tokens not in self._blocks:
            count = memory.layout.sequence_blocks
            self._blocks[tokens] = [count(length, tokens) for length in self._lengths]
        return self._blocks[tokens]

    def _number(self, seqs: int, place: int) -> int:
        if (seqs, place) not in self._seen:
            memory = self._replica.memory(seqs, self._lengths[place])
            key = (memory.settings.max_num_batched_tokens, tuple(map(_Terms.of, memory.stages)))
            number = self._seen[seqs, place] = self._numbers.setdefault(key, len(self.found))
            if number == len(self.found):
                self.found.append(memory)
        return self._seen[seqs, place]


@dataclass(frozen=True, slots=True)
class _Terms:
    """What the checks look at, the pool apart."""

    own: Interval
    beyond: Interval
    loading: Interval

    @classmethod
    def of(cls, stage: StageMemory) -> _Terms:
        return cls(stage.own, stage.beyond, load_peak(stage))


def _judged(
    replica: Replica, found: list[ReplicaMemory], number: Whole, blocks: Whole, needs: Whole, seqs: Whole
) -> CandidateGrid:
    """The arithmetic of `inverse.size_pool` and the checks of `memory` for all candidates together."""
    import numpy as np

    first = found[0]
    if not first.rules.has_cache_bytes or not first.layout.groups:
        raise UnsupportedError(
            f"{replica.engine.title} {replica.version} does not take the pool of {replica.model.name} in bytes"
        )
    sizes = first.layout.block_bytes
    capacity, free = first.capacity, first.capacity.shifted(-replica.used_bytes)
    blocks = np.maximum(blocks, -(-needs // (sizes[0] or max(sizes))))
    stateful = holds_states(first.layout, first.rules, first.settings)
    fits = blocks >= seqs if stateful else np.ones(blocks.shape, np.bool_)
    likely = surely = np.zeros_like(blocks)
    for stage, size in enumerate(sizes):
        pool = blocks * size
        each = [memory.stages[stage] for memory in found]
        terms = [_Terms.of(one) for one in each]
        likely = np.maximum(likely, pool + _column(one.spent.value for one in each)[number])
        surely = np.maximum(surely, pool + _column(one.spent.high for one in each)[number])
        most = [_most_pool(free, one) for one in terms]
        fits &= pool <= _column(most)[number]
    share = np.minimum(1.0, np.ceil(likely / capacity.value * STEPS - 1e-9) / STEPS)
    if first.rules.runtime.start_check:
        fits &= _may_start(replica, found, share, number, free)
    outside = [memory.stages[0].beyond for memory in found]
    return CandidateGrid(
        pool_bytes=blocks * max(sizes),
        claimed_bytes=likely + _column(one.value for one in outside)[number],
        confident_bytes=surely + _column(one.high for one in outside)[number],
        fits=fits,
    )


def _most_pool(free: Interval, terms: _Terms) -> int:
    """The largest pool with which the whole interval of the replica stays on the card; below 0 where it does not
    even load."""
    if (free - terms.loading).low < 0:
        return -1
    return (free - total((terms.own, terms.beyond))).low


def _may_start(
    replica: Replica, found: list[ReplicaMemory], share: NDArray[np.float64], number: Whole, free: Interval
) -> NDArray[np.bool_]:
    """Whether the share that is set beside the pool is free when the engine starts."""
    import numpy as np

    values, places = np.unique(share, return_inverse=True)
    before = [tuple(stage.runtime.beside for stage in memory.stages) for memory in found]
    kinds = {kind: row for row, kind in enumerate(dict.fromkeys(before))}
    allowed = np.empty((len(kinds), len(values)), np.bool_)
    for column, value in enumerate(values.tolist()):
        asked = replica.engine.budget(
            found[0].capacity, replace(found[0].settings, gpu_memory_utilization=value)
        )  # fmt: skip
        for kind, row in kinds.items():
            allowed[row, column] = all((free - each - asked).low >= 0 for each in kind)
    rows = _column(kinds[kind] for kind in before)
    return allowed[rows[number], places.reshape(share.shape)]


def _column(values: Any) -> Whole:
    import numpy as np

    return np.array(list(values), np.int64)
