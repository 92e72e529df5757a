"""What a plan says beside its choices."""

from __future__ import annotations

import re
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from cotenant import load_fleet
from cotenant.planning.solve import plan_fleet
from cotenant.report.plan_text import print_plan
from tests.planning.fleets import fleet, trio

L40S = [{"type": "L40S", "count": 1}]


def embedder(model: str = "Alibaba-NLP/gte-Qwen2-7B-instruct", **more: Any) -> dict[str, Any]:
    traffic = {"concurrent": 4, "context_tokens": {"p50": 200, "p95": 480}}
    return {"name": "embed", "model": model, "task": "embed", "traffic": traffic, **more}


def test_a_smaller_format_of_unpublished_loss_is_named() -> None:
    said = [each for each in plan_fleet(fleet(embedder(), gpus=L40S)).warnings if "not tried" in each]
    assert said == [
        "embed: fp8 was not tried: the loss on embed is not published; quantization: [fp8, bf16] allows it"
    ]


def test_following_the_hint_takes_the_format_and_ends_the_warning() -> None:
    answer = plan_fleet(fleet(embedder(quantization=["fp8", "bf16"]), gpus=L40S))
    assert [replica.quantization for replica in answer.replicas] == ["fp8"]
    assert not any("not tried" in each for each in answer.warnings)


def test_what_saves_little_is_not_named() -> None:
    answer = plan_fleet(fleet(embedder("BAAI/bge-m3"), gpus=L40S))
    assert not any("not tried" in each for each in answer.warnings)


def test_the_headline_says_whose_target_breaks_beside_busy_neighbours() -> None:
    answer = plan_fleet(load_fleet(trio()))
    (one,) = answer.strained
    assert (one.model, one.neighbours) == ("chat", ("code", "triage"))
    assert "TPOT" in one.targets
    console = Console(width=200, file=StringIO(), force_terminal=False)
    print_plan(answer, console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "break" in text.splitlines()[0]
    assert text.splitlines()[0].endswith("while both neighbours are busy")
    for word in one.targets:
        assert f"{word} ~" in next(each for each in answer.warnings if each.startswith("chat beside"))
    found = re.search(r"90 % within TTFT ([\d.]+)-([\d.]+) x, TPOT ([\d.]+)-([\d.]+) x", text)
    assert found is not None
    assert float(found[1]) < 1 < float(found[2])
    assert float(found[3]) < 1 < float(found[4])
    alone = plan_fleet(load_fleet(trio() | {"models": trio()["models"][:1]}))
    assert alone.strained == ()


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
def test_hours_of_several_clocks_are_told(zone: str) -> None:
    """Day and night take turns on one card where one clock tells both; nothing is said then."""
    models = [
        embedder("Qwen/Qwen2.5-1.5B-Instruct", name=name, task="chat", sharing=["co-resident", "sleep"])
        for name in ("day", "night")
    ]
    for model, awake in zip(models, (range(9, 17), range(20, 24)), strict=True):
        lengths = {"input_tokens": {"p95": 500}, "output_tokens": {"p95": 100}}
        model["traffic"] = {
            "requests_per_second": 0.5,
            **lengths,
            "by_hour": [float(hour in awake) for hour in range(24)],
        }
    models[1]["traffic"]["timezone"] = zone
    told = [each for each in plan_fleet(fleet(*models, gpus=L40S)).warnings if "time zone" in each]
    assert len(told) == (zone != "UTC")
    assert all(each.startswith("day and night tell their hours in Europe/Berlin and UTC") for each in told)
