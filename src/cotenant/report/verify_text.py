"""A verification on one screen: a verdict a line, predicted beside measured, the load that was asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cotenant.domain.verification import Finding, Held, ReplicaVerified, Verification
from cotenant.report.grid import Grid, print_table, table
from cotenant.report.tables import print_paragraph, print_warnings
from cotenant.units import format_bytes, format_percent, format_seconds

if TYPE_CHECKING:
    from rich.console import Console

_STYLE = {Held.YES: "green", Held.NO: "bold red", Held.UNKNOWN: "dim"}
TERM_NAMES = {"weights": "weights", "kv_cache": "KV cache", "activations": "activations", "runtime": "runtime",
              "total": "total"}  # fmt: skip


def print_verification(found: Verification, console: Console) -> None:
    """The headline, each replica's terms and loads, the findings, the warnings."""
    print_paragraph(console, headline(found), style="bold green" if found.holds else "bold red", indent=0)
    for one in found.replicas:
        console.print()
        print_paragraph(console, f"{one.id}: {one.engine} {one.version} on {one.gpu}", style="bold", indent=0)
        print_table(_terms(one), console)
        if one.points:
            console.print()
            print_table(_points(one), console)
    console.print()
    for finding in found.findings:
        if finding.check not in TERM_NAMES:
            _finding(finding, console)
    for name, (low, high) in found.tides.items():
        tides = (
            f"{what} tide {format_bytes(at[1])} after {at[0]:,.0f} s"
            for what, at in (("low", low), ("high", high))
        )
        print_paragraph(console, f"{name}: {', '.join(tides)}", indent=0)
    for profile in found.profiles:
        terms = ", ".join(f"{name} x {one.value:.3f}" for name, one in sorted(profile.factors.items()))
        words = f"calibration of {profile.engine} {profile.version} on {profile.gpu}: {terms}"
        print_paragraph(console, words, style="dim", indent=0)
    print_warnings(console, found.warnings)


def headline(found: Verification) -> str:
    """One line: what holds."""
    held = [one.held for one in found.findings]
    yes, no, unknown = (held.count(one) for one in (Held.YES, Held.NO, Held.UNKNOWN))
    tally = (
        f"{yes} {'holds' if yes == 1 else 'hold'}, {no} {'does' if no == 1 else 'do'} not, "
        f"{unknown} could not be told"
    )
    if found.stopped:
        return f"Stopped ({found.stopped}); {tally}"
    return f"{'The plan holds' if found.holds else 'The plan does not hold'}: {tally}"


def _finding(finding: Finding, console: Console) -> None:
    who = f"{finding.replica}: " if finding.replica else ""
    console.print(f"{finding.held:8}", style=_STYLE[finding.held], end="")
    console.print(f"{who}{finding.check}", soft_wrap=True)
    print_paragraph(console, finding.text, style="dim", indent=10)


def _terms(one: ReplicaVerified) -> Grid:
    """Who measured each is left out where there is no room for it."""
    columns = ("", "predicted", "90 % interval", "measured", "off by", "verdict", "by")
    grid = table(*columns, left=("verdict", "by"), spare=("by",))
    for term in one.terms:
        expected, ratio = term.predicted, term.ratio
        grid.add_row(
            TERM_NAMES.get(term.name, term.name),
            "-" if expected is None else format_bytes(expected.value),
            "-" if expected is None else _span(expected.low, expected.high),
            "-" if term.measured is None else format_bytes(term.measured),
            "-" if ratio is None else off_by(ratio),
            str(term.held),
            term.source,
            style="" if term.held is not Held.NO else "red",
        )
    return grid


def off_by(ratio: float) -> str:
    """measured / predicted as a signed percentage; no minus before a zero."""
    return f"{round(ratio - 1, 3) + 0.0:+.1%}"


def _span(low: int, high: int) -> str:
    return "exact" if low == high else f"{format_bytes(low)} to {format_bytes(high)}"


def _points(one: ReplicaVerified) -> Grid:
    columns = ("at once", "tokens in", "out", "answered", "TTFT p50", "TPOT p50", "memory", "KV", "preempted")
    grid = table(*columns, spare=("preempted", "KV"))
    for point in one.points:
        grid.add_row(
            f"{point.concurrency}", f"{point.input_tokens:,}", f"{point.output_tokens:,}",
            f"{point.answered} of {point.answered + point.errors}",
            "-" if point.ttft_s is None else format_seconds(point.ttft_s[0]),
            "-" if point.tpot_s is None else format_seconds(point.tpot_s[0]),
            "-" if point.peak is None else format_bytes(point.peak.total_bytes),
            "-" if point.kv_used is None else format_percent(point.kv_used),
            "-" if point.preemptions is None else str(point.preemptions),
        )  # fmt: skip
    return grid
