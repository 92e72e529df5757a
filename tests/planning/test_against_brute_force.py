"""Plans of small fleets against enumeration of every raw choice on every card (`bench.brute_force`)."""

from __future__ import annotations

from math import inf

import pytest

from bench.brute_force import KINDS, compare


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(1000, 1004))
def test_no_placement_is_cheaper(kind: str, seed: int) -> None:
    found = compare(kind, seed)
    assert found.planned == pytest.approx(found.truth, abs=1e-6) if found.truth < inf else found.planned == inf
