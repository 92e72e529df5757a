"""A replica's own traffic as requests: Poisson arrivals at its rate, lengths as the plan has them (open loop)."""

from __future__ import annotations

from collections.abc import Callable
from math import log

from cotenant.domain.verification import Ask
from cotenant.domain.workload import Lengths
from cotenant.estimation.lengths import length_model
from cotenant.verification.subject import Subject


def arrivals(subject: Subject, seconds: float, uniform: Callable[[], float]) -> tuple[Ask, ...]:
    """Requests within `seconds`; `uniform` draws from [0, 1). None where the plan tells no rate.

    A request longer than the plan's longest is cut there, as a client that knows the limit would.
    """
    rate = subject.requests_per_second
    if not rate:
        return ()
    found: list[Ask] = []
    at = -log(1 - uniform()) / rate
    while at < seconds:
        tokens_out = 1 if subject.silent else _drawn(subject.output_lengths, subject.output_tokens, uniform())
        tokens_out = min(tokens_out, max(1, subject.tokens - 1))
        tokens_in = _drawn(subject.input_lengths, subject.input_tokens, uniform())
        found.append(Ask(subject.id, max(1, min(tokens_in, subject.tokens - tokens_out)), tokens_out, at))
        at -= log(1 - uniform()) / rate
    return tuple(found)


def _drawn(lengths: Lengths | None, otherwise: int, share: float) -> int:
    if lengths is None:
        return otherwise
    return max(1, round(length_model(lengths).quantile(min(max(share, 1e-6), 1 - 1e-6))))
