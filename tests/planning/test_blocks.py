"""Large fleets in parts: sound, no dearer than greedy, above the bound, the same every time."""

from __future__ import annotations

import pytest

from bench.drawn_fleets import drawn
from cotenant.planning import large, placing
from cotenant.planning.blocks import part_of
from cotenant.planning.greedy import place_greedily
from cotenant.planning.placing import place_by_patterns
from tests.planning.test_packing import assert_sound


def test_parts_improve_on_greedy_and_keep_every_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placing, "QUICK_MODELS", 10)
    monkeypatch.setattr(large, "MOST_AT_ONCE", 10)
    one = drawn(24, 3, 2)
    found = place_by_patterns(one)
    assert found is not None
    assert_sound(one, found)
    assert found.placed == frozenset(range(24))
    assert found.objective_value <= place_greedily(one).objective_value
    assert found.lower_bound <= found.objective_value
    assert place_by_patterns(one) == found


def test_a_part_is_a_problem_of_its_own() -> None:
    one = drawn(6, 2, 1)
    part = part_of(one, [1, 4], [0, 2])
    assert part.names == ("model-1", "model-4")
    assert part.cards == (one.cards[0], one.cards[2])
    assert [way.request for ways in part.candidates for way in ways] == [
        place for place, ways in enumerate(part.candidates) for _ in ways
    ]
    assert [way.claim_bytes for way in part.candidates[1]] == [way.claim_bytes for way in one.candidates[4]]
