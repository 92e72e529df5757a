"""Engines that count what others hold as their own: what they must find free, and plans that pass their check."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from bench.brute_force import drawn_fleet
from cotenant import load_fleet
from cotenant.domain.fleet import Fleet
from cotenant.planning.candidates import ways_of
from cotenant.planning.compare import greedy_plan
from cotenant.planning.sleeping import solve_fleet
from cotenant.planning.solve import written
from cotenant.planning.startable import counts_others, most_before
from cotenant.units import GIB, MIB
from tests.planning.fleets import fleet, small


def drawn(engine: str, seed: int) -> Fleet:
    random = Random(f"{engine} {seed}")
    kind = random.choice(("plain", "tensor-parallel", "sleep"))
    found: dict[str, Any] = dict(drawn_fleet(kind, 20_000 + seed))
    return load_fleet({**found, "engine": engine, "headroom": random.choice(("0%", "2%", "10%"))})


@pytest.mark.parametrize("engine", ["vllm", "vllm@0.8", "vllm@0.6", "sglang", "tgi", "tensorrt-llm"])
@pytest.mark.parametrize("seed", range(5))
def test_what_is_planned_passes_its_check(engine: str, seed: int) -> None:
    """`written` checks; the greedy placement is held to the same."""
    question = drawn(engine, seed)
    solved = solve_fleet(question)
    if solved.feasible:
        assert written(solved).feasible
    greedy_plan(question)


def test_a_fraction_of_all_that_is_used_is_never_above_one() -> None:
    """TGI is told a fraction of 90 % of the card: it starts where that much more than its budget is free."""
    asked = fleet(small("a", quantization=["bf16"]), engine="tgi", headroom="0%")
    (one,) = (
        each for each in ways_of(asked, 0).candidates if each.tensor_parallel_size == 1 and each.step_share == 1
    )
    budget = one.estimate.per_gpu[0].budget.value
    capacity = asked.gpus[0].gpu.cuda_bytes.value
    most = capacity - one.load_peak_bytes
    assert one.settings.gpu_memory_utilization is not None
    assert budget / 0.9 + most < capacity + GIB
    assert one.load_peak_bytes > one.claim_bytes
    told = fleet(small("a", quantization=["bf16"]), engine="vllm", headroom="0%")
    (other,) = (each for each in ways_of(told, 0).candidates if each.tensor_parallel_size == 1)
    assert not counts_others("vllm", told.gpus[0].gpu, other.settings)
    assert counts_others("tgi", told.gpus[0].gpu, one.settings)


@pytest.mark.parametrize("limit", [0, 1, 5 * MIB, 900 * MIB, 10 * GIB])
def test_the_most_beside_which_it_starts(limit: int) -> None:
    found = most_before(lambda earlier: earlier <= limit, 8 * GIB)
    assert found <= limit
    assert found >= min(limit, 8 * GIB) - 16 * MIB
