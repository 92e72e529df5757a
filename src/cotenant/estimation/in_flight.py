"""What one request holds at a random moment of its service, as a few hundred sizes with their weights.

A request in service holds its input and a uniform share of its output. Longer requests are in service longer,
so they are met in proportion to their service time, about `a` seconds per input token (prefill) + `b` seconds
per output token (decode): both weightings are kept apart, so that one mixture serves every card.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import log, sqrt
from typing import TYPE_CHECKING, Protocol

from cotenant.domain.step_time import Times
from cotenant.estimation.compound import Atoms
from cotenant.estimation.lengths import LengthModel

if TYPE_CHECKING:
    from cotenant.estimation.service import Steady

SequenceBytes = Callable[[int], int]

WIDTH = log(1.04)  # cells of 4 %: their own spread adds 0.01 % to a variance
_SHARES = 6  # of the output already written; more where the lengths are constant
_FINE_SHARES = 48


@dataclass(frozen=True, slots=True)
class Held:
    """`tokens` held, with the weight of that among input tokens (`by_input`) and output tokens (`by_output`)."""

    tokens: float
    by_input: float
    by_output: float


@dataclass(frozen=True, slots=True, eq=False)
class Mixture:
    """What requests in service hold; the means are of `tokens` under either weight."""

    held: tuple[Held, ...]
    mean_by_input: float
    mean_by_output: float

    @classmethod
    def of(cls, held: tuple[Held, ...]) -> Mixture:
        """With its means."""
        return cls(held, sum(h.tokens * h.by_input for h in held), sum(h.tokens * h.by_output for h in held))

    def mean_tokens(self, prefill_share: float) -> float:
        """Mean tokens of a request in service, `prefill_share` (0..1) of whose service time is prefill."""
        return prefill_share * self.mean_by_input + (1 - prefill_share) * self.mean_by_output

    def sizes(self, prefill_share: float, sequence_bytes: SequenceBytes) -> Atoms:
        """(bytes, probability) of a request in service."""
        rest = 1 - prefill_share
        return tuple(
            (size, prefill_share * h.by_input + rest * h.by_output)
            for size, h in zip(_sizes(self, sequence_bytes), self.held, strict=True)
        )


@lru_cache(maxsize=256)
def _sizes(mixture: Mixture, sequence_bytes: SequenceBytes) -> tuple[float, ...]:
    """Bytes of each size of the mixture; one table serves every format, rate and number of replicas."""
    return tuple(float(sequence_bytes(round(h.tokens) or 1)) for h in mixture.held)


Cell = tuple[float, float, float, float]
"""Sums over what falls into one cell: weight x tokens, weight, weight x prompt, weight x output."""

Pairs = Sequence[tuple[float, float]]
Parts = Sequence[tuple[float, float, float]]


class Quick(Hashable, Protocol):
    """The sums of a demand over arrays, for thousands of them: the same steps in the same order, compiled
    (`compound_arrays`)."""

    def steady(
        self, rate: float, inputs: LengthModel, outputs: LengthModel, held: Mixture, times: Times, share: float
    ) -> Steady | None:
        """As `service.steady`, with TTFT and TPOT at a `share` (0..1) of moments; None where plain Python must."""
        ...

    def cells(self, prompts: Pairs, parts: Parts, limit: int) -> Sequence[Cell]:
        """As `cells_of`."""
        ...

    def needed(
        self,
        mean_number: float,
        held: Mixture,
        sequence_bytes: SequenceBytes,
        prefill_share: float,
        overflow: float,
    ) -> tuple[float, float] | None:
        """(`compound.poisson_total` of `Mixture.sizes`, the mean of those sizes); None where plain Python must."""
        ...


@lru_cache(maxsize=256)
def held_tokens(inputs: LengthModel, outputs: LengthModel, limit: int, quick: Quick | None = None) -> Mixture:
    """The mixture for independent lengths, sequences cut at `limit` tokens; both weights sum to 1.

    Where nothing is written (a constant 0) the output weight is the plain probability.
    """
    given, written = inputs.cells(), outputs.cells()
    shares = _uniform(_SHARES if min(len(given), len(written)) > 1 else _FINE_SHARES)
    parts = [(length * share, p / len(shares), length or 1.0) for length, p in written for share in shares]
    cells = (cells_of if quick is None else quick.cells)(given, parts, limit)
    input_mean = sum(cell[2] for cell in cells)
    output_mean = sum(cell[3] for cell in cells)
    return Mixture.of(
        tuple(
            Held(total / weight, by_input / input_mean, by_output / output_mean)
            for total, weight, by_input, by_output in cells
        )
    )


def cells_of(prompts: Pairs, parts: Parts, limit: int) -> Sequence[Cell]:
    """Every prompt (length, probability) with every part of an output (tokens so far, probability, whole length),
    summed in cells of equal width of the logarithm, the smallest first."""
    cells: dict[int, list[float]] = {}
    for prompt, p in prompts:
        for part, q, length in parts:
            tokens = min(float(limit), prompt + part)
            weight = p * q
            cell = cells.setdefault(int(log(tokens + 1) / WIDTH), [0.0, 0.0, 0.0, 0.0])
            cell[0] += weight * tokens
            cell[1] += weight
            cell[2] += weight * prompt
            cell[3] += weight * length
    return [(one[0], one[1], one[2], one[3]) for _, one in sorted(cells.items())]


@lru_cache(maxsize=256)
def held_context(context: LengthModel, limit: int) -> Mixture:
    """The mixture where the context in flight is given itself."""
    return Mixture.of(tuple(Held(min(tokens, float(limit)), p, p) for tokens, p in context.cells()))


def _uniform(count: int) -> list[float]:
    """Equally likely points with the mean and the variance of the uniform distribution on 0..1."""
    stretch = sqrt(1 / (1 - 1 / count**2))
    return [0.5 + stretch * ((k + 0.5) / count - 0.5) for k in range(count)]
