"""Small random cases full of ties: tiny whole coefficients, few blocks, requests on top of each other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cotenant.simulation.costs import Row, StepCosts
from cotenant.simulation.load import NEVER, Limits, Requests

Case = tuple[Requests, Limits, StepCosts]


def random_case(seed: int) -> Case:
    """One case; half have priorities, half have requests that are given up."""
    draw = np.random.default_rng(seed)
    count = int(draw.integers(1, 14))
    span = int(draw.choice([3, 9, 30, 120]))
    arrivals = np.sort(draw.integers(0, span, count))
    seqs = int(draw.integers(1, 6))
    limits = Limits(
        max_num_seqs=seqs,
        max_num_batched_tokens=seqs + int(draw.integers(0, 8)),
        block_size=int(draw.choice([1, 2, 3, 4])),
        num_blocks=int(draw.integers(2, 14)),
        max_model_len=int(draw.integers(4, 40)),
    )
    gives_up = np.where(draw.random(count) < 0.3, arrivals + draw.integers(-2, 40, count), NEVER)
    requests = Requests.of(
        arrivals,
        draw.integers(1, 12, count),
        draw.integers(1, 12, count),
        draw.integers(0, 3, count) if draw.random() < 0.5 else 0,
        gives_up if draw.random() < 0.5 else NEVER,
    )
    unit = int(
        draw.choice([1_000_000, 1_000_000, 300_000, 7, 10**15])
    )  # whole ns, parts of one, next to none, 1 s
    return (
        requests,
        limits,
        costs_of(draw, seed, unit),
    )


def costs_of(draw: np.random.Generator, seed: int, unit: int) -> StepCosts:
    """One line of each kind; in every other case a few, that end anywhere, at the same place, or token by token,
    for each number of sequences others."""
    plane = StepCosts.plane(*(int(value) * unit for value in draw.integers(0, 3, 6)))
    if seed % 2:
        return plane
    draw = np.random.default_rng([seed, 11])
    decode = tuple(_row(draw, 40, unit) for _ in range(int(draw.integers(1, 6))))
    return replace(plane, decode=decode, reading=_row(draw, 14, unit))


def _row(draw: np.random.Generator, longest: int, unit: int) -> Row:
    """Lines whose costs have nothing to do with each other."""
    count = int(draw.integers(1, 6))
    if draw.random() < 0.3:  # the next tokens have a line each
        ends = int(draw.integers(0, longest)) + np.arange(count)
    else:
        ends = np.sort(draw.integers(0, longest, count))
    ends[-1] = NEVER
    bases, each = (draw.integers(0, most, count) * unit for most in (5, 3))
    return tuple(zip(ends.tolist(), bases.tolist(), each.tolist(), strict=True))


def crowded_case(seed: int, count: int = 300) -> Case:
    """A longer one under load, with a pool that runs out."""
    draw = np.random.default_rng(seed)
    arrivals = np.cumsum(draw.integers(0, 30_000_000, count))
    requests = Requests.of(arrivals, draw.integers(1, 900, count), draw.integers(1, 120, count))
    limits = Limits(int(draw.integers(4, 64)), 512, 16, int(draw.integers(70, 500)), 2048)
    times = (9_500_000_000_000, 6_300_000_000, 77_537_463, 3_900_000_000_000, 54_813_492_343, 965_753)
    return requests, limits, StepCosts.plane(*times)
