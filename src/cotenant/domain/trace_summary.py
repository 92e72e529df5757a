"""What a request trace looks like."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TokenSpread:
    """Token lengths: percentiles (the smallest length that such a share does not exceed), the longest, the mean,
    and `counts` of requests in 12 classes of equal ratio, from `smallest` to `maximum`."""

    p50: int
    p95: int
    p99: int
    smallest: int
    maximum: int
    mean: float
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TraceSummary:
    """A trace in figures. `rates` are requests/s in parts of equal length; `variation` is the standard deviation
    of gaps over their mean (1 for Poisson), `dispersion` variance over mean of arrivals a second (1 for Poisson).
    `concurrency` holds mean, p99 (over time) and maximum of requests in flight, were each served in
    `token_s` seconds a token. `by_hour` is empty for less than a day. `seen_share` is the share 0..1 of input
    tokens that an earlier prompt began with too (None: not said). Without times (`timed` false) rates and what
    follows from them are zero; `rated` says whether it lasts long enough for its rate to be known. `notes` say
    what in the file is not as it should be, and what was made of it.
    """

    name: str
    requests: int
    duration_s: float
    rate: float
    peak_rate: float  # of the busiest minute (of all, where it is shorter)
    rates: tuple[float, ...]
    variation: float
    dispersion: float
    token_s: float
    concurrency: tuple[float, int, int]
    input_tokens: TokenSpread
    output_tokens: TokenSpread
    by_hour: tuple[int, ...]
    seen_share: float | None = None
    timed: bool = True
    rated: bool = True
    notes: tuple[str, ...] = ()
