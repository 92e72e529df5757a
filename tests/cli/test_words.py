"""Words that help: the command that was meant, what was never asked, tables that keep their columns."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Run

ROOT = Path(__file__).resolve().parents[2]
DAY = str(ROOT / "examples" / "day-and-night.yaml")


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ("estimat", "Did you mean 'estimate'?"),
        ("PLAN", "Did you mean 'plan'?"),
        ("simulat", "Did you mean 'simulate'?"),
        ("zzz", "There are plan, simulate,"),
    ],
)
def test_a_command_that_is_none_is_met_with_the_nearest(run: Run, typed: str, says: str) -> None:
    answer = run(typed)
    assert answer.status == 2
    assert f"No such command {typed!r}. {says}" in answer.err


def test_a_model_that_nobody_asked_keeps_no_promise(run: Run) -> None:
    """At the busiest hour, by night, nobody asks the one that chats by day: nothing is known of its SLO."""
    answer = run("simulate", DAY, "--duration", "60s")
    assert answer.status == 0
    assert "every SLO of those asked held, chat not asked" in answer.out.replace("\n", " ")
    assert "every SLO held" not in answer.out
    seeds = run("simulate", DAY, "--duration", "60s", "--seeds", "2", "--workers", "1")
    line = next(line for line in seeds.out.splitlines() if line.startswith("chat"))
    assert line.endswith("not asked")
    assert "2 of 2" in next(line for line in seeds.out.splitlines() if line.startswith("digest"))


@pytest.mark.parametrize("width", [80, 100, 140])
def test_quantize_keeps_its_columns(run: Run, monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    answer = run("quantize", "meta-llama/Llama-3.1-8B-Instruct", "--gpu", "L4", "--task", "code")
    lines = answer.out.splitlines()
    head = next(line for line in lines if line.startswith("format"))
    assert head.split()[:6] == ["format", "verdict", "weights", "kernel", "speed", "loss"]
    block = next(line for line in lines if line.startswith("fp8-block"))
    assert "memory only" in block
    assert "(1.65%)" in block
    assert all(len(line) <= width for line in lines)
