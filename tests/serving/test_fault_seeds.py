"""The router in worlds that fail: a few seeds here, a hundred thousand in `python -m bench.live`."""

from __future__ import annotations

import ast

import pytest

from bench.fault_bugs import BUGS
from bench.fault_compiled import sources
from bench.fault_world import Violation, run
from cotenant.errors import CheckError


@pytest.mark.parametrize("first", range(0, 40, 20))
def test_no_promise_is_broken(first):
    for seed in range(first, first + 20):
        world = run(seed)
        assert len(world.asked) >= 200
        assert all(one.ended for one in world.asked.values())


def test_a_seed_is_the_same_world_again():
    once, again = run(11), run(11)
    assert [one.ended for one in once.asked.values()] == [one.ended for one in again.asked.values()]
    assert (once.events, once.now) == (again.events, again.now)


def test_gateways_that_begin_anew_take_over_what_is_left():
    worlds = [run(seed) for seed in range(40, 75)]
    assert sum(world.restarts for world in worlds) > 5
    taken = {name for world in worlds for name in world.adoptions}
    assert taken == {"READY", "ASLEEP", "STARTING"}


def test_what_is_compiled_imports_nothing_beside_it():
    found = sources()
    for path in found.values():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith(("cotenant", "bench")):
                assert f"{node.module.replace('.', '/')}.py" in found, f"{path.name} imports {node.module}"


def test_worlds_differ_and_most_requests_are_answered():
    worlds = [run(seed) for seed in range(100, 110)]
    assert len({world.events for world in worlds}) > 5
    ends = [one.ended for world in worlds for one in world.asked.values()]
    assert ends.count("answered") > len(ends) / 3


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_found(name):
    assert any(_breaks(seed, name) for seed in range(20))


def _breaks(seed: int, name: str) -> bool:
    try:
        run(seed, BUGS[name])
    except (Violation, CheckError):
        return True
    return False


def test_there_are_eleven():
    assert len(BUGS) == 11
