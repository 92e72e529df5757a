"""Step times as whole femtoseconds: no rounding between steps, so no tie depends on the machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from cotenant.domain.step_time import StepTimes

FS_PER_NS = 1_000_000
NS_PER_S = 1_000_000_000
FS_PER_S = FS_PER_NS * NS_PER_S


@dataclass(frozen=True, slots=True)
class StepCosts:
    """Femtoseconds of a step, linear in what it does.

        step = base + per_sequence x B + per_context_token x C + prefill_per_token x T + prefill_per_square x S

    B decoding sequences that hold C tokens; T prompt tokens read, S the sum of end^2 - start^2 over chunks
    [start, end), which adds up to len^2 over a whole prompt. A step that decodes and reads prompts reads the
    weights once: its base is the larger of the two. With `bases` and `contexts`, base and per_context_token are
    theirs for so many sequences (1, 2 ...; the last for all beyond).
    """

    base: int
    per_sequence: int
    per_context_token: int
    prefill_base: int
    prefill_per_token: int
    prefill_per_square: int
    bases: tuple[int, ...] = ()
    contexts: tuple[int, ...] = ()

    @property
    def plain(self) -> tuple[int, int, int, int, int, int]:
        """The six of the formula."""
        return (
            self.base, self.per_sequence, self.per_context_token, self.prefill_base, self.prefill_per_token,
            self.prefill_per_square,
        )  # fmt: skip

    def each(self, change: Callable[[int], int]) -> StepCosts:
        """All of them changed alike."""
        return costs_of(map(change, self.plain), map(change, self.bases), map(change, self.contexts))

    @staticmethod
    def of(times: StepTimes) -> StepCosts:
        """The lines of `times`, rounded to femtoseconds; what would be negative is nothing."""
        six = (
            times.base_s, times.beside_s if times.bases_s else times.per_sequence_s, times.per_context_token_s,
            times.prefill_base_s, times.prefill_per_token_s, times.prefill_per_token_squared_s,
        )  # fmt: skip
        return costs_of(map(_whole, six), map(_whole, times.bases_s), map(_whole, times.per_context_tokens_s))

    def step(self, sequences: int, context_tokens: int, tokens: int, squares: int) -> int:
        """Femtoseconds of one step; at least one."""
        base, context = line_of(self.bases, self.contexts, sequences, self.base, self.per_context_token)
        return step_fs(
            base, self.per_sequence, context, self.prefill_base, self.prefill_per_token, self.prefill_per_square,
            sequences, context_tokens, tokens, squares,
        )  # fmt: skip


def costs_of(six: Iterable[int], bases: Iterable[int] = (), contexts: Iterable[int] = ()) -> StepCosts:
    """From the six of the formula in their order, and the tables."""
    base, sequence, context, reading, token, square = six
    return StepCosts(base, sequence, context, reading, token, square, tuple(bases), tuple(contexts))


def _whole(seconds: float) -> int:
    return max(0, round(seconds * FS_PER_S))


def line_of(bases: Any, contexts: Any, sequences: int, base: int, context: int) -> tuple[int, int]:
    """(Base, a token of context) of a step with so many sequences, from tables of them, or the two that are given;
    runs as Python and compiled."""
    if sequences > 0 and len(bases) > 0:
        row = min(sequences, len(bases)) - 1
        return bases[row], contexts[row]
    return base, context


def step_fs(
    base: int,
    per_sequence: int,
    per_context_token: int,
    prefill_base: int,
    prefill_per_token: int,
    prefill_per_square: int,
    sequences: int,
    context_tokens: int,
    tokens: int,
    squares: int,
) -> int:
    """The formula of `StepCosts`, over integers alone; runs as Python and compiled."""
    decode = per_sequence * sequences + per_context_token * context_tokens
    once = max(base if sequences > 0 else 0, prefill_base if tokens > 0 else 0)
    return max(1, once + decode + prefill_per_token * tokens + prefill_per_square * squares)
