"""What traffic asks of one replica: cache, sequences at once, the longest sequence, and times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf


@dataclass(frozen=True, slots=True)
class Demand:
    """What one replica needs for its share of the traffic. Bytes are of what the caller's
    `sequence_bytes` counts (usually one rank).

    `refused_share` is the share 0..1 of requests longer than `max_model_len` (an upper bound where one
    percentile alone is known: then `max_model_len_is_minimum`, and it should grow to what the pool granted
    holds, see `sequence_limit.longest_sequence`). `kv_needed_bytes` is exceeded
    by the total in flight with probability `overflow` at a random moment; `kv_minimum_bytes` holds one
    sequence of `max_model_len` (an engine's pool is never smaller); `kv_worst_case_bytes` is max_model_len x
    max_num_seqs. `kv_needed_tokens` are the needed bytes at the traffic's own bytes per token.
    `in_service_p999` is the 99.9th percentile of the number in service. `ttft_s`, `tpot_s` are estimates at
    `percentile` as (low, value, high) of the 90 % interval; `slo_held` compares their values.
    `busy` is the share 0..1 of time in which anything is in service; `slack` how much slower the replica may
    run and still hold its SLO (0.5 = half as slow again; negative: not held; infinite without an SLO).
    `times_from` says where step times come from, source by source.
    """

    max_model_len: int
    max_model_len_is_minimum: bool
    refused_share: float
    max_num_seqs: int
    mean_in_service: float
    in_service_p999: int
    kv_needed_tokens: int
    kv_needed_bytes: int
    kv_minimum_bytes: int
    kv_worst_case_bytes: int
    overflow: float
    busy: float
    percentile: float = 95.0
    ttft_s: tuple[float, float, float] | None = None
    tpot_s: tuple[float, float, float] | None = None
    slo_held: bool | None = None
    slack: float = inf
    kv_by_adapter: Mapping[str, int] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    times_from: str = ""

    @property
    def kv_pool_bytes(self) -> int:
        """The smallest pool that serves this traffic and that an engine starts with."""
        return max(self.kv_needed_bytes, self.kv_minimum_bytes)


@dataclass(frozen=True, slots=True)
class Overload:
    """The rate is more than one replica can ever serve, whatever its memory: requests would pile up.

    `saturation` is the rate, in requests/s, at which the queue starts to grow without end.
    """

    requests_per_second: float
    saturation: float
    reason: str
