"""Plots as SVG text: lines, stacked areas, distributions, bars to scale. Pure, without scripts, fonts or hosts.

Colours are the page's own CSS variables (`page.py`), so one drawing serves light and dark. Every series also has
its own dash or strength, and the parts of a bar stand in the legend's order: nothing is said by colour alone. A
drawing is `WIDTH` units wide and scales with its column; letters stay readable down to a phone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from cotenant.report.axes import Scale, linear, logarithmic

WIDTH, HEIGHT = 420, 230
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 12, 12, 36
_DASHES = ("", "6 3", "2 3", "9 3 2 3", "4 4", "1 3")
COLOURS = 8

Label = Callable[[float], str]


def plain(value: float) -> str:
    """A figure as an axis prints it: three digits at most, thousands apart."""
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"


@dataclass(frozen=True, slots=True)
class Series:
    """One line or one layer. `colour` numbers the page's palette; `points` are (x, y), x not falling."""

    name: str
    points: Sequence[tuple[float, float]]
    colour: int = 0


@dataclass(frozen=True, slots=True)
class Axis:
    """What stands along an axis: its name and how a value is written. `log` for times that span decades."""

    name: str
    label: Label = plain
    log: bool = False


@dataclass(frozen=True, slots=True)
class Mark:
    """A line across the plot at one value of y (a limit) or x (a target), with its name."""

    name: str
    at: float
    vertical: bool = False


def line_plot(title: str, series: Sequence[Series], x: Axis, y: Axis, *, marks: Sequence[Mark] = ()) -> str:
    """Lines over one x. Empty series are left out; a plot of nothing says so."""
    shown = [one for one in series if one.points]
    if not shown:
        return _nothing(title)
    frame = _frame(shown, x, y, marks)
    body = [_path(one, frame, number) for number, one in enumerate(shown)]
    return _figure(title, frame, x, y, [*body, *_marks(marks, frame)], shown)


def area_plot(title: str, layers: Sequence[Series], x: Axis, y: Axis, *, marks: Sequence[Mark] = ()) -> str:
    """Layers on top of each other, the first at the bottom; all must have the same x."""
    shown = [one for one in layers if one.points]
    if not shown:
        return _nothing(title)
    below = [0.0] * len(shown[0].points)
    stacked: list[Series] = []
    areas: list[tuple[Series, list[float]]] = []
    for one in shown:
        top = [low + value for low, (_, value) in zip(below, one.points, strict=True)]
        raised = Series(one.name, [(at, high) for (at, _), high in zip(one.points, top, strict=True)], one.colour)
        areas.append((raised, below))
        stacked.append(raised)
        below = top
    frame = _frame(stacked, x, y, marks)
    body = [_area(one, low, frame, number) for number, (one, low) in enumerate(areas)]
    return _figure(title, frame, x, y, [*body, *_marks(marks, frame)], shown, filled=True)


def cdf_plot(
    title: str, quantiles: Sequence[tuple[str, Sequence[float], int]], x: Axis, *, marks: Sequence[Mark] = ()
) -> str:
    """Shares of requests at or below a value: (name, values at equal shares from 0 to 1, colour) each."""
    series = [
        Series(name, [(value, place / max(1, len(values) - 1)) for place, value in enumerate(values)], colour)
        for name, values, colour in quantiles
    ]
    return line_plot(title, series, x, Axis("share of requests", lambda share: f"{share:.0%}"), marks=marks)


def bar_plot(
    title: str, rows: Sequence[tuple[str, Sequence[Series], str]], x: Axis, *, most: float | None = None
) -> str:
    """Bars to one scale, a row each: (name, parts, text behind it); a part is as long as its first point's y.

    The scale ends at `most`, or where the longest bar does.
    """
    longest = most or max((sum(part.points[0][1] for part in parts) for _, parts, _ in rows), default=0.0)
    if longest <= 0:
        return _nothing(title)
    height = _TOP + 34 * len(rows) + _BOTTOM
    scale = linear(0.0, longest, (10, WIDTH - _RIGHT))
    body: list[str] = []
    named = {part.name: part for _, parts, _ in rows for part in parts}
    for place, (name, parts, text) in enumerate(rows):
        top, left = _TOP + 34 * place, scale.at(0.0)
        body.append(f'<text x="10" y="{top + 10}">{escape(name)}</text>')
        body.append(
            f'<text x="{WIDTH - _RIGHT}" y="{top + 10}" text-anchor="end" class="dim">{escape(text)}</text>'
        )
        for part in parts:
            right = left + scale.at(part.points[0][1]) - scale.at(0.0)
            body.append(
                f'<rect x="{left:.1f}" y="{top + 14}" width="{max(0.0, right - left):.1f}" height="14" '
                f'class="fill strong c{part.colour % COLOURS}"><title>{escape(part.name)}: '
                f"{escape(x.label(part.points[0][1]))}</title></rect>"
            )
            left = right
    body += [_tick_x(value, scale, x, height) for value in scale.ticks]
    body.append(f'<text x="{WIDTH / 2}" y="{height - 4}" text-anchor="middle" class="dim">{escape(x.name)}</text>')
    named_in_order = sorted(named.values(), key=lambda part: part.colour)
    return _wrapped(title, body, height, _legend(named_in_order, filled=True, even=True))


@dataclass(frozen=True, slots=True)
class _Frame:
    x: Scale
    y: Scale


def _frame(series: Sequence[Series], x: Axis, y: Axis, marks: Sequence[Mark]) -> _Frame:
    xs = [at for one in series for at, _ in one.points] + [mark.at for mark in marks if mark.vertical]
    ys = [value for one in series for _, value in one.points] + [mark.at for mark in marks if not mark.vertical]
    across, up = (_LEFT, WIDTH - _RIGHT), (HEIGHT - _BOTTOM, _TOP)
    return _Frame(
        _across(xs, x, across),
        logarithmic(min(ys), max(ys), up) if y.log else linear(min(0.0, *ys), max(ys), up),
    )


def _across(xs: Sequence[float], x: Axis, span: tuple[float, float]) -> Scale:
    """Equal ratios are for values that spread: within a factor of five equal steps say more."""
    low, high = min(xs), max(xs)
    if not x.log:
        return linear(min(0.0, low), high, span, tight=True)
    return logarithmic(low, high, span) if high > 5 * low else linear(low, high, span, tight=True)


def _path(one: Series, frame: _Frame, number: int) -> str:
    d = "M" + "L".join(f"{frame.x.at(at):.1f} {frame.y.at(value):.1f}" for at, value in one.points)
    dash = _DASHES[number % len(_DASHES)]
    style = f' stroke-dasharray="{dash}"' if dash else ""
    return f'<path d="{d}" class="line c{one.colour % COLOURS}"{style}><title>{escape(one.name)}</title></path>'


def _area(one: Series, below: Sequence[float], frame: _Frame, number: int) -> str:
    top = [f"{frame.x.at(at):.1f} {frame.y.at(value):.1f}" for at, value in one.points]
    base = [
        f"{frame.x.at(at):.1f} {frame.y.at(low):.1f}"
        for (at, _), low in reversed(list(zip(one.points, below, strict=True)))
    ]
    return (
        f'<path d="M{"L".join(top + base)}Z" class="fill {_shade(number)} c{one.colour % COLOURS}">'
        f"<title>{escape(one.name)}</title></path>"
    )


def _shade(number: int) -> str:
    """Neighbouring layers differ in strength as well as in colour."""
    return "strong" if number % 2 == 0 else "weak"


def _marks(marks: Sequence[Mark], frame: _Frame) -> list[str]:
    found: list[str] = []
    for mark in marks:
        if mark.vertical:
            at = frame.x.at(mark.at)
            line = f'x1="{at:.1f}" x2="{at:.1f}" y1="{_TOP}" y2="{HEIGHT - _BOTTOM}"'
            anchor, shift = ("end", -4) if at > WIDTH * 0.7 else ("start", 4)
            place = f'x="{at + shift:.1f}" y="{HEIGHT - _BOTTOM - 6}" text-anchor="{anchor}"'
        else:
            at = frame.y.at(mark.at)
            line = f'y1="{at:.1f}" y2="{at:.1f}" x1="{_LEFT}" x2="{WIDTH - _RIGHT}"'
            place = f'x="{WIDTH - _RIGHT - 2}" y="{at - 4 if at > _TOP + 14 else at + 13:.1f}" text-anchor="end"'
        found.append(f'<line {line} class="mark"/><text {place} class="mark">{escape(mark.name)}</text>')
    return found


def _figure(
    title: str,
    frame: _Frame,
    x: Axis,
    y: Axis,
    body: Sequence[str],
    named: Sequence[Series],
    *,
    filled: bool = False,
) -> str:
    grid = [
        f'<line x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{frame.y.at(value):.1f}" y2="{frame.y.at(value):.1f}" '
        f'class="rule"/><text x="{_LEFT - 5}" y="{frame.y.at(value) + 4:.1f}" text-anchor="end" class="dim">'
        f"{escape(y.label(value))}</text>"
        for value in frame.y.ticks
    ]
    ticks = [_tick_x(value, frame.x, x, HEIGHT) for value in frame.x.ticks]
    middle = (_LEFT + WIDTH - _RIGHT) / 2
    names = f'<text x="{middle}" y="{HEIGHT - 4}" text-anchor="middle" class="dim">{escape(x.name)}</text>'
    return _wrapped(title, [*grid, *ticks, names, *body], HEIGHT, _legend(named, filled=filled), y.name)


def _tick_x(value: float, scale: Scale, x: Axis, height: int) -> str:
    at = scale.at(value)
    anchor = "end" if at > WIDTH - 24 else "middle"
    return (
        f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{height - _BOTTOM}" y2="{height - _BOTTOM + 4}" class="tick"/>'
        f'<text x="{at:.1f}" y="{height - _BOTTOM + 15}" text-anchor="{anchor}" class="dim">'
        f"{escape(x.label(value))}</text>"
    )


def _legend(series: Sequence[Series], *, filled: bool = False, even: bool = False) -> str:
    """A swatch and a name each, with the dash or the strength that the series is drawn in."""
    entries = []
    for number, one in enumerate(series):
        dash = _DASHES[number % len(_DASHES)]
        stroke = f' stroke-dasharray="{dash}"' if dash else ""
        shade = "strong" if even else _shade(number)
        shape = (
            f'<rect width="24" height="10" class="fill {shade} c{one.colour % COLOURS}"/>'
            if filled
            else f'<path d="M0 5H24"{stroke} class="line c{one.colour % COLOURS}"/>'
        )
        entries.append(f'<li><svg viewBox="0 0 24 10" aria-hidden="true">{shape}</svg>{escape(one.name)}</li>')
    return f'<ul class="legend">{"".join(entries)}</ul>' if len(entries) > 1 else ""


def _wrapped(title: str, body: Sequence[str], height: int, legend: str, unit: str = "") -> str:
    caption = f"{escape(title)}" + (f' <span class="dim">{escape(unit)}</span>' if unit else "")
    return (
        f'<figure><figcaption>{caption}</figcaption><svg viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-label="{escape(title)}">{"".join(body)}</svg>{legend}</figure>'
    )


def _nothing(title: str) -> str:
    return f'<figure><figcaption>{escape(title)}</figcaption><p class="dim">nothing to draw</p></figure>'
