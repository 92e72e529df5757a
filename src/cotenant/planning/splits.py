"""How one replica may be split over the cards of a node: tensor x pipeline, experts whole or sliced.

Tensor parallel of powers of two comes first. Pipeline stages are tried where tensor parallel of as many cards

- does not exist: 3, 5, 6 or 7 cards, while fewer cards by tensor parallel alone do not hold the model; and 3 where
  2 do, since a third leaves room for neighbours that a half does not, on fewer cards than a quarter;
- is refused for another reason than bytes (heads, blocks of a format, that do not divide);
- does: then stages compete by their bytes for the same traffic (`sizing.taken_as`). They are fewer where ranks
  keep copies of the cache (fewer KV heads than ranks, a latent cache) and where NCCL adds to CUDA graphs' bytes.

Stages are slower: one card works after another on a request. So they are timed here, without the overlap that an
engine gains by filling the stages with several batches. Expert parallel deals whole experts to ranks: as many
bytes as slices of each, and as fast by a roofline that knows no imbalance.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from cotenant.domain.engine import EngineSettings

_WITH_STAGES = ("vllm", "sglang")


@dataclass(frozen=True, slots=True)
class Split:
    """`tensor` ranks in each of `pipeline` stages; `experts`: whole experts to a rank instead of slices."""

    tensor: int
    pipeline: int = 1
    experts: bool = False

    @property
    def size(self) -> int:
        """Cards of one replica."""
        return self.tensor * self.pipeline


def split_of(settings: EngineSettings) -> Split:
    """The split that settings tell."""
    return Split(settings.tensor_parallel_size, settings.pipeline_parallel_size, settings.enable_expert_parallel)


def tensor_sizes(limit: int) -> Iterator[int]:
    """Powers of two up to `limit` cards."""
    size = 1
    while size <= limit:
        yield size
        size *= 2


def has_stages(engine: str) -> bool:
    """Whether pipeline stages of that engine are planned."""
    return engine in _WITH_STAGES


def in_stages(
    engine: str, limit: int, layers: int, *, held: Collection[int], refused: Collection[int]
) -> Iterator[Split]:
    """Splits with stages that may be worth sizing, the smallest first, of equal ones those of the widest ranks.

    `held` are the tensor-parallel sizes that do, `refused` those that were refused for another reason than bytes.
    """
    if not has_stages(engine):
        return
    least = min(held, default=None)
    for size in range(2, limit + 1):
        whole = size & (size - 1) == 0
        between = least is None or size < least or (least == 2 and size == 3)
        if (not whole and between) or size in refused or size in held:
            for tensor in reversed(list(tensor_sizes(size // 2))):
                if size % tensor == 0 and size // tensor <= layers:
                    yield Split(tensor, size // tensor)


def has_expert_parallel(engine: str, experts: int, size: int) -> bool:
    """Whether ranks could hold whole experts, equally many each."""
    return engine in _WITH_STAGES and size > 1 and experts > 0 and experts % size == 0
