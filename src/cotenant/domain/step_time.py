"""How long a step takes, as straight lines: what the simulator and the sizing of traffic need to know."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Protocol

from cotenant.domain.model import ModelSpec


class Times(Hashable, Protocol):
    """Anything that times a step: the exact roofline or the straight lines below."""

    @property
    def first_token_s(self) -> float:
        """What a first token costs besides its prefill (HTTP, tokeniser, scheduling)."""
        ...

    @property
    def low(self) -> float:
        """The lower end of the 90 % interval, as a factor on any time."""
        ...

    @property
    def high(self) -> float:
        """The upper end of the 90 % interval, as a factor on any time."""
        ...

    @property
    def why(self) -> str:
        """Where the times come from, source by source."""
        ...

    def decode_step_s(self, batch: float, context_tokens: float) -> float:
        """Seconds of one decode step of `batch` sequences that hold `context_tokens` in all."""
        ...

    def prefill_s(self, tokens: float, squares: float | None = None) -> float:
        """Seconds to prefill `tokens`; `squares` is the sum of squared lengths (None: one prompt)."""
        ...


@dataclass(frozen=True, slots=True)
class StepTimes:
    """Linear step times of one replica, in seconds, with a relative 90 % interval.

        decode step = base_s + per_sequence_s x batch + per_context_token_s x total context
        prefill     = prefill_base_s + prefill_per_token_s x tokens + prefill_per_token_squared_s x sum(len^2)

    The form that public simulators use (per-configuration fits of it err 5 % where they were measured). Steps of a
    mixture of experts lie on no such plane. They have a line for each number of sequences, 1, 2 ... (the last for
    all beyond): bases_s + beside_s x batch + per_context_tokens_s x total context.
    `batch_range`, `context_range` (tokens a sequence) and `prefill_range` (tokens) are where the lines were
    drawn; outside they extrapolate. A true time lies in [low, high] x the value nine times in ten.
    """

    base_s: float
    per_sequence_s: float
    per_context_token_s: float
    prefill_base_s: float
    prefill_per_token_s: float
    prefill_per_token_squared_s: float
    first_token_s: float
    low: float
    high: float
    batch_range: tuple[int, int]
    context_range: tuple[int, int]
    prefill_range: tuple[int, int]
    why: str = ""
    bases_s: tuple[float, ...] = ()
    per_context_tokens_s: tuple[float, ...] = ()
    beside_s: float = 0.0

    def decode_step_s(self, batch: float, context_tokens: float) -> float:
        """Seconds of one decode step of `batch` sequences (to the next whole one, where each number has a line)
        that hold `context_tokens` in all."""
        if self.bases_s:
            row = min(max(round(batch), 1), len(self.bases_s)) - 1
            return self.bases_s[row] + self.beside_s * batch + self.per_context_tokens_s[row] * context_tokens
        return self.base_s + self.per_sequence_s * batch + self.per_context_token_s * context_tokens

    def prefill_s(self, tokens: float, squares: float | None = None) -> float:
        """Seconds to prefill `tokens`; `squares` is the sum of squared lengths (None: one prompt)."""
        square = tokens * tokens if squares is None else squares
        return self.prefill_base_s + self.prefill_per_token_s * tokens + self.prefill_per_token_squared_s * square


@dataclass(frozen=True, slots=True)
class Scaled:
    """Other step times, all `factor` times as long: what the ends of an interval would mean.

    Its own interval is a point, since the factor has been taken from it.
    """

    times: Times
    factor: float
    low: float = 1.0
    high: float = 1.0

    @property
    def why(self) -> str:
        """Where the times come from."""
        return self.times.why

    @property
    def first_token_s(self) -> float:
        """What a first token costs besides its prefill."""
        return self.factor * self.times.first_token_s

    def decode_step_s(self, batch: float, context_tokens: float) -> float:
        """Seconds of one decode step of `batch` sequences that hold `context_tokens` in all."""
        return self.factor * self.times.decode_step_s(batch, context_tokens)

    def prefill_s(self, tokens: float, squares: float | None = None) -> float:
        """Seconds to prefill `tokens`; `squares` is the sum of squared lengths (None: one prompt)."""
        return self.factor * self.times.prefill_s(tokens, squares)


@dataclass(frozen=True, slots=True)
class StepQuestion:
    """Whose steps: `format` is the served format's name, "" the model's own dtype. `ranks` are tensor parallel."""

    model: ModelSpec
    gpu: str
    engine: str
    format: str
    ranks: int
    kv_cache_dtype: str


@dataclass(frozen=True, slots=True)
class OtherTimes:
    """What another source says of single steps. `source` names it with its version; `error` is the median of
    |its time / measured - 1| as published.

    `decode`: (sequences, tokens that each holds, seconds); `prefill`: (tokens of one prompt, seconds).
    """

    source: str
    error: float
    decode: tuple[tuple[int, int, float], ...]
    prefill: tuple[tuple[int, float], ...]

    def __post_init__(self) -> None:
        times = [each[-1] for each in (*self.decode, *self.prefill)]
        if not self.decode or not self.prefill or not all(0 < seconds < 1e6 for seconds in times):
            raise ValueError("a decode step and a prefill at least are needed, each above zero")
