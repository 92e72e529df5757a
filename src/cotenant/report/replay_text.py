"""A replay on one screen: each model's times and what its SLO says of them, each replica's work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cotenant.domain.replay import ModelReplay, Percentiles, Replay
from cotenant.report.tables import print_warnings, table
from cotenant.units import format_percent, format_seconds

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_BAR = 20  # cells of a small bar


def print_replay(replay: Replay, console: Console) -> None:
    """The headline, the models, the replicas, the warnings."""
    requests = sum(model.requests for model in replay.models)
    judged = [model for model in replay.models if model.slo_held is not None]
    missed = [model.model for model in judged if not model.slo_held]
    verdict = f"SLO missed by {', '.join(missed)}" if missed else "every SLO held" if judged else "no SLO to hold"
    console.print(
        f"{requests:,} requests in {format_seconds(replay.duration_s)} ({replay.policy}, seed {replay.seed}):"
        f" {verdict}",
        style="bold",
    )
    console.print()
    console.print(_models(replay))
    console.print()
    console.print(_replicas(replay))
    print_warnings(console, replay.warnings)


def _models(replay: Replay) -> Table:
    grid = table(
        "model", "requests", "req/s", "TTFT p50 / p95", "TPOT p50 / p95", "E2E p50 / p95", "goodput", "SLO"
    )
    for model in replay.models:
        grid.add_row(
            model.model, f"{model.requests:,}", f"{model.rate:.2f}", _pair(model.ttft_s), _pair(model.tpot_s),
            _pair(model.e2e_s), f"{model.goodput:.2f}", _slo(model),
        )  # fmt: skip
    return grid


def _replicas(replay: Replay) -> Table:
    grid = table("replica", "busy", "", "slowed by", "KV high water", "", "preempted", "woken", left=("busy",))
    for replica in replay.replicas:
        grid.add_row(
            replica.id, _bar(replica.busy), format_percent(replica.busy), f"{replica.slowdown:.2f}x",
            _bar(replica.kv_high_water), format_percent(replica.kv_high_water), f"{replica.preemptions:,}",
            "-" if replica.wakes is None else f"{replica.wakes:,}",
        )  # fmt: skip
    return grid


def _pair(found: Percentiles | None) -> str:
    return "-" if found is None else f"{format_seconds(found.p50)} / {format_seconds(found.p95)}"


def _slo(model: ModelReplay) -> str:
    if model.slo_held is None:
        return "-"
    return f"{'held' if model.slo_held else 'missed'}, {format_percent(model.attainment, digits=1)}"


def _bar(share: float) -> str:
    filled = min(_BAR, round(share * _BAR))
    return "█" * filled + "·" * (_BAR - filled)
