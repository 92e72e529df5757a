"""How long a sequence the engine must take: never a percentile that would refuse real requests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import ceil

from cotenant.domain.workload import Lengths
from cotenant.estimation.lengths import LengthModel, length_model
from cotenant.units import format_percent

P999 = 0.999
ROUND_TO_TOKENS = 16  # the usual block: a partial block costs a whole one


@dataclass(frozen=True, slots=True)
class SequenceLimit:
    """`tokens` to set as max_model_len; `refused_share` of requests are longer (an upper bound where only one
    percentile is known); `is_minimum` when it should grow to what the granted pool holds (`longest_sequence`)."""

    tokens: int
    refused_share: float
    is_minimum: bool
    warning: str = ""


@lru_cache(maxsize=256)
def sequence_limit(parts: tuple[Lengths, ...], model_limit: int) -> SequenceLimit:
    """The rule for a sequence made of independent `parts` (input and output, or the context alone).

    Per part the declared maximum, else the 99.9th percentile of a log-normal (of the sum, where every part is
    one), else twice the lone percentile; rounded up to blocks, at most `model_limit`.
    """
    models = tuple(length_model(part) for part in parts)
    lone = [part for part in parts if part.is_point and part.maximum is None]
    if all(part.maximum is not None for part in parts):
        wanted = float(sum(part.maximum or 0 for part in parts))
    elif lone or any(part.maximum is not None for part in parts):
        wanted = sum(_part_limit(part, model) for part, model in zip(parts, models, strict=True))
    else:
        wanted = _joint_quantile(models, P999)
    tokens = min(model_limit, ceil(wanted / ROUND_TO_TOKENS) * ROUND_TO_TOKENS)
    refused = _refused_bound(lone) if lone else _share_above(models, tokens)
    return SequenceLimit(tokens, refused, bool(lone), _warning(lone, wanted, tokens, refused))


def longest_sequence(
    pool_bytes: int, sequence_bytes: Callable[[int], int], *, percentile: int, model_limit: int
) -> int:
    """max_model_len where one percentile alone is known: the longest sequence that `pool_bytes` holds.

    At least twice the `percentile` (a smaller pool must then grow), at most `model_limit`; whole blocks. Assumes
    that `sequence_bytes` never falls with length.
    """
    least = min(model_limit, ceil(2 * percentile / ROUND_TO_TOKENS) * ROUND_TO_TOKENS)
    if sequence_bytes(model_limit) <= pool_bytes:
        return model_limit
    low, high = 0, model_limit // ROUND_TO_TOKENS
    while low < high:
        middle = (low + high + 1) // 2
        if sequence_bytes(middle * ROUND_TO_TOKENS) <= pool_bytes:
            low = middle
        else:
            high = middle - 1
    return max(least, low * ROUND_TO_TOKENS)


def _part_limit(part: Lengths, model: LengthModel) -> float:
    if part.maximum is not None:
        return part.maximum
    return 2 * (part.p95 or part.p50 or 0) if part.is_point else model.quantile(P999)


def _joint_quantile(models: tuple[LengthModel, ...], p: float) -> float:
    """The `p` quantile of the sum, by bisection on the share above."""
    low, high = 0.0, sum(model.quantile(1 - (1 - p) / len(models)) for model in models)
    middle = (low + high) / 2
    while high - low > 1 and low < middle < high:  # numbers past 2^53 lie further apart than 1
        low, high = (middle, high) if _share_above(models, middle) > 1 - p else (low, middle)
        middle = (low + high) / 2
    return high


def _share_above(models: tuple[LengthModel, ...], tokens: float) -> float:
    if len(models) == 1:
        return models[0].share_above(tokens)
    first, second = models
    return sum(p * second.share_above(tokens - length) for length, p in first.cells())


def _refused_bound(lone: list[Lengths]) -> float:
    """What may lie above a lone percentile, at most: 5 % above a p95, half above a p50; over the parts."""
    return min(1.0, sum(0.05 if part.p95 is not None else 0.5 for part in lone))


def _warning(lone: list[Lengths], wanted: float, tokens: int, refused: float) -> str:
    if lone:
        known = "p95" if lone[0].p95 is not None else "p50"
        return (
            f"only {known} of the lengths is known: max_model_len is at least twice it, and up to "
            f"{format_percent(refused)} of requests could be longer and be refused; give p50 and p95, or max"
        )
    if wanted > tokens and refused > 0:
        return f"{format_percent(refused, digits=1)} of requests are longer than the model's {tokens:,} tokens"
    return ""
