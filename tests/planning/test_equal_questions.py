"""Models that ask for the same are sized once, and get what each would have got alone."""

from __future__ import annotations

import pytest

from cotenant.errors import FormatError
from cotenant.planning.candidates import all_ways, ways_of
from tests.planning.fleets import fleet, small

SHOP = [{"type": "L40S", "price": "$0.9/h"}, {"type": "A100-80GB-SXM", "price": "$1.7/h"}]


def test_equal_questions_are_sized_as_if_asked_alone() -> None:
    one = fleet(
        small("a"), small("b", priority=3), small("c", replicas={"min": 2, "max": 3}),
        small("d", apart_from=["a"]),
        gpus=SHOP,
    )  # fmt: skip
    found = all_ways(one)
    assert found == tuple(ways_of(one, number) for number in range(len(one.models)))
    assert [way.request for ways in found for way in ways.candidates] == [
        number for number, ways in enumerate(found) for _ in ways.candidates
    ]
    assert found[0].candidates[0].estimate is found[1].candidates[0].estimate
    assert found[2].candidates != found[0].candidates


def test_a_hundred_thousand_models_are_refused_before_they_are_read() -> None:

    with pytest.raises(FormatError, match="at most"):
        fleet(*(small(f"m{number}") for number in range(100_000)))
