"""One replica as a campaign sees it: what was predicted, and how far its load goes."""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.domain.explanation import TERMS
from cotenant.domain.interval import Interval
from cotenant.domain.workload import Lengths


@dataclass(frozen=True, slots=True)
class Subject:
    """What the plan says of one replica, in bytes, tokens and seconds.

    `terms` are in the order of `TERMS`. `concurrency` and `tokens` are the plan's limits: requests at once, and
    tokens of the longest sequence. `input_tokens` and `output_tokens` are a typical request of its traffic.
    `token_bytes` is what one more token of context takes, `fixed_bytes` what a sequence takes besides.
    `on_host` where the engine works from host memory.
    """

    id: str
    model: str
    engine: str
    version: str
    gpu: str
    family: str
    terms: tuple[Interval, Interval, Interval, Interval]
    concurrency: int
    tokens: int
    input_tokens: int
    output_tokens: int
    token_bytes: int
    fixed_bytes: int
    claimed_bytes: int
    on_host: bool
    rank: int = 0  # that takes most of its card: the terms are of it
    requests_per_second: float | None = None
    ttft_s: tuple[float, float, float] | None = None
    tpot_s: tuple[float, float, float] | None = None
    silent: bool = False  # it writes nothing: an embedding model
    input_lengths: Lengths | None = None
    output_lengths: Lengths | None = None
    estimated: tuple[Interval, ...] | None = None  # the terms by our rules alone: what a calibration is fitted to

    @property
    def predicted(self) -> dict[str, Interval]:
        """The terms by name."""
        return dict(zip(TERMS, self.terms, strict=True))
