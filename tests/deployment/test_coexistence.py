"""What may run together follows from bytes: compared with trying every subset."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from cotenant.deployment.coexistence import together
from cotenant.deployment.launch import launches
from cotenant.readers.plan_document import read_plan
from tests.deployment.conftest import document


def crowded(sizes: list[int], capacity: int):
    """Replicas of those sizes on one card of that capacity."""
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
        share | zero | {"id": f"r{number}", "budget_bytes": size} for number, size in enumerate(sizes)
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
