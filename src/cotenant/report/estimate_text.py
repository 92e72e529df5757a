"""One replica on one screen: a bar a GPU, the four terms with where they come from, the cache, the command."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from cotenant.domain.estimate import Estimate, RankEstimate, Verdict
from cotenant.domain.interval import Interval
from cotenant.report.bars import FILLS, Segment, bar, legend
from cotenant.report.grid import print_table, table
from cotenant.report.tables import print_command, print_paragraph, print_sources, print_warnings
from cotenant.units import format_bytes, format_gib, format_percent, format_seconds

if TYPE_CHECKING:
    from rich.console import Console

_STYLES = {Verdict.FITS: "bold green", Verdict.DOES_NOT_FIT: "bold red", Verdict.UNCERTAIN: "bold yellow"}
_NAMES = {"weights": "weights", "kv_cache": "KV cache", "activations": "activations", "runtime": "runtime"}
_WORTH_SAYING = 0.01  # of the card
_WHY_BESIDE = 90  # columns from which a term's reason stands beside its figures, not below


def print_estimate(estimate: Estimate, console: Console, *, assumed: Sequence[str] = ()) -> None:
    """Write the whole answer; `assumed` are sentences on what the user did not say."""
    _print_verdict(estimate, console)
    groups = [tuple(ranks) for _, ranks in groupby(estimate.per_gpu, key=_figures)]
    console.print()
    for rank in estimate.per_gpu:
        _print_bar(rank, console)
    biggest = max(_scale(rank) for rank in estimate.per_gpu)
    print_paragraph(
        console,
        legend(biggest // _width(console), used=bool(estimate.per_gpu[0].used_bytes)),
        style="dim",
        indent=0,
    )
    for ranks in groups:
        console.print()
        _print_terms(ranks, len(groups) > 1, console)
    console.print()
    _print_cache(estimate, console)
    _print_host(estimate, console)
    _print_traffic(estimate, console)
    console.print()
    for sentence in assumed:
        print_paragraph(console, sentence, style="dim", indent=0)
    print_warnings(console, estimate.warnings)
    print_command(console, estimate.arguments, style="bold")


def _print_verdict(estimate: Estimate, console: Console) -> None:
    cards = len(estimate.per_gpu)
    where = estimate.gpu.name if cards == 1 else f"{cards} x {estimate.gpu.name}"
    title = (
        f"{estimate.model.name} on {where}, {estimate.quantization}, {estimate.engine} {estimate.engine_version}"
    )
    print_paragraph(console, title, style="bold", indent=0)
    print_paragraph(console, f"{estimate.verdict}: {estimate.reason}", style=_STYLES[estimate.verdict], indent=0)


def _figures(rank: RankEstimate) -> tuple[object, ...]:
    """What makes two ranks look alike."""
    return tuple(term.bytes for term in rank.terms.values()), rank.capacity, rank.budget, rank.headroom


def _width(console: Console) -> int:
    return max(20, console.width - 2)


def _scale(rank: RankEstimate) -> int:
    """Bytes that the whole bar stands for: the card, or what is asked of it where that is more."""
    return max(rank.capacity.value, rank.used_bytes + rank.footprint_bytes)


def _print_bar(rank: RankEstimate, console: Console) -> None:
    scale, taken = _scale(rank), rank.used_bytes + rank.footprint_bytes
    budget = f", budget {format_gib(rank.budget.value)}" if rank.budget.value else ""
    console.print(f"GPU {rank.rank}  {format_gib(rank.capacity.value)}{budget}", style="bold")
    segments = [Segment(-1, "used", rank.used_bytes)] if rank.used_bytes else []
    segments += [Segment(0, name, max(0, term.bytes.value)) for name, term in rank.terms.items()]
    segments.append(Segment(-1, "headroom", max(0, scale - taken)))
    console.print(bar(segments, _width(console)))
    if scale > rank.capacity.value:
        _print_end_of_card(rank.capacity.value * _width(console) // scale, scale - rank.capacity.value, console)


def _print_end_of_card(cell: int, missing: int, console: Console) -> None:
    """A mark under the bar where the card's memory ends, its caption on the side that has room."""
    caption = f"the card ends here, {format_gib(missing)} too early"
    if cell + len(caption) + 2 <= console.width:
        console.print(" " * cell + f"▲ {caption}", style="red")
    else:
        console.print(f"{caption} ▲".rjust(cell + 1), style="red")


def _print_terms(ranks: Sequence[RankEstimate], several: bool, console: Console) -> None:
    rank = ranks[0]
    if several or len(ranks) > 1:
        span = f"GPU {rank.rank}" if len(ranks) == 1 else f"each of GPU {rank.rank}-{ranks[-1].rank}"
        console.print(span, style="bold")
    beside = console.width >= _WHY_BESIDE
    rows = table(
        "",
        "GiB",
        "90 % interval",
        *(["where it comes from"] if beside else []),
        wrap="where it comes from" if beside else None,
    )
    for name, term in rank.terms.items():
        why = [term.why] if beside else []
        rows.add_row(f"{FILLS[name]} {_NAMES[name]}", _gib(term.bytes.value), _span(term.bytes), *why)
    for label, figure, note in _balance(rank):
        rows.add_row(label, _gib(figure.value), _span(figure), *([note] if beside else []), style="dim")
    print_table(rows, console)
    if not beside:
        for name, term in rank.terms.items():
            print_paragraph(console, f"{_NAMES[name]}: {term.why}")


def _balance(rank: RankEstimate) -> list[tuple[str, Interval, str]]:
    """The lines under the four terms."""
    lines = (
        [(f"{FILLS['used']} held by others", Interval.exact(rank.used_bytes), "as given")]
        if rank.used_bytes
        else []
    )
    return [
        *lines,
        (f"{FILLS['headroom']} headroom", rank.headroom, _free(rank)),
        ("peak while loading", rank.load_peak, "weights, the tensor being loaded and the CUDA context"),
    ]


def _free(rank: RankEstimate) -> str:
    """What the headroom is a share of, and whether a budget that is not filled stands between."""
    room = max(1, rank.capacity.value)
    share, unused = rank.headroom.value / room, (rank.budget.value - rank.footprint_bytes) / room
    if share < 0:
        return f"{format_percent(-share, digits=1)} of the card is missing"
    beside = " beside the budget" if unused >= _WORTH_SAYING else ""
    return f"{format_percent(share, digits=1)} of the card is free{beside}"


def _gib(size: int) -> str:
    return format_gib(size).removesuffix(" GiB")


def _span(figure: Interval) -> str:
    return "exact" if figure.is_exact else f"{_gib(figure.low)} to {_gib(figure.high)}"


def _print_cache(estimate: Estimate, console: Console) -> None:
    cache, settings = estimate.kv_cache, estimate.settings
    if not estimate.model.has_cache:
        print_paragraph(console, "KV cache: none, the model keeps nothing between steps", indent=0)
        return
    fixed = f" and {format_bytes(cache.bytes_per_sequence)} a sequence" if cache.bytes_per_sequence else ""
    ranks = ", a GPU" if len(estimate.per_gpu) > 1 else ""
    sequence = cache.minimum_bytes if cache.sequence_bytes is None else cache.sequence_bytes
    lines = [
        f"KV cache: {cache.bytes_per_token:,} B a token{fixed}{ranks}; "
        f"a sequence of {settings.max_model_len:,} takes {format_bytes(sequence)}",
        f"reserved {format_bytes(cache.reserved_bytes)} = {cache.tokens:,} tokens{_printed(estimate)}, "
        f"{cache.max_concurrency:,.2f} sequences of {settings.max_model_len:,}",
    ]
    if cache.sequence_bytes is not None:
        asked = format_bytes(cache.minimum_bytes)
        lines.append(f"to start, {asked} must be free on every GPU: this version checks for all stages' layers")
    if cache.needed_bytes is not None:
        share = format_percent(estimate.demand.overflow if estimate.demand else 0.01)
        needed = format_bytes(cache.needed_bytes)
        lines.append(f"needed {needed}: what is in flight takes more {share} of the time")
    lines.append(
        f"worst case {format_bytes(cache.worst_case_bytes)}: {settings.max_num_seqs:,} sequences of "
        f"{settings.max_model_len:,} tokens"
    )
    for number, line in enumerate(lines):
        print_paragraph(console, line, indent=0 if number == 0 else 10)


def _printed(estimate: Estimate) -> str:
    cache = estimate.kv_cache
    return "" if cache.tokens == cache.tokens_as_printed else f" (the log prints {cache.tokens_as_printed:,})"


def _print_host(estimate: Estimate, console: Console) -> None:
    host = estimate.host
    if host is None or not host.bytes:
        return
    parts = [
        f"{name} {format_bytes(size)}"
        for name, size in (("weights", host.weights), ("KV cache", host.kv_cache), ("compute", host.compute))
        if size
    ]
    print_paragraph(console, f"Host memory, beside the GPU's: {', '.join(parts)}", indent=0)


def _print_traffic(estimate: Estimate, console: Console) -> None:
    demand = estimate.demand
    if demand is None:
        return
    times = [
        f"{name} {format_seconds(found[1])} (between {format_seconds(found[0])} and {format_seconds(found[2])})"
        for name, found in (("TTFT", demand.ttft_s), ("TPOT", demand.tpot_s))
        if found is not None
    ]
    sentence = (
        f"Traffic: {demand.mean_in_service:,.1f} requests in service on average, {demand.in_service_p999:,} at "
        "the 99.9th percentile"
    )
    if times:
        sentence += f"; estimated p{demand.percentile:g} {', '.join(times)}"
    print_paragraph(console, sentence, indent=0)
    print_sources(console, [("", demand.times_from)])
