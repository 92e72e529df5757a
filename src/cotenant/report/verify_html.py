"""A verification as one HTML page with plots."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from cotenant.domain.verification import Held, Point, ReplicaVerified, Term, Verification
from cotenant.report.page import notes, page, section, table
from cotenant.report.plots import Axis, Mark, Series, bar_plot, line_plot
from cotenant.report.verify_text import TERM_NAMES, headline
from cotenant.units import GIB, MIB, format_bytes, format_percent, format_seconds

_CLASS = {Held.YES: "good", Held.NO: "bad", Held.UNKNOWN: "dim"}
_LATENCY = Axis("", format_seconds, log=True)
_FROM_ZERO = Axis("", lambda value: format_seconds(value) if value else "0")
_SECONDS = Axis("seconds", lambda value: f"{value:,.0f}")


def verify_html(found: Verification, *, title: str) -> str:
    """The page: the verdict, the checklist, then each replica's terms, load and memory over time."""
    body = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="{"good" if found.holds else "bad"}">{escape(headline(found))}</p>',
        "<h2>The checklist</h2>",
        _checklist(found),
    ]
    for place, one in enumerate(found.replicas):
        body.append(_replica(one, found, place))
    beside = [plot for one in found.replicas if _of(one, "together") for plot in _beside(one)]
    if beside:
        body.append(section("Alone and all at once", beside))
    if found.profiles:
        body += ["<h2>Calibration</h2>", _profiles(found)]
    body.append(notes(found.warnings))
    return page(title, body)


def _checklist(found: Verification) -> str:
    """Two columns on any width: the verdict, and what it is about."""
    lines = "".join(
        f'<span class="{_CLASS[one.held]}">{escape(str(one.held))}</span>'
        f"<span>{escape(f'{one.replica}: ' if one.replica else '')}{escape(TERM_NAMES.get(one.check, one.check))} "
        f'<span class="dim">{escape(one.text)}</span></span>'
        for one in found.findings
    )
    return f'<div style="display:grid;grid-template-columns:5.5em 1fr;gap:3px 8px">{lines}</div>'


def _replica(one: ReplicaVerified, found: Verification, place: int) -> str:
    parts = [_terms_plot(one)]
    series = found.series.get(one.id, ())
    if series:
        unit, name = _unit(max(reading.total_bytes for reading in series))
        claimed = next((term.predicted for term in one.terms if term.name == "total"), None)
        marks = [Mark("predicted", claimed.value / unit)] if claimed is not None and claimed.value else []
        lines = [
            Series("total", [(reading.at_s, reading.total_bytes / unit) for reading in series], place),
            Series("anonymous", [(reading.at_s, reading.anonymous_bytes / unit) for reading in series], place + 1),
        ]
        parts.append(line_plot("Memory over time", lines, _SECONDS, Axis(name), marks=marks))
    steps = [point for point in one.points if point.ttft_s is not None]
    if len(steps) > 1:
        parts += _load_plots(one, steps, place)
    heading = f"{one.id}: {one.engine} {one.version} on {one.gpu}"
    return section(heading, parts)


def _terms_plot(one: ReplicaVerified) -> str:
    """Two bars; what the measured total holds beyond the terms stands at the end of its own."""
    total = next(term for term in one.terms if term.name == "total")
    rows: list[tuple[str, list[Series], str]] = []
    unit, label = _unit(max(_bytes(total, "predicted"), _bytes(total, "measured"), 1))
    for what in ("predicted", "measured"):
        parts = [
            Series(TERM_NAMES[term.name], [(0.0, _bytes(term, what) / unit)], place)
            for place, term in enumerate(term for term in one.terms if term.name != "total")
            if _bytes(term, what)
        ]
        whole = _bytes(total, what)
        rest = whole / unit - sum(part.points[0][1] for part in parts)
        if what == "measured" and rest > 0.01 * whole / unit:
            parts.append(Series("beyond the terms", [(0.0, rest)], 7))
        rows.append((what, parts, f"{format_bytes(whole)} in all" if whole else "-"))
    return bar_plot("The four terms", rows, Axis(label))


def _bytes(term: Term, what: str) -> int:
    if what == "measured":
        return term.measured or 0
    return 0 if term.predicted is None else term.predicted.value


def _load_plots(one: ReplicaVerified, steps: Sequence[Point], place: int) -> list[str]:
    peak = [point for point in _of(one, "together") if point is not None]
    alone = [point for point in steps if point not in peak]
    least = min((point.input_tokens for point in alone), default=0)
    wide: dict[int, Point] = {}
    for point in alone:
        if point.input_tokens == _mode(alone):
            wide[point.concurrency] = point
    long = {point.input_tokens: point for point in alone if point.concurrency == 1}
    found = []
    if len(wide) > 1:
        found.append(
            line_plot(
                "More at once",
                [_times(wide, "ttft_s", "TTFT p50", place), _times(wide, "tpot_s", "TPOT p50", place + 1)],
                Axis("requests at once"),
                _LATENCY,
                marks=[Mark("planned", one.limit_concurrency, vertical=True)],
            )
        )
    if len(long) > 1 and least:
        found.append(
            line_plot(
                "Longer requests",
                [_times(long, "ttft_s", "TTFT p50", place)],
                Axis("tokens in"),
                _LATENCY,
                marks=[Mark("planned", one.limit_tokens, vertical=True)],
            )
        )
    return found


def _mode(points: Sequence[Point]) -> int:
    """The length that most steps with more than one at once have."""
    several = [point.input_tokens for point in points if point.concurrency > 1] or [
        point.input_tokens for point in points
    ]
    return max(set(several), key=lambda size: (several.count(size), -size))


def _times(points: dict[int, Point], name: str, label: str, colour: int) -> Series:
    found = [(float(at), getattr(point, name)[0]) for at, point in sorted(points.items()) if getattr(point, name)]
    return Series(label, found, colour)


def _of(one: ReplicaVerified, kind: str) -> list[Point]:
    """Its points of the load beside the others: the last, where its peak was asked twice."""
    if kind != "together":
        return list(one.points)
    largest = [point for point in one.points if point.answered and point.concurrency == one.limit_concurrency]
    same = [point for point in largest if point.input_tokens == max(other.input_tokens for other in largest)]
    return same[1:2]


def _beside(one: ReplicaVerified) -> list[str]:
    (beside,) = _of(one, "together")
    shape = (beside.concurrency, beside.input_tokens)
    alone = next(
        point for point in one.points if point is not beside and (point.concurrency, point.input_tokens) == shape
    )
    found = []
    for what, mine, theirs in (("TTFT", alone.ttft_s, beside.ttft_s), ("TPOT", alone.tpot_s, beside.tpot_s)):
        pairs = [("alone", mine), ("beside the others", theirs)]
        rows = [
            (name, [Series(name, [(0.0, pair[0])], place)], format_seconds(pair[0]))
            for place, (name, pair) in enumerate(pairs)
            if pair is not None
        ]
        if len(rows) == 2:
            found.append(bar_plot(f"{one.id}: median {what}", rows, _FROM_ZERO))
    return found


def _profiles(found: Verification) -> str:
    rows = [
        [
            f"{profile.engine} {profile.version}", profile.gpu, profile.family, name, f"{one.value:.4f}",
            f"-{format_percent(1 - one.low, digits=1)} / +{format_percent(one.high - 1, digits=1)}",
            str(one.measurements),
        ]
        for profile in found.profiles
        for name, one in sorted(profile.factors.items())
    ]  # fmt: skip
    head = ("engine", "card", "family", "term", "measured / estimated", "90 % interval", "measurements")
    return table(head, rows, left=(0, 1, 2, 3))


def _unit(largest: float) -> tuple[int, str]:
    return (GIB, "GiB") if largest >= 2 * GIB else (MIB, "MiB")
