"""A replay, or several of the same requests, as one HTML page with plots."""

from __future__ import annotations

from collections.abc import Sequence

from cotenant.domain.replay import MemorySeries, ModelReplay, Replay, Timeline
from cotenant.report.page import Html, notes, page, section, table
from cotenant.report.plots import Axis, Mark, Series, area_plot, bar_plot, cdf_plot, line_plot
from cotenant.report.replay_text import headline, pair, slo_words
from cotenant.units import GIB, format_percent, format_seconds, plural

_TIMES = Axis("seconds", lambda value: f"{value:,.0f}")
_LATENCY = Axis("", format_seconds, log=True)
_GIB = Axis("GiB", lambda value: f"{value:,.0f}")
_SHARE = Axis("", format_percent)


def replay_html(replays: Sequence[Replay], *, title: str, command: str = "") -> str:
    """The page. Of several replays the models are compared first, then each policy is shown in full."""
    body = [f"<h1>{_escaped(title)}</h1>"]
    if command:
        body.append(f'<p class="dim"><code>{_escaped(command)}</code></p>')
    if len(replays) > 1:
        body += _comparison(replays)
    for one in replays:
        body += _one(one, apart=len(replays) > 1)
    return page(title, body)


def _comparison(replays: Sequence[Replay]) -> list[str]:
    rows = [
        [model.model if one is replays[0] else "", one.policy, f"{model.finished:,} of {model.requests:,}",
         pair(model.ttft_s), pair(model.tpot_s), f"{model.goodput:.2f}", _slo(model)]
        for place in range(len(replays[0].models))
        for one in replays
        for model in [one.models[place]]
    ]  # fmt: skip
    head = ("model", "policy", "answered", "TTFT p50 / p95", "TPOT p50 / p95", "goodput", "SLO")
    bars = [
        bar_plot(
            f"{replays[0].models[place].model}: requests within their SLO",
            [
                (one.policy, [Series("within SLO", [(0, one.models[place].attainment)], place)],
                 format_percent(one.models[place].attainment, digits=1))
                for one in replays
            ],
            Axis("share of all requests", format_percent),
            most=1.0,
        )
        for place in range(len(replays[0].models))
    ]  # fmt: skip
    curves = [
        cdf_plot(
            f"{replays[0].models[place].model}: time to first token",
            [(one.policy, one.models[place].curves.ttft_s, number) for number, one in enumerate(replays)],
            _LATENCY,
        )
        for place in range(len(replays[0].models))
    ]
    policies = plural(len(replays), "policy", "policies")
    return [
        f"<p>{policies} on the same {format_seconds(replays[0].duration_s)} of requests</p>",
        table(head, rows, left=(0, 1)), section("Policies side by side", [*bars, *curves]),
    ]  # fmt: skip


def _one(replay: Replay, *, apart: bool) -> list[str]:
    missed = any(model.slo_held is False for model in replay.models)
    line = f'<p class="{"bad" if missed else "good"}">{_escaped(headline(replay))}</p>'
    parts = [f"<h2>{_escaped(replay.policy)}</h2>{line}" if apart else line, _models(replay), _replicas(replay)]
    parts.append(section("What users waited for", _latency_plots(replay)))
    if replay.timeline is not None:
        parts.append(section("Over time", _time_plots(replay, replay.timeline)))
        parts.append(section("Who had the cards while requests waited", _starved(replay.timeline)))
    parts.append(notes(replay.warnings))
    return parts


def _models(replay: Replay) -> str:
    head = ("model", "requests", "req/s", "TTFT p50 / p95", "TPOT p50 / p95", "E2E p50 / p95", "goodput", "SLO")
    rows = [
        [one.model, f"{one.requests:,}", f"{one.rate:.2f}", pair(one.ttft_s), pair(one.tpot_s), pair(one.e2e_s),
         f"{one.goodput:.2f}", _slo(one)]
        for one in replay.models
    ]  # fmt: skip
    return table(head, rows)


def _replicas(replay: Replay) -> str:
    head = ("replica", "cards", "requests", "busy", "slowed by", "KV high water", "preempted", "woken")
    rows = [
        [one.id, ", ".join(one.cards), f"{one.requests:,}", format_percent(one.busy), f"{one.slowdown:.2f}x",
         format_percent(one.kv_high_water), f"{one.preemptions:,}", "-" if one.wakes is None else f"{one.wakes:,}"]
        for one in replay.replicas
    ]  # fmt: skip
    return table(head, rows, left=(0, 1))


def _slo(model: ModelReplay) -> str:
    if model.slo_held is None:
        return "-"
    return Html(f'<span class="{"good" if model.slo_held else "bad"}">{_escaped(slo_words(model))}</span>')


def _latency_plots(replay: Replay) -> list[str]:
    figures = (("time to first token", "ttft_s"), ("time per token", "tpot_s"), ("whole answer", "e2e_s"))
    return [
        cdf_plot(
            name[0].upper() + name[1:],
            [(one.model, getattr(one.curves, key), place) for place, one in enumerate(replay.models)],
            _LATENCY,
        )
        for name, key in figures
    ]


def _time_plots(replay: Replay, timeline: Timeline) -> list[str]:
    def over_time(values: Sequence[float]) -> list[tuple[float, float]]:
        return [((place + 0.5) * timeline.part_s, value) for place, value in enumerate(values)]

    def lines(title: str, key: str, axis: Axis) -> str:
        series = [Series(one.model, over_time(getattr(one, key)), n) for n, one in enumerate(timeline.models)]
        return line_plot(title, series, _TIMES, axis)

    colours = {one.model: place for place, one in enumerate(timeline.models)}
    owners = {one.id: colours.get(one.model, 0) for one in replay.replicas}
    memory = [
        area_plot(
            card,
            [
                Series(f"{one.replica}: {what}", over_time([value / GIB for value in values]), owners[one.replica])
                for one in _on(timeline, card)
                for what, values in (("weights, runtime", one.fixed_bytes), ("KV in use", one.kv_bytes))
            ],
            _TIMES,
            _GIB,
            marks=[Mark("capacity", capacity / GIB)],
        )
        for card, capacity in sorted(timeline.capacity_bytes.items())
        if _on(timeline, card)
    ]
    return [
        line_plot("Requests that came", _came(timeline), _TIMES, Axis("a second")),
        lines("Waiting for a first token", "waiting", Axis("requests")),
        lines("Being written", "running", Axis("requests")),
        lines("Replicas at work", "busy", _SHARE),
        *memory,
    ]


def _came(timeline: Timeline) -> list[Series]:
    """Rates over parts four times as wide: single requests would only make noise."""
    return [
        Series(
            one.model,
            [
                ((start + 2) * timeline.part_s, sum(one.arrivals[start : start + 4]) / 4)
                for start in range(0, len(one.arrivals) - 3, 4)
            ],
            place,
        )
        for place, one in enumerate(timeline.models)
    ]


def _on(timeline: Timeline, card: str) -> list[MemorySeries]:
    return [one for one in timeline.memory if card in one.cards]


def _starved(timeline: Timeline) -> list[str]:
    colours = {one.model: place for place, one in enumerate(timeline.models)}
    rows = []
    for model in timeline.models:
        mine = [one for one in timeline.starved if one.model == model.model]
        parts = [
            Series(one.by or "nobody: a model was loaded", [(0.0, one.seconds)], colours.get(one.by, 7))
            for one in mine
        ]
        rows.append((model.model, parts, f"{sum(one.seconds for one in mine):,.0f} s"))
    return [bar_plot("Waiting, by whose work went on", rows, Axis("seconds of all requests together"))]


def _escaped(text: str) -> str:
    from html import escape

    return escape(text)
