"""`service.steady` under a `roofline.Roofline` over arrays, to be compiled where numba is installed: the same
steps in the same order.

`service` and `roofline` hold the plain versions and the meaning; a test holds both equal.
"""

from __future__ import annotations

from math import exp
from typing import Any

SINGLE = (
    "weights_bytes", "expert_bytes", "num_experts", "experts_per_token", "flops_per_token", "attention_flops",
    "prefill_attention_flops", "windowed_flops_per_token", "state_bytes", "weight_rate", "cache_rate",
    "compute_rate", "attention_rate", "matmul_factor", "overhead_s", "all_reduce_s_per_token", "sequence_s",
    "launch_s", "first_token_s", "decode_factor", "prefill_factor", "high", "chunk_tokens",
)  # fmt: skip
"""Fields of a roofline in the order of the array that the functions here are given; its norm comes last."""
(
    _WEIGHTS, _EXPERTS, _NUM_EXPERTS, _CHOSEN, _FLOPS, _ATTENTION, _PROMPT_ATTENTION, _WINDOWED, _STATE,
    _WEIGHT_RATE, _CACHE_RATE, _COMPUTE_RATE, _ATTENTION_RATE, _FACTOR, _OVERHEAD, _ALL_REDUCE, _SEQUENCE,
    _LAUNCH, _FIRST_TOKEN, _DECODE_FACTOR, _PREFILL_FACTOR, _HIGH, _CHUNK, _NORM,
) = range(len(SINGLE) + 1)  # fmt: skip


def steady_state(roof: Any, cache: Any, prompts: Any, work: Any, rate: float, asked: Any, limits: Any) -> Any:
    """(in service, context tokens, mean prefill, its share, stall, most at once, whether steps at the slow end
    would be overloaded, TTFT, TPOT) of an open replica; the fourth last is 0 where plain Python must answer.

    `cache` are rows of (bytes a token, window), `prompts` (tokens, probability); `work` is (output tokens, context
    by output, by input), `asked` (prompt tokens for TTFT, the percentile of the number in service at which both
    times are told, that of the most at once), `limits` (INTERFERENCE, the most in service, POISSON_SUMS).
    """
    interference = limits[0]
    prefill = 0.0
    for row in range(len(prompts)):
        prefill += prompts[row, 1] * prefill_s(roof, prompts[row, 0])
    high = more_than_arrive(roof, cache, work, prefill, rate, limits)
    if high == 0:
        return 0.0, 0.0, 0.0, 0.0, 0.0, 0, False, 0.0, 0.0
    batch = 1 + fixed_point(roof, cache, work, prefill, rate, high, interference)
    whole = service_s(roof, cache, work, prefill, batch, interference)
    in_service = rate * whole
    share = prefill / whole if whole else 0.0
    context = work[1] + share * (work[2] - work[1])
    stall = prefill / work[0] if work[0] else 0.0
    if in_service > limits[2]:
        return 0.0, 0.0, 0.0, 0.0, 0.0, 0, False, 0.0, 0.0
    most = max(1, poisson_quantile(in_service, asked[2]))
    doubted = more_than_arrive(roof, cache, work, prefill, rate * roof[_HIGH], limits) == 0
    told = 1.0 + poisson_quantile(in_service, asked[1])
    step = decode_step_s(roof, cache, told, told * context)
    busy = min(0.95, rate * prefill)
    ttft = roof[_FIRST_TOKEN] + (prefill_s(roof, asked[0]) + step) / (1 - busy)
    tpot = step + interference * (told - 1) * stall
    return in_service, context, prefill, share, stall, most, doubted, ttft, tpot


def more_than_arrive(roof: Any, cache: Any, work: Any, prefill: float, rate: float, limits: Any) -> Any:
    """As in `service`; 0 where there is none."""
    number = 1.0
    while rate * service_s(roof, cache, work, prefill, 1 + number, limits[0]) > number:
        number *= 2
        if number > limits[1]:
            return 0.0
    return number


def fixed_point(
    roof: Any, cache: Any, work: Any, prefill: float, rate: float, high: float, interference: float
) -> Any:
    """As in `service`."""
    low, below = 0.0, rate * service_s(roof, cache, work, prefill, 1.0, interference)
    above = rate * service_s(roof, cache, work, prefill, 1 + high, interference) - high
    side = 0
    while high - low > 1e-6 * high:
        inner = 0.25e-6 * high
        middle = min(max(low + (high - low) * below / (below - above), low + inner), high - inner)
        found = rate * service_s(roof, cache, work, prefill, 1 + middle, interference) - middle
        if found > 0:
            low, below, above = middle, found, above / 2 if side > 0 else above
            side = 1
        else:
            high, above, below = middle, found, below / 2 if side < 0 else below
            side = -1
    return high


def service_s(roof: Any, cache: Any, work: Any, prefill: float, batch: float, interference: float) -> Any:
    """Seconds in service, in a batch of `batch`."""
    step = decode_step_s(roof, cache, batch, batch * work[1]) if work[0] else 0.0
    return work[0] * step + prefill * (1 + interference * (batch - 1))


def decode_step_s(roof: Any, cache: Any, batch: float, context_tokens: float) -> Any:
    """As `Roofline.decode_step_s`."""
    mean = context_tokens / batch if batch else 0.0
    past = 0.0
    for row in range(len(cache)):
        past += cache[row, 0] * min(mean, cache[row, 1])
    reading = weights_s(roof, batch) + batch * (past + 2 * roof[_STATE]) / roof[_CACHE_RATE]
    products = roof[_FLOPS] * batch * roof[_FACTOR] / roof[_COMPUTE_RATE]
    computing = products + roof[_ATTENTION] * context_tokens / roof[_ATTENTION_RATE]
    beside = roof[_OVERHEAD] + (roof[_ALL_REDUCE] + roof[_SEQUENCE]) * batch
    return (norm(reading, computing, roof[_NORM]) + beside) * roof[_DECODE_FACTOR]


def prefill_s(roof: Any, tokens: float) -> Any:
    """As `Roofline.prefill_s` of one prompt."""
    square = tokens * tokens
    products, steps = products_s(roof, tokens), 1.0
    if tokens > roof[_CHUNK]:
        whole = tokens // roof[_CHUNK]
        rest = tokens - whole * roof[_CHUNK]
        products, steps = whole * products_s(roof, roof[_CHUNK]), whole
        if rest > 0:
            products, steps = products + products_s(roof, rest), steps + 1
    attention = roof[_PROMPT_ATTENTION] * square / 2 + roof[_WINDOWED] * tokens
    beside = steps * roof[_OVERHEAD] + roof[_ALL_REDUCE] * tokens
    return (products + attention / roof[_ATTENTION_RATE] + beside) * roof[_PREFILL_FACTOR]


def products_s(roof: Any, tokens: float) -> Any:
    """Matrix products of one step that reads `tokens`."""
    multiplying = roof[_FLOPS] * roof[_FACTOR] * tokens / roof[_COMPUTE_RATE]
    return norm(norm(weights_s(roof, tokens), multiplying, roof[_NORM]), roof[_LAUNCH], roof[_NORM])


def weights_s(roof: Any, tokens: float) -> Any:
    """Seconds that the weights of `tokens` tokens are read for."""
    read = roof[_WEIGHTS]
    if roof[_NUM_EXPERTS]:
        read += (
            roof[_EXPERTS]
            * (roof[_NUM_EXPERTS] * (1 - (1 - roof[_CHOSEN] / roof[_NUM_EXPERTS]) ** tokens))
            / roof[_NUM_EXPERTS]
        )
    return read * roof[_FACTOR] / roof[_WEIGHT_RATE]


def norm(first: float, second: float, power: float) -> Any:
    """The p-norm of two times. The power is no constant: no compiler puts another function in its place."""
    return (first**power + second**power) ** (1 / power)


def poisson_quantile(mean: float, p: float) -> Any:
    """As in `compound`, where exp(-mean) does not underflow."""
    term = exp(-mean)
    reached, number = term, 0
    while reached < p and number < 2000:
        number += 1
        term *= mean / number
        reached += term
    return number


USED = (
    norm, weights_s, products_s, prefill_s, decode_step_s, service_s, fixed_point, more_than_arrive,
    poisson_quantile,
)  # fmt: skip
"""What `steady_state` calls, to be compiled with it."""
