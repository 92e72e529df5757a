"""Every table of every command, with long names, at widths from 60 to 160 columns: each word that
stands there narrow stands there wide, so none is cut, and no line runs over but what is there to be copied."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.cells import cell_len
from rich.console import Console

from cotenant import api
from cotenant.catalogue.gpus import all_gpus, find_gpu
from cotenant.catalogue.models import all_entries
from cotenant.domain.fleet import Fleet
from cotenant.domain.plan import Plan
from cotenant.domain.replay import Replay
from cotenant.edge.traces import open_trace
from cotenant.estimation.anatomy import anatomy
from cotenant.estimation.matrix import precision_matrix
from cotenant.planning.listed import ways_listed
from cotenant.report.candidates import print_ways
from cotenant.report.contenders import print_contenders
from cotenant.report.estimate_text import print_estimate
from cotenant.report.explain_text import print_explanation
from cotenant.report.gpu_text import print_gpus
from cotenant.report.model_text import print_anatomy, print_models
from cotenant.report.plan_text import print_plan
from cotenant.report.quantize_text import print_matrix
from cotenant.report.replay_text import print_comparison, print_replay
from cotenant.report.seeds import print_seeds
from cotenant.report.trace_text import print_trace
from cotenant.report.verify_text import print_verification
from cotenant.report.what_if import print_what_if
from cotenant.simulation.trace_summary import summary
from tests.report.test_verify_report import verification

ROOT = Path(__file__).resolve().parents[2]
TRACE = ROOT / "examples" / "traces" / "bursty.csv"
BARS = set("█▓▒░╳·▁▂▃▄▅▆▇▚┃│▞╱╌ ")
WIDTHS = range(60, 161, 5)
SHORT = {"format", "length", "seqs", "KV", "act", "run", "all", "share"}  # heads where there is little room


def _long(name: str) -> str:
    return f"{name}-of-the-second-customer-in-europe-west-4.blue"[:63]


@lru_cache
def fleet() -> Fleet:
    value: dict[str, Any] = yaml.safe_load((ROOT / "examples" / "a100-trio.yaml").read_text())
    for model in value["models"]:
        model["name"] = _long(model["name"])
    return api.load_fleet(value)


@lru_cache
def plan() -> Plan:
    return api.plan(fleet())


@lru_cache
def replays() -> tuple[Replay, ...]:
    return tuple(api.simulate_many(plan(), policies=("static", "elastic"), seeds=(0, 1), duration="5s", workers=1))


@lru_cache
def shown(name: str) -> Callable[[Console], None]:
    """What a command prints, worked out once."""
    made: Mapping[str, Callable[[], Callable[[Console], None]]] = {
        "plan": lambda: lambda on: print_plan(plan(), on, priced=True),
        "plan --compare": lambda: _with(print_contenders, api.compare_plans(fleet(), ["optimal"])),
        "plan --candidates": lambda: _with(print_ways, ways_listed(fleet())),
        "plan --what-if": lambda: _swept(),
        "simulate": lambda: _with(print_replay, replays()[0]),
        "simulate --compare": lambda: _with(print_comparison, replays()[::2]),
        "simulate --seeds": lambda: _with(print_seeds, replays()),
        "workload": lambda: _with(print_trace, summary(open_trace(TRACE), token_s=0.03)),
        "verify": lambda: _with(print_verification, verification()),
        "estimate": lambda: _with(
            print_estimate, api.estimate("meta-llama/Llama-3.1-8B-Instruct", gpu="L4", max_model_len=8192)
        ),
        "explain": lambda: _with(print_explanation, api.explain(ROOT / "tests/golden/logs/vllm-v1-fits.log")),
        "inspect": lambda: _with(print_anatomy, anatomy(api.load_model("google/gemma-3-27b-it"))),
        "quantize": lambda: _with(
            print_matrix,
            precision_matrix(
                api.load_model("meta-llama/Llama-3.1-8B-Instruct"), find_gpu("L4"), engine="vllm", task="code",
                max_loss=0.01,
            ),
        ),
        "models": lambda: _with(print_models, all_entries()[:60]),
        "gpus": lambda: _with(print_gpus, all_gpus()),
    }  # fmt: skip
    return made[name]()


def _with(function: Callable[..., None], found: Any) -> Callable[[Console], None]:
    return lambda on: function(found, on)


def _swept() -> Callable[[Console], None]:
    sweep, points = api.what_if(fleet(), "traffic=1..2", points=2)
    return lambda on: print_what_if(sweep, points, on)


def lines(name: str, width: int) -> list[str]:
    out = io.StringIO()
    shown(name)(Console(file=out, width=width, highlight=False, emoji=False, markup=False))
    return [
        line for line in out.getvalue().splitlines() if not line.startswith(("CUDA_VISIBLE_DEVICES=", "vllm "))
    ]


def words(found: list[str]) -> set[str]:
    """All but what is drawn to scale: bars, their captions and the size of a cell."""
    text = re.sub(r"1\s+cell\s+=\s+\S+\s+GiB", "", "\n".join(found))
    return {word.rstrip(":;,.") for word in text.split() if not set(word) <= BARS and "…" not in word}


@pytest.mark.parametrize(
    "name",
    [
        "plan", "plan --compare", "plan --candidates", "plan --what-if", "simulate", "simulate --compare",
        "simulate --seeds", "workload", "verify", "estimate", "explain", "inspect", "quantize", "models", "gpus",
    ],
)  # fmt: skip
def test_no_value_is_cut_at_any_width(name: str) -> None:
    wide = words(lines(name, 400)) | SHORT
    if name == "gpus":  # sizes have one digit less on a narrow terminal
        wide |= words(lines(name, 89))
    if name == "workload":  # neighbours in the plot of rates are merged
        wide |= {line.split()[2] for width in WIDTHS for line in lines(name, width) if "up to" in line}
    whole = " ".join(wide)
    for width in WIDTHS:
        found = lines(name, width)
        assert [line for line in found if line != line.rstrip()] == []
        assert [line for line in found if cell_len(line) > width and len(line.split()) > 1] == []
        cut = [word for word in words(found) - wide if len(word) < 20 or word not in whole]
        assert cut == [], f"at {width} columns"
