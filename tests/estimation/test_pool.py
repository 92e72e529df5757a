"""Laws of pools that are a fraction of something: of the card, of what is free at start, of the rest."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.domain.engine import EngineSettings, Version
from cotenant.domain.interval import Interval
from cotenant.engines import find_engine
from cotenant.engines.rules import Base
from cotenant.estimation.pool import capped, room_of, share_for, times
from cotenant.units import GIB

ENGINES = ("vllm@0.21", "vllm@0.8.5", "sglang@0.5.9", "tgi@1.1", "tgi@2.2", "tgi@3.3", "tensorrt-llm@1.2")
SIZES = st.integers(0, 40 * GIB)


def _room(name: str, share: float, *, others: int = 0, spent: int = 0, before: int = 0, first: int = 0):
    engine, version = find_engine(name)
    rules = engine.rules(version)
    seen = others if rules.pool.base is not Base.CARD or rules.runtime.others_in_budget else 0
    return room_of(
        engine, EngineSettings(gpu_memory_utilization=share), rules.pool, capacity=Interval.exact(80 * GIB),
        others=seen, before=Interval.exact(before), spent=Interval.exact(spent), first=first,
    )  # fmt: skip


@pytest.mark.parametrize("name", ENGINES)
@given(share=st.floats(0.05, 0.95), more=st.floats(0.0, 0.05), spent=SIZES, others=SIZES)
def test_a_larger_fraction_never_means_a_smaller_pool(name, share, more, spent, others):
    low, high = (_room(name, each, spent=spent, others=others).pool.value for each in (share, share + more))
    if _room(name, 1.0, spent=spent, others=others).base.value > 0:  # something is left to take a part of
        assert high >= low - 1


@pytest.mark.parametrize("name", ENGINES)
@given(share=st.floats(0.05, 1.0), spent=SIZES, others=SIZES, more=SIZES)
def test_neighbours_never_make_a_pool_larger(name, share, spent, others, more):
    alone = _room(name, share, spent=spent, others=others).pool.value
    assert _room(name, share, spent=spent, others=others + more).pool.value <= alone + 1


@pytest.mark.parametrize("name", ENGINES)
@given(need=st.integers(1, 30 * GIB), spent=st.integers(GIB, 40 * GIB), first=st.integers(0, GIB))
def test_the_fraction_for_a_need_holds_it(name, need, spent, first):
    engine, version = find_engine(name)
    rules = engine.rules(version).pool
    base = _room(name, 1.0, spent=spent, first=first).base
    share = share_for(rules, base, Interval.exact(spent), need, first)
    if share <= 1:
        assert _room(name, share, spent=spent, first=first).pool.value >= need - 4


@given(spent=SIZES, most=SIZES, share=st.floats(0.1, 1.0))
def test_a_cap_only_takes(spent, most, share):
    room = _room("sglang@0.5.9", share, spent=spent)
    less = capped(room, Interval.exact(spent), most)
    assert less.pool.value == min(room.pool.value, most)
    assert less.budget.value <= room.budget.value


@given(st.integers(-(10**12), 10**12), st.integers(0, 10**12), st.integers(0, 10**12), st.floats(0, 2))
def test_a_scaled_interval_stays_in_order(value, below, above, factor):
    scaled = times(Interval(value - below, value, value + above), factor)
    assert scaled.low <= scaled.value <= scaled.high


def test_vllm_is_the_plain_case():
    engine, version = find_engine("vllm@0.21")
    rules = engine.rules(version).pool
    assert (rules.base, rules.usable, rules.kept, rules.activations_inside) == (Base.CARD, 1.0, 1.0, True)
    assert rules.holds_longest
    assert not rules.of_free
    room = _room("vllm@0.21", 0.9, spent=20 * GIB, others=10 * GIB)
    assert room.pool.value / GIB == pytest.approx(52.0)
    assert replace(room, left=None) == room
    assert Version.parse("0.21") == version
