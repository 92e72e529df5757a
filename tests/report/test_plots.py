"""Plots and the pages that hold them: well-formed, to scale, of one file, safe with hostile names."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cotenant
from cotenant.report.axes import linear, logarithmic
from cotenant.report.page import page, table
from cotenant.report.plots import COLOURS, Axis, Mark, Series, area_plot, bar_plot, cdf_plot, line_plot
from cotenant.report.replay_html import replay_html

PLAIN = Axis("seconds")
ROOT = Path(__file__).resolve().parents[2]
finite = st.floats(-1e12, 1e12, allow_nan=False)
points = st.lists(st.tuples(st.floats(0, 1e9), st.floats(0, 1e12)), max_size=20).map(sorted)


def parsed(figure: str) -> ElementTree.Element:
    return ElementTree.fromstring(figure)


@given(finite, finite)
def test_a_linear_scale_holds_its_data_between_few_round_ticks(one: float, two: float) -> None:
    scale = linear(min(one, two), max(one, two), (0, 100))
    assert 0 <= scale.at(one) <= 100
    assert 2 <= len(scale.ticks) <= 8
    assert scale.ticks[0] <= min(one, two) + 1e-6 * (abs(one) + abs(two)) + 1e-9


@given(st.floats(1e-9, 1e9), st.floats(1e-9, 1e9))
def test_a_logarithmic_scale_keeps_ratios(one: float, two: float) -> None:
    scale = logarithmic(min(one, two), max(one, two), (0, 100))
    assert 0 <= scale.at(one) <= 100
    assert scale.at(min(one, two)) <= scale.at(max(one, two))


def test_ticks_are_round() -> None:
    assert linear(0, 97, (0, 1)).ticks == (0, 20, 40, 60, 80, 100)
    assert logarithmic(0.05, 3, (0, 1)).ticks == pytest.approx((0.05, 0.1, 0.2, 0.5, 1, 2))


@given(st.lists(points, max_size=4), st.text(max_size=20))
def test_whatever_is_drawn_is_well_formed(several: list[list[tuple[float, float]]], name: str) -> None:
    name = "".join(letter for letter in name if letter.isprintable())
    parsed(line_plot(name, [Series(name, one, 3) for one in several], PLAIN, PLAIN, marks=[Mark(name, 5)]))
    parsed(cdf_plot(name, [(name, [y for _, y in one], 1) for one in several], Axis("s", log=True)))
    parsed(bar_plot(name, [(name, [Series(name, [(0, y)]) for _, y in one], name) for one in several], PLAIN))


def test_layers_stand_on_each_other_and_bars_are_to_scale() -> None:
    layers = [Series("a", [(0, 1), (1, 1)]), Series("b", [(0, 3), (1, 3)])]
    paths = [one.attrib["d"] for one in parsed(area_plot("m", layers, PLAIN, PLAIN)).iter("path")]
    heights = [[float(y) for y in re.findall(r" ([\d.]+)(?=[LZ])", path)] for path in paths[:2]]
    assert heights[1][2:] == heights[0][1::-1]  # the second layer's base is the first one's top
    bars = bar_plot("m", [("x", [Series("p", [(0, 1.0)])], ""), ("y", [Series("p", [(0, 2.0)])], "")], PLAIN)
    widths = [float(one.attrib["width"]) for one in parsed(bars).iter("rect")]
    assert widths[1] == pytest.approx(2 * widths[0])


def test_more_series_than_colours_still_have_one() -> None:
    drawn = line_plot("m", [Series(f"s{n}", [(0, n), (1, n)], n) for n in range(20)], PLAIN, PLAIN)
    assert max(int(number) for number in re.findall(r"\bc(\d+)", drawn)) < COLOURS


def test_hostile_names_stay_text() -> None:
    drawn = page(
        "<script>", [table(["<b>"], [["<i>x</i>"]]), line_plot("<u>", [Series("<s>", [(0, 1)])], PLAIN, PLAIN)]
    )
    assert not re.search(r"<(script|b|i|u|s)>", drawn)


def test_a_replay_is_one_file_that_asks_nobody() -> None:
    replay = cotenant.simulate(ROOT / "examples" / "raw-figures.yaml", duration="5s")
    html = replay_html([replay, replay], title="raw figures")
    assert "Content-Security-Policy" in html
    assert not re.search(r"(?:src|href|url)\s*[=(]|https?://|<script|@import", html)
    assert html.count("<figure>") >= 2 * 8
    for figure in re.findall(r"<figure>.*?</figure>", html, re.DOTALL):
        parsed(figure)


def test_a_model_without_a_target_has_no_bar_of_one_and_colours_stay() -> None:
    trio = cotenant.plan(ROOT / "examples" / "a100-trio.yaml")
    replays = [cotenant.simulate(trio, duration="10s", policy=policy) for policy in ("static", "elastic")]
    html = replay_html(replays, title="trio")
    assert [name for name in ("chat", "code", "triage") if f"{name}: requests within their SLO" in html] == [
        "chat", "code",
    ]  # fmt: skip
    assert "triage: time to first token" in html
    waiting = re.findall(r"<figcaption>Waiting, by whose.*?</figure>", html, re.DOTALL)[0]
    colours = dict(re.findall(r'class="fill strong c(\d)"><title>(chat|code|triage): ', waiting))
    assert colours == {"0": "chat", "1": "code", "2": "triage"}
    assert [html.count("<details"), html.count("<details open>")] == [2, 1]
