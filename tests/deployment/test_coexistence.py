"""What may run together follows from bytes: compared with trying every subset."""

from __future__ import annotations

from itertools import combinations, permutations
from math import comb

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from cotenant.deployment.coexistence import together
from cotenant.deployment.launch import launches
from cotenant.deployment.targets import TARGETS, export
from cotenant.errors import UnsupportedError
from cotenant.readers.plan_document import read_plan
from tests.deployment.conftest import document


def crowded(sizes: list[int], capacity: int, peaks: list[int] | None = None):
    """Replicas of those sizes, and load peaks, on one card of that capacity."""
    told = document()
    replica, gpu = told["replicas"][0], told["gpus"][0]
    share = gpu["replicas"][0]
    told["replicas"] = [
        replica | {"id": f"r{number}", "port": 8000 + number, "start_order": number}
        for number in range(len(sizes))
    ]
    zero = {name: 0 for name in share if name.endswith("_bytes")}
    gpu["capacity_bytes"] = capacity
    gpu["replicas"] = [
        share | zero | {"id": f"r{number}", "budget_bytes": size, "load_peak_bytes": (peaks or sizes)[number]}
        for number, size in enumerate(sizes)
    ]
    told["gpus"] = [gpu]
    return read_plan(told)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=7), st.integers(9, 30))
@settings(max_examples=40, deadline=None)
def test_the_sets_are_the_largest_that_fit(sizes: list[int], capacity: int) -> None:
    plan = crowded(sizes, capacity)
    found = {frozenset(group) for group in together(plan, launches(plan))}
    names = [f"r{number}" for number in range(len(sizes))]
    fitting = {
        frozenset(group)
        for count in range(1, len(names) + 1)
        for group in combinations(names, count)
        if sum(sizes[int(name[1:])] for name in group) <= capacity
    }
    assert found == {group for group in fitting if not any(group < other for other in fitting)}


def test_many_that_fit_by_halves_are_told_at_once() -> None:
    """Every eight of sixteen: each set is compared with its neighbours, not with all others."""
    plan = crowded([1] * 16, 8)
    assert len(together(plan, launches(plan))) == comb(16, 8)


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 9)), min_size=1, max_size=5), st.integers(18, 40))
@settings(max_examples=40, deadline=None)
def test_a_set_loads_in_every_order(sizes: list[tuple[int, int]], capacity: int) -> None:
    plan = crowded([size for size, _ in sizes], capacity, [size + more for size, more in sizes])
    found = {frozenset(group) for group in together(plan, launches(plan))}

    def loads(order: tuple[int, ...]) -> bool:
        before = [sum(sizes[one][0] for one in order[:place]) for place in range(len(order))]
        return all(held + sum(sizes[one]) <= capacity for held, one in zip(before, order, strict=True))

    numbers = range(len(sizes))
    fitting = {
        frozenset(f"r{number}" for number in group)
        for count in range(1, len(sizes) + 1)
        for group in combinations(numbers, count)
        if all(loads(order) for order in permutations(group))
    }
    assert found == {group for group in fitting if not any(group < other for other in fitting)}


def test_models_that_take_turns_are_never_awake_together() -> None:
    """Two of 12 GiB on a card that holds one: llama-swap gets two sets, and what starts all at once refuses."""
    told = document()
    replica, gpu = told["replicas"][0], told["gpus"][0]
    told["replicas"] = [
        replica | {"id": name, "model": name, "enable_sleep_mode": True} for name in ("day", "night")
    ]
    for number, one in enumerate(told["replicas"]):
        one.update(port=8000 + number, start_order=number)
    share = gpu["replicas"][0] | {"budget_bytes": 12 * 2**30}
    sleeper = share | {"id": "night", "bytes": 2**30, "awake_bytes": 12 * 2**30, "host_bytes": 9 * 2**30}
    told["gpus"] = [
        gpu | {"capacity_bytes": 20 * 2**30, "replicas": [share | {"id": "day"}], "sleepers": [sleeper]}
    ]
    told["turns"] = [{"models": ["day", "night"], "mode": "sleep-1"}]
    plan = read_plan(told)
    assert plan.gpus[0].sleepers[0].asleep_bytes == 2**30
    found = export(plan, "llama-swap")
    matrix = yaml.safe_load(found.files[0].text)["routing"]["router"]["settings"]["matrix"]
    assert matrix["sets"] == {"set0": "m0", "set1": "m1"}
    assert "hooks" not in yaml.safe_load(found.files[0].text)
    assert "--enable-sleep-mode" not in found.files[0].text
    assert any("a wake is a load" in note for note in found.notes)
    for target in TARGETS:
        if not TARGETS[target].turns:
            with pytest.raises(UnsupportedError, match="day and night take turns"):
                export(plan, target)
