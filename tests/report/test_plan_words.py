"""What a plan and a sweep say of times, cards and promises."""

from __future__ import annotations

import io
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import pytest
from rich.console import Console

from cotenant import api
from cotenant.domain.contender import Contender
from cotenant.domain.device import Device
from cotenant.domain.plan import Plan
from cotenant.domain.what_if import Sweep, WhatIfPoint
from cotenant.report.card_text import print_cards
from cotenant.report.contenders import print_contenders
from cotenant.report.plan_text import print_plan
from cotenant.report.what_if import print_what_if, promise_words, what_if_html

ROOT = Path(__file__).resolve().parents[2]


@lru_cache
def trio() -> Plan:
    return api.plan(ROOT / "examples" / "a100-trio.yaml")


def told(plan: Plan, width: int = 400) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False, markup=False, emoji=False)
    print_plan(plan, console, commands=False)
    return console.file.getvalue()  # type: ignore[attr-defined]


def note(plan: Plan) -> str:
    return next(line for line in told(plan).splitlines() if line.startswith("~ roofline"))


def with_times(*tpots: tuple[float, float, float] | None) -> Plan:
    """The trio with these TPOTs, and a TTFT of 1 s within 0.5 to 2."""
    replicas = tuple(
        replace(one, ttft_s=(0.5, 1.0, 2.0), tpot_s=tpot) for one, tpot in zip(trio().replicas, tpots, strict=True)
    )
    return replace(trio(), replicas=replicas)


def test_the_note_on_times_says_of_each_model_what_its_warnings_say() -> None:
    one, other = (0.5, 1.0, 3.0), (0.02, 0.04, 0.28)
    assert note(with_times(one, one, one)).endswith("90 % within TTFT 0.5-2.0 x, TPOT 0.5-3.0 x")
    assert note(with_times(one, other, None)).endswith(
        "TTFT 0.5-2.0 x, TPOT 0.5-3.0 x (chat, triage); TTFT 0.5-2.0 x, TPOT 0.5-7.0 x (code)"
    )


def test_many_intervals_are_told_by_the_widest() -> None:
    replicas = tuple(
        replace(trio().replicas[0], id=f"m{number}", model=f"m{number}", tpot_s=(0.5, 1.0, 2.0 + number))
        for number in range(9)
    )
    bare = tuple(replace(gpu, shares=()) for gpu in trio().gpus)
    assert "x at the widest; --json has each model's own" in note(replace(trio(), replicas=replicas, gpus=bare))


@pytest.mark.parametrize(
    ("places", "says"),
    [
        ([(0, 0)], "L4 #0.0 (node 0, card 0)"),
        ([(0, 0), (0, 1)], "L4 #0.0, #0.1 (node 0, cards 0 and 1)"),
        ([(0, index) for index in range(8)], "L4 #0.0 to #0.7 (node 0, cards 0 to 7)"),
        ([(0, 0), (0, 1), (0, 2), (0, 5)], "L4 #0.0 to #0.2, #0.5 (node 0, cards 0 to 2 and 5)"),
        ([(0, 0), (0, 1), (1, 0)], "L4 #0.0, #0.1, #1.0 (#node.card)"),
    ],
)
def test_cards_in_a_row_are_told_by_their_ends(places: list[tuple[int, int]], says: str) -> None:
    gpu = trio().gpus[0]
    cards = [replace(gpu, device=Device("L4", node, index, index)) for node, index in places]
    console = Console(file=io.StringIO(), width=200, highlight=False, markup=False, emoji=False)
    print_cards(replace(trio(), gpus=tuple(cards)), {one.id: 0 for one in trio().replicas}, console)
    assert says in console.file.getvalue()  # type: ignore[attr-defined]


SWEEP = Sweep("traffic", "", (1.0, 2.0, 4.0, 8.0))
POINTS = (
    WhatIfPoint(1.0, True, 1.0, 1.0, 1.0, {"L4": 1}, promised=2),
    WhatIfPoint(
        2.0, True, 2.0, 2.0, 2.0, {"L4": 2}, promised=2, at_risk=("chat",),
        warnings=("chat: estimated TTFT at p95 is 1 s, up to 9 s: the target of 5 s may not hold",),
    ),
    WhatIfPoint(
        4.0, True, 4.0, 4.0, 4.0, {"L4": 4}, promised=2, strained=("chat",), at_risk=("chat", "code"),
        warnings=(
            "chat beside code at their peak: TPOT ~70 ms alone, ~125 ms (target 100 ms); more",
            "chat: estimated TTFT at p95 is 2 s, up to 18 s: the target of 5 s may not hold",
        ),
    ),
    WhatIfPoint(8.0, False, None, None, None, {}, lacks="code: a TPOT of 1 ms is below the floor", promised=2),
)  # fmt: skip


def swept(points: tuple[WhatIfPoint, ...], width: int = 160) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False, markup=False, emoji=False)
    print_what_if(SWEEP, points, console)
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_a_sweep_says_what_becomes_of_promises() -> None:
    words = [promise_words(one) for one in POINTS]
    assert words == [
        "held by estimate",
        "may not hold: chat",
        "breaks beside busy neighbours: chat; may not hold: code",
        "-",
    ]
    text = swept(POINTS)
    assert all(word in text for word in words)
    assert "No room at 8: code: a TPOT of 1 ms is below the floor." in text
    assert "warning: at 2, chat: estimated TTFT at p95 is 1 s" in text
    assert "warning: at 4, chat beside code at their peak" in text
    assert "18 s" not in text  # told once, where it begins
    html = what_if_html(SWEEP, POINTS, title="sweep")
    assert "may not hold: chat" in html
    assert "no room at 8: code" in html
    assert "Requests within their SLO" not in html


def test_a_sweep_that_was_replayed_has_shares() -> None:
    shares: tuple[tuple[dict[str, float], tuple[str, ...]], ...] = (
        ({"chat": 0.99, "code": 0.97}, ()), ({"chat": 0.5, "code": 0.96}, ("chat",)),
    )  # fmt: skip
    points = tuple(
        replace(one, attainment=attainment, missed=missed)
        for one, (attainment, missed) in zip(POINTS, shares, strict=False)
    )
    assert [promise_words(one) for one in points] == ["held, 97.0% at the least", "missed: chat 50.0%"]
    assert "Requests within their SLO" in what_if_html(SWEEP, points, title="sweep")


def test_ways_of_a_fleet_without_promises_hold_none() -> None:
    one = Contender("optimal", {"L4": 1}, None, None, 0.2, {"chat": 1.0}, ())
    for promised, says in ((True, "held"), (False, "none to hold")):
        console = Console(file=io.StringIO(), width=100, highlight=False, markup=False, emoji=False)
        print_contenders([replace(one, promised=promised)], console)
        line = console.file.getvalue().splitlines()[1].rstrip()  # type: ignore[attr-defined]
        assert line.endswith(f"100.0%  {says}")


def test_without_promises_there_is_no_such_column() -> None:
    assert "SLO" not in swept(tuple(replace(one, promised=0) for one in POINTS[:1]))
