"""How long a step takes, as straight lines: what the simulator and the sizing of traffic need to know."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

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


class Line(NamedTuple):
    """Seconds of a step up to `until` tokens of whatever it grows with: base_s + each_s x tokens."""

    until: float
    base_s: float
    each_s: float


Row = tuple[Line, ...]
"""Lines one after the other, by `until`; the last holds for all beyond."""


@dataclass(frozen=True, slots=True)
class StepTimes:
    """Step times of one replica in straight lines, in seconds, with a relative 90 % interval.

        decode step = base_s + per_sequence_s x batch + each_s x total context
        prefill     = base_s + each_s x tokens + per_square_s x sum(len^2)

    The form that public simulators use (per-configuration fits of it err 5 % where they were measured). `decode`
    has a row for each number of sequences, 1, 2 ...: its lines follow each other by total context; those of
    `prefill` by tokens. `batch_range`, `context_range` (tokens a sequence) and `prefill_range` (tokens) say where
    the lines were drawn. Beyond them nothing ends: more sequences have the last row, more tokens the last line of
    theirs, fewer the first. That is right to a per cent where nothing bends there, and off by 40 % for 64 times as
    many sequences of a model with windows: draw them to what is asked. A true time lies in [low, high] x the
    value nine times in ten.
    """

    decode: tuple[Row, ...]
    per_sequence_s: float
    prefill: Row
    per_square_s: float
    first_token_s: float
    low: float
    high: float
    batch_range: tuple[int, int]
    context_range: tuple[int, int]
    prefill_range: tuple[int, int]
    why: str = ""

    def decode_step_s(self, batch: float, context_tokens: float) -> float:
        """Seconds of one decode step of `batch` sequences (the row of the whole number nearest to it: only whole
        ones are right, the roofline has those between) that hold `context_tokens` in all."""
        row = self.decode[min(max(round(batch), 1), len(self.decode)) - 1]
        return _along(row, context_tokens) + self.per_sequence_s * batch

    def prefill_s(self, tokens: float, squares: float | None = None) -> float:
        """Seconds to prefill `tokens`; `squares` is the sum of squared lengths (None: one prompt)."""
        square = tokens * tokens if squares is None else squares
        return _along(self.prefill, tokens) + self.per_square_s * square


def _along(row: Row, tokens: float) -> float:
    line = row[min(bisect_left(row, tokens, key=lambda one: one.until), len(row) - 1)]
    return line.base_s + line.each_s * tokens


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
