"""A replay, or several of the same requests, as one HTML page with plots."""

from __future__ import annotations

from collections.abc import Sequence

from cotenant.domain.replay import MemorySeries, ModelReplay, Replay, Timeline
from cotenant.report.page import Html, folded, notes, page, section, table
from cotenant.report.plots import Axis, Mark, Series, area_plot, bar_plot, cdf_plot, line_plot
from cotenant.report.replay_text import few_words, headline, pair, slo_words
from cotenant.units import GIB, format_percent, format_seconds, plural

_TIMES = Axis("seconds", lambda value: f"{value:,.0f}")
_LATENCY = Axis("", format_seconds, log=True)
_GIB = Axis("GiB", lambda value: f"{value:,.0f}")
_SHARE = Axis("", format_percent)


def replay_html(replays: Sequence[Replay], *, title: str, command: str = "") -> str:
    """The page. Of several replays the models are compared first, then each policy in full, folded but for
    the first."""
    body = [f"<h1>{_escaped(title)}</h1>"]
    if command:
        body.append(f'<p class="dim"><code>{_escaped(command)}</code></p>')
    if len(replays) == 1:
        return page(title, [*body, f"<p>{_headline(replays[0])}</p>", *_one(replays[0])])
    body += _comparison(replays)
    for place, one in enumerate(replays):
        body.append(folded(_headline(one), _one(one), shown=place == 0))
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
    places = range(len(replays[0].models))
    asked = [one for one in places if replays[0].models[one].slo_held is not None]
    bars = [_within(replays, place) for place in asked if any(one.models[place].requests for one in replays)]
    curves = [
        cdf_plot(
            f"{replays[0].models[place].model}: time to first token",
            [(one.policy, one.models[place].curves.ttft_s, number) for number, one in enumerate(replays)],
            _LATENCY,
        )
        for place in places
    ]
    policies = plural(len(replays), "policy", "policies")
    return [
        f"<p>{policies} on the same {format_seconds(replays[0].duration_s)} of requests</p>",
        table(head, rows, left=(0, 1)), section("Policies side by side", [*bars, *curves]),
    ]  # fmt: skip


def _within(replays: Sequence[Replay], place: int) -> str:
    """What share of a model's requests kept its SLO, a bar a policy."""
    found = [(one.policy, one.models[place].attainment) for one in replays]
    rows = [
        (policy, [Series("within SLO", [(0, share)], place)], format_percent(share, digits=1))
        for policy, share in found
    ]
    title = f"{replays[0].models[place].model}: requests within their SLO"
    return bar_plot(title, rows, Axis("share of all requests", format_percent), most=1.0)


def _one(replay: Replay) -> list[str]:
    few = few_words([replay])
    parts = [_models(replay), _replicas(replay), notes([*([few] if few else []), *replay.warnings])]
    parts.append(section("What users waited for", _latency_plots(replay)))
    if replay.timeline is not None:
        parts.append(section("Over time", _time_plots(replay, replay.timeline)))
        parts.append(section("Who had the cards while requests waited", _starved(replay.timeline)))
    return parts


def _headline(replay: Replay) -> str:
    held = [model.slo_held for model in replay.models if model.slo_held is not None and model.requests]
    kind = "good" if all(held) else "bad"
    return f'<span class="{kind if held else ""}">{_escaped(headline(replay))}</span>'


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
    if model.slo_held is None or not model.requests:
        return slo_words(model)
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
            ", ".join(cards),
            [
                Series(f"{one.replica}: {what}", over_time([value / GIB for value in values]), owners[one.replica])
                for one in _on(timeline, cards[0])
                for what, values in (("weights, runtime", one.fixed_bytes), ("KV in use", one.kv_bytes))
            ],
            _TIMES,
            _GIB,
            marks=[Mark("capacity", timeline.capacity_bytes[cards[0]] / GIB)],
        )
        for cards in _alike(timeline)
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


def _alike(timeline: Timeline) -> list[list[str]]:
    """Cards that hold the same replicas, as those of one that is split do, are drawn once."""
    found: dict[object, list[str]] = {}
    for card, capacity in sorted(timeline.capacity_bytes.items()):
        held = tuple(one.replica for one in _on(timeline, card))
        if held:
            found.setdefault((held, capacity), []).append(card)
    return list(found.values())


def _starved(timeline: Timeline) -> list[str]:
    """In each bar and in the legend the models stand in the order and the colours of all other plots."""
    colours = {one.model: place for place, one in enumerate(timeline.models)}
    rows = []
    for model in timeline.models:
        mine = [one for one in timeline.starved if one.model == model.model]
        parts = [
            Series(one.by or "nobody: a model was loaded", [(0.0, one.seconds)], colours.get(one.by, 7))
            for one in sorted(mine, key=lambda one: colours.get(one.by, len(colours)))
        ]
        rows.append((model.model, parts, format_seconds(sum(one.seconds for one in mine))))
    return [bar_plot("Waiting, by whose work went on", rows, Axis("seconds of all requests together"))]


def _escaped(text: str) -> str:
    from html import escape

    return escape(text)
