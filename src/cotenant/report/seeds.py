"""One simulation from several seeds: what chance does to the figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from typing import TYPE_CHECKING

from cotenant.domain.replay import ModelReplay, Replay
from cotenant.report.document import Document, header
from cotenant.report.grid import print_table, table
from cotenant.report.replay_document import replay_document
from cotenant.report.tables import print_paragraph, print_warnings
from cotenant.units import format_percent, format_seconds, plural

if TYPE_CHECKING:
    from rich.console import Console

_FIGURES: dict[str, Callable[[ModelReplay], float | None]] = {
    "ttft_p95_s": lambda one: None if one.ttft_s is None else one.ttft_s.p95,
    "tpot_p95_s": lambda one: None if one.tpot_s is None else one.tpot_s.p95,
    "goodput": lambda one: one.goodput,
    "attainment": lambda one: one.attainment,
}


def seeds_document(replays: Sequence[Replay], *, catalogue: str) -> Document:
    """`runs[]`, each as one replay has it but for its timeline, and `spread`: figures by policy and model."""
    runs = [replay_document(one, catalogue=catalogue) for one in replays]
    for run in runs:
        run.pop("timeline")
    return {
        **header("simulate", catalogue=catalogue, input_hash=replays[0].input_hash),
        "runs": runs,
        "spread": [
            {"policy": policy, "model": model, "seeds": len(found), "slo_held": _held(found), **_spreads(found)}
            for policy, model, found in _groups(replays)
        ],
    }


def print_seeds(replays: Sequence[Replay], console: Console) -> None:
    """A line for each model and policy: the median over seeds, and the range."""
    seeds = list(dict.fromkeys(one.seed for one in replays))
    count = f"{plural(len(seeds), 'seed')} ({seeds[0]} to {seeds[-1]})"
    policies = list(dict.fromkeys(one.policy for one in replays))
    alone = f", {policies[0]}" if len(policies) == 1 else ""
    each = f"{format_seconds(replays[0].duration_s)} each{alone}: median (least to most)"
    print_paragraph(console, f"{count}, {each}", style="bold", indent=0)
    console.print()
    grid = table(
        "model", "policy", "TTFT p95", "TPOT p95", "within SLO", "SLO held", left=("policy",),
        spare=("policy",) if alone else (),
    )  # fmt: skip
    before = ""
    for policy, model, found in sorted(_groups(replays), key=lambda group: _place(replays, group[1])):
        held, asked = _held(found), sum(one.requests > 0 for one in found)
        tpot = _spread(found, "tpot_p95_s")
        grid.add_row(
            "" if model == before else model,
            policy,
            _words(found, "ttft_p95_s", format_seconds),
            "-" if tpot is None else format_seconds(tpot["median"]),
            _words(found, "attainment", format_percent) if asked else "-",
            "-" if held is None else f"{held} of {asked}" if asked else "not asked",
        )
        before = model
    print_table(grid, console)
    print_warnings(
        console, list(dict.fromkeys(text for one in replays if one.seed == seeds[0] for text in one.warnings))
    )


def _groups(replays: Sequence[Replay]) -> list[tuple[str, str, list[ModelReplay]]]:
    found: dict[tuple[str, str], list[ModelReplay]] = {}
    for replay in replays:
        for model in replay.models:
            found.setdefault((replay.policy, model.model), []).append(model)
    return [(policy, model, each) for (policy, model), each in found.items()]


def _place(replays: Sequence[Replay], model: str) -> int:
    return [one.model for one in replays[0].models].index(model)


def _held(found: Sequence[ModelReplay]) -> int | None:
    """From how many seeds its SLO held; one that is not asked proves nothing. None: there is none."""
    return None if found[0].slo_held is None else sum(bool(one.slo_held and one.requests) for one in found)


def _spreads(found: Sequence[ModelReplay]) -> Document:
    return {name: _spread(found, name) for name in _FIGURES}


def _spread(found: Sequence[ModelReplay], name: str) -> Document | None:
    values = [value for one in found if (value := _FIGURES[name](one)) is not None]
    return {"median": median(values), "least": min(values), "most": max(values)} if values else None


def _words(found: Sequence[ModelReplay], name: str, form: Callable[[float], str]) -> str:
    spread = _spread(found, name)
    if spread is None:
        return "-"
    middle, least, most = (form(spread[key]) for key in ("median", "least", "most"))
    return middle if least == most else f"{middle} ({least} to {most})"
