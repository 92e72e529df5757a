"""What is asked of a model: how much, how long, how fast, how urgently."""

from __future__ import annotations

from dataclasses import dataclass

GENERATING = ("chat", "code", "math", "reasoning", "knowledge", "summarization", "translation", "vision")
SILENT = ("embed", "rerank", "classify")  # nothing is written: the prompt is read, and that is all
TASKS = (*GENERATING, *SILENT)
"""What a model may be for: it says which published quality figures count."""


@dataclass(frozen=True, slots=True)
class Lengths:
    """Token lengths by percentile. With `p50` and `p95`: log-normal through both; one alone: constant.

    `maximum` is the longest that may ever be asked, where declared. With a `histogram` (lengths and their weights)
    requests are exactly as long as it says, and the percentiles are its own.
    """

    p50: int | None = None
    p95: int | None = None
    maximum: int | None = None
    histogram: tuple[tuple[int, float], ...] = ()

    @classmethod
    def of(cls, histogram: tuple[tuple[int, float], ...], maximum: int | None = None) -> Lengths:
        """From (length, weight) pairs; weights must add up to more than nothing."""
        ordered = sorted(bar for bar in histogram if bar[1] > 0)
        whole = sum(weight for _, weight in ordered)

        def at(share: float) -> int:
            upto = 0.0
            for length, weight in ordered:
                upto += weight
                if upto >= share * whole * (1 - 1e-12):
                    return length
            return ordered[-1][0]

        return cls(at(0.5), at(0.95), ordered[-1][0] if maximum is None else maximum, histogram)

    @property
    def is_point(self) -> bool:
        """Whether one percentile alone was given."""
        return (self.p50 is None) != (self.p95 is None)


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """Requests as they came: arrival times in seconds from the first, tokens in and out. Compared by identity.

    `seen_tokens`, where the trace says what prompts begin alike, is how much of each prompt an earlier request had
    too, and `blocks` what its blocks of `block_tokens` are called (a name stands for all before it as well);
    `timed` is false where the file says lengths alone (all arrivals are then 0). `notes` say what in the file is
    not as a trace should be, and what was made of it.
    """

    name: str
    arrivals_s: tuple[float, ...]
    input_tokens: tuple[int, ...]
    output_tokens: tuple[int, ...]
    seen_tokens: tuple[int, ...] = ()
    timed: bool = True
    blocks: tuple[tuple[int, ...], ...] = ()
    block_tokens: int = 0
    notes: tuple[str, ...] = ()

    @property
    def rated(self) -> bool:
        """Whether it lasts long enough (a second) for a rate to be known of it: one request has none."""
        return self.timed and self.arrivals_s[-1] >= 1.0

    @property
    def longest(self) -> int:
        """Tokens of the longest sequence, input and output together."""
        return max(map(sum, zip(self.input_tokens, self.output_tokens, strict=True)))


@dataclass(frozen=True, slots=True)
class Arrivals:
    """How the requests of a rate come, the rate being their mean over a long time.

    ``poisson``: independent of each other. ``gamma``: gaps whose standard deviation is `variation` times their
    mean (bursty above 1). ``on-off``: Poisson in spells of mean `on_s` seconds, nothing in spells of mean `off_s`.
    """

    kind: str = "poisson"
    variation: float = 1.0
    on_s: float = 0.0
    off_s: float = 0.0

    @property
    def peak(self) -> float:
        """The rate while requests come, as a multiple of the mean."""
        return (self.on_s + self.off_s) / self.on_s if self.kind == "on-off" else 1.0


@dataclass(frozen=True, slots=True)
class Traffic:
    """A rate with input and output lengths, a concurrency with the context in flight, or a trace.

    Exactly one of `requests_per_second`, `concurrent` and `trace` is set. `by_hour` holds 24 weights from midnight
    in `timezone`.
    """

    requests_per_second: float | None = None
    input_tokens: Lengths | None = None
    output_tokens: Lengths | None = None
    concurrent: int | None = None
    context_tokens: Lengths | None = None
    trace: Trace | None = None
    by_hour: tuple[float, ...] = ()
    timezone: str = "UTC"
    arrivals: Arrivals = Arrivals()


@dataclass(frozen=True, slots=True)
class Slo:
    """Latency targets in seconds, held at `percentile`."""

    ttft_s: float | None = None
    tpot_s: float | None = None
    percentile: float = 95.0


@dataclass(frozen=True, slots=True)
class Adapter:
    """A LoRA adapter on a base model. `share` of the model's traffic is 0..1 (None: an equal part)."""

    name: str
    rank: int
    source: str = ""
    share: float | None = None
    target_modules: tuple[str, ...] = ()
