"""The cards of a plan: a bar to scale and the terms of everybody on it; cards that look alike once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cotenant.domain.device import Device
from cotenant.domain.explanation import TERMS
from cotenant.domain.plan import GpuPlan, Plan
from cotenant.report.bars import Segment, bar, captions, cell_words, colour, legend
from cotenant.report.grid import Grid, print_table, table
from cotenant.report.tables import print_paragraph
from cotenant.units import GIB, format_gib, format_percent, format_price

if TYPE_CHECKING:
    from rich.console import Console

_HEADS = {
    "GiB": "GiB", "weights": "weights", "KV cache": "KV", "activations": "act.", "runtime": "run.",
    "together": "all", "of the card": "share",
}  # fmt: skip
"""Of a card's table, and what they are where there is little room."""

_ROW = 3  # cards in a row that are told by their first and last


def print_cards(plan: Plan, owners: dict[str, int], console: Console) -> None:
    """Every card that is used, then those that are kept empty, then what the bars mean. Each bar is as long as the
    line is wide, so where cards differ in size a cell of each is told beside its name."""
    alike: dict[tuple[object, ...], list[GpuPlan]] = {}
    for gpu in plan.gpus:
        alike.setdefault(_looks(gpu), []).append(gpu)
    sizes = {gpu.capacity_bytes for gpu in plan.gpus if not gpu.spare}
    for cards in alike.values():
        if not cards[0].spare:
            console.print()
            cell = f"  {cell_words(cards[0].capacity_bytes // _width(console))}" if len(sizes) > 1 else ""
            print_paragraph(console, f"{_title(cards)}{cell}", style="bold", indent=0)
            _print_card(cards, owners, console)
    for cards in alike.values():
        if cards[0].spare:
            print_paragraph(console, f"{_title(cards)}, kept empty for what fails", style="dim", indent=0)
    if plan.gpus:
        one_size = next(iter(sizes)) // _width(console) if len(sizes) == 1 else None
        print_paragraph(console, legend(one_size), style="dim", indent=0)


def _looks(gpu: GpuPlan) -> tuple[object, ...]:
    """What makes two cards look alike: their kind, and who takes how much of them."""
    shares = (
        (one.replica, *(getattr(one, f"{term}_bytes") for term in TERMS), one.claimed_bytes) for one in gpu.shares
    )
    asleep = ((one.share.replica, one.asleep_bytes) for one in gpu.sleepers)
    return (
        gpu.device.type, gpu.capacity_bytes, gpu.used_bytes, gpu.price_per_hour, gpu.spare, tuple(shares),
        tuple(asleep),
    )  # fmt: skip


def _width(console: Console) -> int:
    return max(20, console.width - 2)


def _title(cards: Sequence[GpuPlan]) -> str:
    gpu, devices = cards[0], [one.device for one in cards]
    price = f", {format_price(gpu.price_per_hour)}" if gpu.price_per_hour is not None else ""
    each = " each" if len(cards) > 1 else ""
    name = f"{devices[0].type} {', '.join(_spans(devices))} ({_where(devices)})"
    return f"{name}  {format_gib(gpu.capacity_bytes)}{price}{each}"


def _where(devices: Sequence[Device]) -> str:
    nodes = {one.node for one in devices}
    if len(nodes) > 1:
        return "#node.card"
    runs = [str(run[0]) if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in _runs(devices)]
    return f"node {devices[0].node}, card{'s' if len(devices) > 1 else ''} {' and '.join(runs)}"


def _runs(devices: Sequence[Device]) -> list[list[int]]:
    """Indices of the cards of one node, three or more in a row together."""
    runs: list[list[int]] = []
    for index in sorted(one.index for one in devices):
        if runs and runs[-1][-1] == index - 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    return [part for run in runs for part in ([run] if len(run) >= _ROW else [[one] for one in run])]


def _spans(devices: Sequence[Device]) -> list[str]:
    """#node.card of each; of a row of cards the first and the last."""
    found = []
    for node in dict.fromkeys(one.node for one in devices):
        for run in _runs([one for one in devices if one.node == node]):
            end = f" to #{node}.{run[-1]}" if len(run) > 1 else ""
            found.append(f"#{node}.{run[0]}{end}")
    return found


def _print_card(cards: Sequence[GpuPlan], owners: dict[str, int], console: Console) -> None:
    gpu = cards[0]
    segments, names = [], []
    if gpu.used_bytes:
        segments.append(Segment(-1, "used", gpu.used_bytes))
        names.append(("others", -1, gpu.used_bytes))
    for share in gpu.shares:
        owner = owners[share.replica]
        segments += [Segment(owner, term, getattr(share, f"{term}_bytes")) for term in TERMS]
        segments.append(Segment(owner, "headroom", share.claimed_bytes - share.footprint_bytes))
        names.append((share.replica, owner, share.claimed_bytes))
    for sleeper in gpu.sleepers:
        owner = owners[sleeper.share.replica]
        segments.append(Segment(owner, "runtime", sleeper.asleep_bytes))
        names.append((f"{sleeper.share.replica} (asleep)", owner, sleeper.asleep_bytes))
    segments.append(Segment(-1, "headroom", gpu.headroom_bytes))
    names.append(("headroom", -1, gpu.headroom_bytes))
    console.print(captions(names, _width(console)))
    console.print(bar(segments, _width(console)))
    print_table(_terms(gpu, owners), console)


def _terms(gpu: GpuPlan, owners: dict[str, int]) -> Grid:
    """Each replica's terms in GiB, then what is left."""
    grid = table(*_HEADS, short=_HEADS)
    for share in gpu.shares:
        figures = [_gib(getattr(share, f"{term}_bytes")) for term in TERMS]
        portion = format_percent(share.claimed_bytes / gpu.capacity_bytes, digits=1)
        row = (share.replica, *figures, _gib(share.claimed_bytes), portion)
        grid.add_row(*row, style=colour(owners[share.replica]))
    for sleeper in gpu.sleepers:
        size = sleeper.asleep_bytes
        portion = format_percent(size / gpu.capacity_bytes, digits=1)
        row = (sleeper.share.replica, "asleep", "", "", _gib(size), _gib(size), portion)
        grid.add_row(*row, style=colour(owners[sleeper.share.replica]))
    for name, size in (("held by others", gpu.used_bytes), ("headroom", gpu.headroom_bytes)):
        if size or name == "headroom":
            portion = format_percent(size / gpu.capacity_bytes, digits=1)
            grid.add_row(name, "", "", "", "", _gib(size), portion, style="dim")
    return grid


def _gib(size: int) -> str:
    return f"{size / GIB:,.2f}"
