"""Prompts that begin alike: what is shared, what goes first, and what a reader of the answer is told."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import cotenant
from bench.simulation_cases import random_case
from cotenant.errors import InputError
from cotenant.policy.prefixes import most_hits
from cotenant.readers.traces import read_trace
from cotenant.simulation import fast, plain
from cotenant.simulation.caching import CachingReplica
from cotenant.simulation.costs import StepCosts
from cotenant.simulation.kernel import Host, Stream, run
from cotenant.simulation.load import Limits, Outcome, Prefixes, Requests, Status
from cotenant.simulation.prefix_cache import PrefixCache
from cotenant.simulation.workload import traced

UNIT = 1_000_000
TOKENS = StepCosts.plane(UNIT, 0, 0, 0, UNIT, 0)  # a step takes a ns for each prompt token that it reads, or one


def alike(arrivals: list[int], given: list[int], names: list[tuple[int, ...]], written: int = 1) -> Requests:
    """Requests whose blocks of four tokens are called `names`."""
    requests = Requests.of(arrivals, given, [written] * len(arrivals))
    return replace(requests, prefixes=Prefixes(tuple(names), 4))


def limits(blocks: int) -> Limits:
    return Limits(4, 64, 4, blocks, 64)


def test_the_second_reads_what_is_new() -> None:
    found = plain.simulate(alike([0, 100], [12, 14], [(1, 2, 3), (1, 2, 4, 5)]), limits(16), TOKENS)
    assert found.first_token_ns.tolist() == [12, 100 + 14 - 8]
    assert (found.asked_tokens, found.hit_tokens) == (26, 8)


def test_a_prompt_that_is_cached_whole_computes_its_last_block() -> None:
    """Its last token's logits are needed: vLLM computes the block that it stands in."""
    found = plain.simulate(alike([0, 100], [12, 12], [(1, 2, 3), (1, 2, 3)]), limits(16), TOKENS)
    assert found.first_token_ns.tolist() == [12, 104]
    assert [most_hits(tokens, 4) for tokens in (1, 4, 5, 8, 9)] == [0, 0, 1, 1, 2]


def test_blocks_of_a_running_request_are_shared_not_doubled() -> None:
    """Eight tokens in common and one of its own each: two blocks and one, and one more for the second."""
    requests = alike([0, 1], [9, 9], [(1, 2, 3), (1, 2, 4)], written=4)
    found = plain.simulate(requests, limits(16), TOKENS)
    assert found.kv_high_water_blocks == 4
    assert found.hit_tokens == 8
    tight = plain.simulate(requests, limits(4), TOKENS)
    assert tight.preemptions == 0
    assert plain.simulate(replace(requests, prefixes=None), limits(4), TOKENS).first_token_ns[1] > 20


def test_who_joins_in_the_same_step_shares_already() -> None:
    found = plain.simulate(alike([0, 0], [9, 9], [(1, 2, 3), (1, 2, 4)]), limits(16), TOKENS)
    assert found.hit_tokens == 8
    assert found.first_token_ns.tolist() == [10, 10]


def test_what_was_freed_longest_ago_is_forgotten_first() -> None:
    """Three prompts of two blocks, tails first: six blocks keep the first one's head to the end, five do not."""
    names = [(1, 2), (3, 4), (5, 6), (3, 4), (1, 2)]
    found = plain.simulate(alike([0, 100, 200, 300, 400], [8] * 5, names), limits(6), TOKENS)
    took = (found.first_token_ns - np.array([0, 100, 200, 300, 400])).tolist()
    assert took == [8, 8, 8, 4, 4]
    smaller = plain.simulate(alike([0, 100, 200, 300, 400], [8] * 5, names), limits(5), TOKENS)
    assert (smaller.first_token_ns - np.array([0, 100, 200, 300, 400])).tolist()[4] == 8


def test_a_preempted_request_finds_again_what_it_computed() -> None:
    case = Requests.of([0, 0], [2, 2], [6, 6]), Limits(4, 8, 2, 5, 16), TOKENS
    named = replace(case[0], prefixes=Prefixes(((), ()), 4))
    without, kept = plain.simulate(*case), plain.simulate(named, *case[1:])
    assert without.preemptions == kept.preemptions == 1
    assert kept.hit_tokens > 0
    assert kept.end_ns < without.end_ns


@pytest.mark.parametrize("chunk", range(4))
def test_nothing_in_common_is_as_without_a_cache(chunk: int) -> None:
    """Without a preemption the log is the same, row for row, on cases full of ties."""
    same = 0
    for seed in range(chunk * 100, (chunk + 1) * 100):
        requests, held, costs = random_case(seed)
        bare = plain.simulate(requests, held, costs)
        if bare.preemptions:
            continue
        same += 1
        names = Prefixes(tuple((1000 * place,) for place in range(len(requests))), 64)
        cached = plain.simulate(replace(requests, prefixes=names), held, costs)
        for name in ("status", "first_token_ns", "finish_ns", "log", "kv_high_water_blocks"):
            assert np.array_equal(getattr(bare, name), getattr(cached, name)), (seed, name)
        assert cached.hit_tokens == 0
    assert same > 30


@pytest.mark.parametrize("chunk", range(4))
def test_whatever_is_shared_everybody_is_answered_and_blocks_come_back(chunk: int) -> None:
    hits = preempted = 0
    for seed in range(chunk * 100, (chunk + 1) * 100):
        requests, held, costs = random_case(seed)
        draw = np.random.default_rng(seed)
        names = tuple(
            tuple(int(one) for one in np.cumsum(draw.integers(0, 2, 12)) + 100 * np.arange(12))
            for _ in requests.arrival_ns
        )
        named = replace(requests, prefixes=Prefixes(names, int(draw.integers(1, 4))))
        host = Host(CachingReplica(named, held, costs), (0,))
        run([host], [Stream(named, (0,))])
        found: Outcome = host.replica.outcome(host.busy_fs, host.last_fs)
        assert not (found.status == Status.UNFINISHED).any(), seed
        assert host.replica.free_blocks == held.num_blocks, seed
        assert np.array_equal(
            found.status == Status.REFUSED, plain.simulate(requests, held, costs).status == Status.REFUSED
        )
        hits, preempted = hits + found.hit_tokens, preempted + found.preemptions
    assert hits > 100
    assert preempted > 10


def test_the_fast_core_hands_them_over() -> None:
    case = alike([0, 100], [12, 14], [(1, 2, 3), (1, 2, 4, 5)]), limits(16), TOKENS
    found = fast.simulate(*case, log=True)
    assert np.array_equal(found.log, plain.simulate(*case).log)
    assert found.hit_tokens == 8


def test_a_cache_by_hand() -> None:
    cache = PrefixCache(3)
    first = cache.take(2)
    cache.name(first[0], "a")
    cache.name(first[1], "b")
    cache.give_back(first)
    assert cache.hits(["a", "b", "c"]) == first
    assert (cache.free, cache.idle_among(first)) == (3, 2)
    assert cache.take(2) == [2, first[1]]  # never used, then the tail of what was freed
    assert cache.hits(["a", "b"]) == first[:1]
    cache.clear()
    assert cache.hits(["a"]) == []


def test_names_must_match_the_requests() -> None:
    with pytest.raises(InputError, match="names of their blocks"):
        replace(Requests.of([0], [4], [1]), prefixes=Prefixes((), 4))


def test_a_mooncake_trace_says_what_the_cache_held(tmp_path: Path) -> None:
    """Twenty requests on one document of four blocks of 512 tokens, each with a question of its own."""
    rows = [
        {"timestamp": 2000 * one, "input_length": 2100, "output_length": 20, "hash_ids": [1, 2, 3, 4, 100 + one]}
        for one in range(20)
    ]
    trace = tmp_path / "mooncake.jsonl"
    trace.write_text("\n".join(json.dumps(row) for row in rows))
    fleet = {
        "engine": "vllm@0.21",
        "headroom": "5%",
        "gpus": [{"type": "A100-80GB-SXM", "count": 1}],
        "models": [
            {
                "name": "only",
                "model": "meta-llama/Llama-3.1-8B-Instruct",
                "traffic": {"concurrent": 4, "context_tokens": {"p95": 4096}},
            }
        ],
    }
    (model,) = cotenant.simulate(fleet, traces=[str(trace)]).models
    assert model.finished == 20
    assert model.cache_hits == pytest.approx(19 * 2048 / (20 * 2100))
    assert model.ttft_s is not None
    assert model.ttft_s.p50 < model.ttft_s.p99 / 3


@pytest.mark.parametrize("seed", range(5))
def test_an_endless_cache_holds_what_the_trace_says_was_seen(seed: int) -> None:
    """The reader counts what earlier prompts began with; a cache of all of it finds exactly that."""
    draw, known = np.random.default_rng(seed), list[tuple[int, ...]]([()])
    rows: list[str] = []
    for number in range(60):
        start = known[int(draw.integers(0, len(known)))]
        names = (*start, *(1000 * number + part for part in range(int(draw.integers(1, 4)))))
        given = 512 * len(names) - int(draw.integers(0, 512))
        known.append(names[:-1])  # the last block is partly filled, and goes on for nobody
        row = {"timestamp": number, "input_length": given, "output_length": 1, "hash_ids": list(names)}
        rows.append(json.dumps(row))
    trace = read_trace(rows, name="t")
    found = plain.simulate(traced(trace), Limits(8, 8192, 16, 10**5, 2**20), TOKENS)
    assert found.asked_tokens == sum(trace.input_tokens)
    assert found.hit_tokens == sum(seen // 16 * 16 for seen in trace.seen_tokens)
    assert found.hit_tokens > 0
