"""Published placement problems whose answers are known."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

from bench import melange, prism


@pytest.mark.parametrize("seed", range(12))
def test_prism_search_equals_enumeration(seed: int) -> None:
    random = Random(seed)
    models = [(float(random.randint(10, 29)), random.random()) for _ in range(6)]
    truth = min(
        max(prism.pressure(models, [each for each in range(6) if where[each] == card]) for card in range(3))
        for where in product(range(3), repeat=6)
    )
    found = prism.least_pressure(3, models)
    assert found is not None
    assert found.pressure == pytest.approx(truth, rel=1e-9)
    assert sorted(each for card in found.cards for each in card) == list(range(6))
    assert found.pressure <= prism.greedy(3, models) + 1e-12


def test_what_does_not_fit_has_no_spread() -> None:
    assert prism.least_pressure(1, [(50.0, 1.0), (40.0, 1.0)]) is None


def test_melange_example_is_its_published_optimum_and_cheaper_when_buckets_are_cut() -> None:
    uncut, cut = melange.solve(1), melange.solve(2)
    assert uncut.placement.proven
    assert uncut.placement.objective_value == pytest.approx(melange.PUBLISHED_COST)
    assert uncut.cards == (3, 1)
    assert cut.placement.objective_value < melange.PUBLISHED_COST
