"""Targets that no card can keep: the floor is said first, and what would hold is tried."""

from __future__ import annotations

import io
import re
from typing import Any

import pytest
from rich.console import Console

from cotenant import load_fleet, plan
from cotenant.planning.floors import floor_words, slower_targets
from cotenant.planning.problem import Refusal
from cotenant.report.plan_text import print_plan
from tests.planning.test_promise import asked

CARDS = [{"type": "L4", "count": 1}, {"type": "A100-80GB-SXM", "count": 1}]


def fleet(slo: dict[str, str], rate: float = 0.1) -> dict[str, Any]:
    return {"gpus": CARDS, "models": [asked("a", rate, slo), asked("b", 0.1)]}


def test_an_impossible_target_is_met_with_the_floor_of_the_best_card() -> None:
    """What was asked, the least that is possible, the shortfall; not the floor of the worst card there is."""
    found = plan(fleet({"tpot": "1ms"}))
    (short,) = found.shortfalls
    said = re.match(
        r"a TPOT of 1 ms is asked, and one step for one request alone takes (.+) ms at the least "
        r"\(.+ on A100-80GB-SXM\): (.+) ms short",
        short.reason,
    )
    assert said, short.reason
    assert float(said[2]) == pytest.approx(float(said[1]) - 1, abs=0.02)
    remedy = short.remedies[0]
    assert remedy.startswith("a with tpot ")
    loosened = float(re.match(r"a with tpot (.+) ms instead of tpot 1 ms", remedy)[1])  # type: ignore[index]
    assert loosened > float(said[1])
    assert plan(fleet({"tpot": f"{loosened}ms"})).feasible
    assert not plan(fleet({"tpot": f"{loosened / 1.3}ms"})).feasible


def test_the_floor_stands_before_the_nearest_plan() -> None:
    console = Console(file=io.StringIO(), width=100, highlight=False, markup=False, emoji=False)
    print_plan(plan(fleet({"ttft": "1ms"})), console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    lines = text.splitlines()
    assert lines[0].startswith("does not fit: no room for a.")
    assert lines[2].startswith("a has no place: a TTFT of 1 ms is asked, and a prompt of")
    assert text.index("would fit: a with ttft") < text.index("GiB       weights")


def test_the_floor_is_told_before_a_lack_of_bytes() -> None:
    """Where the only card that holds the model is too slow, room on others would not help."""
    heavy = asked("a", 0.1, {"tpot": "1ms"})
    heavy["model"]["parameters"] = "30B"
    found = plan({"gpus": CARDS, "models": [{**heavy, "quantization": ["bf16"]}]})
    (short,) = found.shortfalls
    assert short.reason.startswith("a TPOT of 1 ms is asked")
    assert "; elsewhere bf16 weights take" in short.reason


def test_what_is_no_floor_is_none() -> None:
    question = load_fleet(fleet({"tpot": "20ms"}))
    assert floor_words(question, [Refusal(0, 0, "bf16", 1, "weights take 5 GiB", 7)]) is None
    assert list(slower_targets(question.models[1], lambda _: question, lambda _: True)) == []
    assert list(slower_targets(question.models[0], lambda _: question, lambda _: False)) == []
