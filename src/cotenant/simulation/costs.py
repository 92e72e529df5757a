"""Step times as whole femtoseconds: no rounding between steps, so no tie depends on the machine."""

from __future__ import annotations

from dataclasses import dataclass

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
    weights once: its base is the larger of the two.
    """

    base: int
    per_sequence: int
    per_context_token: int
    prefill_base: int
    prefill_per_token: int
    prefill_per_square: int

    @classmethod
    def of(cls, times: StepTimes) -> StepCosts:
        """The lines of `times`, rounded to femtoseconds; what would be negative is nothing."""
        return cls(
            *(
                max(0, round(seconds * FS_PER_S))
                for seconds in (
                    times.base_s,
                    times.per_sequence_s,
                    times.per_context_token_s,
                    times.prefill_base_s,
                    times.prefill_per_token_s,
                    times.prefill_per_token_squared_s,
                )
            )
        )

    def step(self, sequences: int, context_tokens: int, tokens: int, squares: int) -> int:
        """Femtoseconds of one step; at least one."""
        return step_fs(
            self.base, self.per_sequence, self.per_context_token, self.prefill_base, self.prefill_per_token,
            self.prefill_per_square, sequences, context_tokens, tokens, squares,
        )  # fmt: skip


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
