"""The same sizes and the same placement, whoever works them out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pickle import dumps, loads
from typing import TypeVar

import pytest

from bench.drawn_fleets import drawn
from bench.drawn_requests import drawn_requests
from cotenant import load_fleet
from cotenant.edge.crews import crew_of
from cotenant.errors import InputError
from cotenant.planning import sized_apart
from cotenant.planning.blocks import improve_by_blocks
from cotenant.planning.candidates import all_ways
from cotenant.planning.crew import working
from cotenant.planning.greedy import place_greedily

T = TypeVar("T")
R = TypeVar("R")


class Elsewhere:
    """A crew that hands everything over as processes do, without starting any."""

    members = 2

    def __init__(self) -> None:
        self.asked = 0

    def each(self, function: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
        for item in items:
            self.asked += 1
            yield loads(dumps(function(loads(dumps(item)))))


def test_sizes_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sized_apart, "_FROM", 1)
    monkeypatch.setattr(sized_apart, "_MODELS", 2)
    document, crew = drawn_requests(5, 3, 4), Elsewhere()
    alone = all_ways(load_fleet(document))
    with working(crew):
        together = all_ways(load_fleet(document))
    assert crew.asked == 3
    for one, other in zip(alone, together, strict=True):
        assert one.candidates == other.candidates
        assert one.refusals == other.refusals
        assert [each.candidate for each in one.dropped] == [each.candidate for each in other.dropped]
        assert one.candidates[0].estimate == other.candidates[0].estimate


def test_parts_are_the_same() -> None:
    problem, crew = drawn(12, 2, 2), Elsewhere()
    start = place_greedily(problem)
    alone = improve_by_blocks(problem, start, parts=((2, 2),), step=0.01, enough=0.0)
    with working(crew):
        together = improve_by_blocks(problem, start, parts=((2, 2),), step=0.01, enough=0.0)
    assert crew.asked == 2
    assert [(one.candidate, one.cards) for one in alone] == [(one.candidate, one.cards) for one in together]


@pytest.mark.parametrize("workers", [0, -1, True, 1.5, "two"])
def test_what_is_no_crew(workers: object) -> None:
    with pytest.raises(InputError), crew_of(workers):  # type: ignore[arg-type]
        pass
