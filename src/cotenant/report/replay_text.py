"""A replay on one screen: each model's times and what its SLO says of them, each replica's work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cotenant.domain.replay import ModelReplay, Percentiles, Replay, Timeline
from cotenant.report.grid import Grid, print_table, table
from cotenant.report.tables import print_paragraph, print_sources, print_warnings
from cotenant.units import format_percent, format_seconds, plural

if TYPE_CHECKING:
    from rich.console import Console

_BAR = 20  # cells of a small bar, half of them where there is less room
_WIDE = 120  # columns
_FEW = 20  # requests, of which one is five percent


def print_replay(replay: Replay, console: Console) -> None:
    """The headline, the models, the replicas, the warnings."""
    print_paragraph(console, headline(replay), style="bold", indent=0)
    console.print()
    print_table(_models(replay), console)
    if few_words([replay]):
        print_paragraph(console, few_words([replay]), style="dim", indent=0)
    console.print()
    print_table(_replicas(replay, wide=console.width >= _WIDE), console)
    print_sources(console, ((replica.id, replica.times_from) for replica in replay.replicas))
    print_starved(replay.timeline, console)
    _print_hits(replay, console)
    print_warnings(console, replay.warnings)


def headline(replay: Replay) -> str:
    """One line: how much, under which policy, and whether promises were kept."""
    requests = sum(model.requests for model in replay.models)
    when = f"{format_seconds(replay.duration_s)} ({replay.policy}, seed {replay.seed})"
    return f"{plural(requests, 'request')} in {when}: {verdict(replay)}"


def verdict(replay: Replay) -> str:
    """Whether promises were kept; of models that nobody asked nothing is known, and that is said."""
    promised = [model for model in replay.models if model.slo_held is not None]
    idle = [model.model for model in promised if not model.requests]
    missed = [model.model for model in promised if model.requests and not model.slo_held]
    if not promised:
        return "no SLO to hold"
    if len(idle) == len(promised):
        return f"no SLO was put to the test: {', '.join(idle)} not asked"
    unasked = f", {', '.join(idle)} not asked" if idle else ""
    if missed:
        return f"SLO missed by {', '.join(missed)}{unasked}"
    return f"every SLO of those asked held{unasked}" if idle else "every SLO held"


def few_words(replays: Sequence[Replay]) -> str:
    """Of models that were asked so seldom that a 95th percentile is their slowest request; "" where none was."""
    few = {model.model: model.requests for one in replays for model in one.models if 0 < model.requests < _FEW}
    told = ", ".join(f"{name} ({count})" for name, count in few.items())
    return f"p95 of fewer than {_FEW} requests is the slowest of them: {told}" if told else ""


def print_comparison(replays: Sequence[Replay], console: Console) -> None:
    """A line for each policy and model, so that what one gains and another loses stand together."""
    first = replays[0]
    when = f"the same {format_seconds(first.duration_s)} (seed {first.seed})"
    print_paragraph(console, f"{plural(len(replays), 'policy', 'policies')} on {when}", style="bold", indent=0)
    console.print()
    grid = table(
        "model", "policy", "answered", "TTFT p50 / p95", "TPOT p50 / p95", "goodput", "SLO",
        left=("policy",), spare=("goodput",),
    )  # fmt: skip
    for place, model in enumerate(first.models):
        for replay in replays:
            found = replay.models[place]
            grid.add_row(
                model.model if replay is first else "", replay.policy, f"{found.finished:,} of {found.requests:,}",
                pair(found.ttft_s), pair(found.tpot_s), f"{found.goodput:.2f}", slo_words(found),
            )  # fmt: skip
    print_table(grid, console)
    if few_words(replays[:1]):
        print_paragraph(console, few_words(replays[:1]), style="dim", indent=0)
    warnings = dict.fromkeys(f"{replay.policy}: {text}" for replay in replays for text in replay.warnings)
    shared = [text for text in first.warnings if all(text in replay.warnings for replay in replays)]
    print_warnings(console, [*shared, *(text for text in warnings if text.partition(": ")[2] not in shared)])


def print_starved(timeline: Timeline | None, console: Console) -> None:
    """Of each model that waited on others: who had its cards meanwhile, in shares of its waiting."""
    lines = []
    for model in timeline.models if timeline is not None else ():
        mine = [one for one in timeline.starved if one.model == model.model] if timeline is not None else []
        whole = sum(one.seconds for one in mine)
        if any(one.by != model.model and one.seconds > 0.05 * whole for one in mine):
            named = (
                f"{_who(one.by, model.model)} {format_percent(one.seconds / whole)}"
                for one in mine
                if one.seconds >= 0.005 * whole
            )
            lines.append(f"{model.model} waited {format_seconds(whole)} for first tokens: {', '.join(named)}")
    if lines:
        console.print()
    for line in lines:
        print_paragraph(console, line, indent=0)


def _print_hits(replay: Replay, console: Console) -> None:
    """Of models whose prompts begin alike: how much of them the prefix cache held."""
    cached = [model for model in replay.models if model.cache_hits is not None]
    if cached:
        console.print()
    for model in cached:
        share = format_percent(model.cache_hits or 0.0, digits=1)
        words = f"{model.model}: {share} of its prompts' tokens were in the prefix cache"
        print_paragraph(console, words, indent=0)


def _who(by: str, model: str) -> str:
    return "its own load" if by == model else f"{by} at work" if by else "a model being loaded"


def _models(replay: Replay) -> Grid:
    """On a narrow screen the times that SLOs are about, on a wide one all figures."""
    grid = table(
        "model", "requests", "req/s", "TTFT p50 / p95", "TPOT p50 / p95", "E2E p50 / p95", "goodput", "SLO",
        spare=("E2E p50 / p95", "goodput", "req/s"),
    )  # fmt: skip
    for model in replay.models:
        grid.add_row(
            model.model, f"{model.requests:,}", f"{model.rate:.2f}", pair(model.ttft_s), pair(model.tpot_s),
            pair(model.e2e_s), f"{model.goodput:.2f}", slo_words(model),
        )  # fmt: skip
    return grid


def _replicas(replay: Replay, *, wide: bool) -> Grid:
    """Without the bars where there is no room, the figures stay."""
    grid = table("replica", "", "busy", "slowed by", "", "KV high water", "preempted", "woken", spare=(4, 1))
    cells = _BAR if wide else _BAR // 2
    for replica in replay.replicas:
        grid.add_row(
            replica.id, _bar(replica.busy, cells), format_percent(replica.busy), f"{replica.slowdown:.2f}x",
            _bar(replica.kv_high_water, cells), format_percent(replica.kv_high_water), f"{replica.preemptions:,}",
            "-" if replica.wakes is None else f"{replica.wakes:,}",
        )  # fmt: skip
    return grid


def pair(found: Percentiles | None) -> str:
    """Median and 95th percentile."""
    return "-" if found is None else f"{format_seconds(found.p50)} / {format_seconds(found.p95)}"


def slo_words(model: ModelReplay) -> str:
    """Whether its SLO held, and the share of requests that kept it."""
    if model.slo_held is None:
        return "-"
    if not model.requests:
        return "not asked"
    return f"{'held' if model.slo_held else 'missed'}, {format_percent(model.attainment, digits=1)}"


def _bar(share: float, cells: int) -> str:
    filled = min(cells, round(share * cells))
    return "█" * filled + "·" * (cells - filled)
