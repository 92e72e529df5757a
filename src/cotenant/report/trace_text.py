"""A trace on one screen, as JSON, and as the `traffic:` block of a fleet file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from cotenant.domain.trace_summary import TokenSpread, TraceSummary
from cotenant.report.document import Document, header
from cotenant.report.grid import print_table, table
from cotenant.report.tables import print_pairs, print_paragraph, print_warnings
from cotenant.units import format_percent, format_seconds, plural

if TYPE_CHECKING:
    from rich.console import Console

_MARGIN = 18  # columns that stand before the plot of rates
_LEVELS = " ▁▂▃▄▅▆▇█"
_ENOUGH, _BURSTY = 100, 1.2  # so many requests, and gaps that vary so much, are more than Poisson's chance


def trace_document(summary: TraceSummary, *, catalogue: str) -> Document:
    """`cotenant/workload/1`."""
    mean, p99, most = summary.concurrency
    return {
        **header("workload", catalogue=catalogue),
        **asdict(summary),
        "concurrency": {"mean": mean, "p99": p99, "max": most},
        "traffic": traffic_block(summary),
    }


def traffic_block(summary: TraceSummary) -> Document:
    """What a fleet file says of it: a rate, lengths, and weights by hour where the trace lasts a day."""
    rate = {"requests_per_second": float(f"{summary.rate:.4g}")} if summary.rated else {}
    block: Document = {
        **rate,
        "input_tokens": _lengths(summary.input_tokens),
        "output_tokens": _lengths(summary.output_tokens),
    }
    if summary.by_hour:
        return {**block, "by_hour": list(summary.by_hour)}
    if summary.rated and summary.requests >= _ENOUGH and summary.variation > _BURSTY:
        return {**block, "arrivals": {"gamma": float(f"{summary.variation:.3g}")}}
    return block


def traffic_yaml(summary: TraceSummary) -> str:
    """The block as it stands in a fleet file, a key a line."""

    def flow(value: object) -> str:
        if isinstance(value, dict):
            return "{" + ", ".join(f"{key}: {flow(one)}" for key, one in value.items()) + "}"
        return f"[{', '.join(map(str, value))}]" if isinstance(value, list) else str(value)

    return "\n".join(["traffic:", *(f"  {key}: {flow(one)}" for key, one in traffic_block(summary).items())])


def print_trace(summary: TraceSummary, console: Console) -> None:
    """Figures and small plots, then the block to copy."""
    print_paragraph(console, f"{summary.name}: {_when(summary)}", style="bold", indent=0)
    console.print()
    grid = table(
        "tokens", "p50", "p95", "p99", "max", "mean", "shortest to longest", left=("shortest to longest",)
    )
    for name, found in (("input", summary.input_tokens), ("output", summary.output_tokens)):
        grid.add_row(
            name, f"{found.p50:,}", f"{found.p95:,}", f"{found.p99:,}", f"{found.maximum:,}", f"{found.mean:,.0f}",
            plot(found.counts),
        )  # fmt: skip
    print_table(grid, console)
    console.print()
    facts = _times(summary, console.width) if summary.rated else []
    if summary.seen_share is not None:
        facts.append(
            ("begun before", f"{format_percent(summary.seen_share)} of input tokens, by the trace's hashes")
        )
    if facts:
        print_pairs(facts, console)
        console.print()
    console.print(traffic_yaml(summary), soft_wrap=True)
    print_warnings(console, summary.notes)


def _when(summary: TraceSummary) -> str:
    count = plural(summary.requests, "request")
    if not summary.rated:
        return (
            f"{count}, all within a second" if summary.timed and summary.requests > 1 else f"{count} without times"
        )
    rates = f"{summary.rate:.3g} a second ({summary.peak_rate:.3g} in the busiest minute)"
    return f"{count} in {format_seconds(summary.duration_s)}, {rates}"


def _times(summary: TraceSummary, width: int) -> list[tuple[str, str]]:
    mean, p99, most = summary.concurrency
    rates = _merged(summary.rates, max(1, width - _MARGIN))
    return [
        ("rate over time", f"{plot(rates)}\nup to {max(rates):.3g} a second"),
        (
            "burstiness",
            f"{summary.variation:.2f} by gaps (deviation / mean),"
            f" {summary.dispersion:.1f} by second (variance / mean); Poisson: 1",
        ),
        (
            "in flight",
            f"{mean:.1f} on average, {p99:,} at p99, {most:,} at most, at"
            f" {format_seconds(summary.token_s)} a token",
        ),
    ]


def _merged(values: Sequence[float], most: int) -> Sequence[float]:
    """At most `most` values, each the mean of as many neighbours."""
    each = -(-len(values) // most)
    parts = [values[start : start + each] for start in range(0, len(values), each)]
    return values if each == 1 else [sum(part) / len(part) for part in parts]


def plot(values: Sequence[float]) -> str:
    """One column for each value, in eight heights; whatever is above nothing shows."""
    most = max(values, default=0)
    if most <= 0:
        return " " * len(values)
    return "".join(_LEVELS[0 if value <= 0 else max(1, round(value / most * 8))] for value in values)


def _lengths(found: TokenSpread) -> Document:
    return {"p50": max(1, found.p50), "p95": max(1, found.p95), "max": max(1, found.maximum)}
