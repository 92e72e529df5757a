"""A plan on one screen: bars to scale, choices and reasons, the usual sizing, the commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cotenant.domain.explanation import TERMS
from cotenant.domain.plan import GpuPlan, Plan, ReplicaPlan, Turns
from cotenant.report.bars import Segment, bar, captions, colour, legend, shortened
from cotenant.report.migration_text import print_migration
from cotenant.report.plan_rounds import print_rounds
from cotenant.report.tables import print_sources
from cotenant.units import GIB, format_bytes, format_gib, format_percent, format_price, format_seconds

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console
    from rich.table import Table

_WIDE = 76  # columns from which the tables' heads are written out
_LONGEST_NAME = 24


def print_plan(plan: Plan, console: Console, *, commands: bool = True, priced: bool = False) -> None:
    """Write the whole answer, `commands` and warnings included unless told otherwise. `priced`: what binds was
    asked for, so that nothing does is said too."""
    owners = {replica.id: number for number, replica in enumerate(plan.replicas)}
    _print_indented(_headline(plan), "bold", console, indent=0)
    for gpu in plan.gpus:
        if not gpu.spare:
            console.print()
            _print_gpu(gpu, owners, console)
    for gpu in plan.gpus:
        if gpu.spare:
            console.print(f"{_title(gpu)}, kept empty for what fails", style="dim")
    if plan.gpus:
        console.print(legend(max(gpu.capacity_bytes for gpu in plan.gpus) // _width(console)), style="dim")
    if plan.replicas:
        console.print()
        console.print(_choices(plan, owners, console.width))
        if _times_note(plan):
            _print_indented(_times_note(plan), "dim", console, indent=0)
            print_sources(console, ((replica.id, replica.times_from) for replica in plan.replicas))
        console.print()
        _print_reasons(plan, owners, console)
    for turns in plan.turns:
        _print_indented(_turns(plan, turns), "bold", console)
    _print_shortfalls(plan, console)
    _print_relaxations(plan, console)
    if priced and plan.feasible and not plan.relaxations:
        console.print()
        words = (
            "What binds: no wish alone; giving up any one of them, or more memory on these cards, saves nothing."
        )
        _print_indented(words, "bold", console, indent=0)
    print_rounds(plan, console)
    if plan.migration is not None:
        print_migration(plan.migration, plan.cost_per_hour, console)
    _print_naive(plan, console)
    if not commands:
        return
    _print_commands(plan, owners, console)
    for warning in plan.warnings:
        _print_indented(f"warning: {warning}", "yellow", console, indent=0)


def _headline(plan: Plan) -> str:
    models = len({name for replica in plan.replicas for name in (replica.model, *replica.also_serves)})
    if not plan.feasible:
        missing = ", ".join(short.model for short in plan.shortfalls)
        if not plan.replicas:
            return f"does not fit: no room for {missing}"
        return f"does not fit: no room for {missing}. The nearest plan places {_plural(models, 'model')}:"
    types: dict[str, int] = {}
    for gpu in plan.gpus:
        types[gpu.device.type] = types.get(gpu.device.type, 0) + 1
    cards = " + ".join(f"{count} x {name}" for name, count in types.items())
    least = min(gpu.headroom_bytes / gpu.capacity_bytes for gpu in plan.gpus)
    cost = f", {format_price(plan.cost_per_hour)}" if plan.cost_per_hour is not None else ""
    return (
        f"{_plural(models, 'model')} on {cards}{cost}: fits, {format_percent(least, digits=1)} headroom "
        f"(asked {format_percent(plan.headroom)}), {_proof(plan)}{_promise(plan)}"
    )


def _promise(plan: Plan) -> str:
    if plan.promises_held is None:
        return _strain(plan)
    return ", every SLO held in its replay" if plan.promises_held else ", but an SLO breaks in its replay"


def _strain(plan: Plan) -> str:
    """Whose targets hold alone and not beside busy neighbours; the warnings have the figures."""
    told = [one for one in plan.strained if one.targets]
    if not told:
        return ""
    if len(told) > 1:
        names = ", ".join(one.model for one in told)
        return f"; targets of {names} break while their neighbours are busy"
    one, count = told[0], len(told[0].neighbours)
    whom = one.neighbours[0] if count == 1 else "both neighbours" if count == 2 else f"all {count} neighbours"
    breaks = "target breaks" if len(one.targets) == 1 else "targets break"
    return (
        f"; {one.model}'s {' and '.join(one.targets)} {breaks} while {whom} {'is' if count == 1 else 'are'} busy"
    )


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" + ("" if count == 1 else "s")


def _proof(plan: Plan) -> str:
    if plan.gap is None:
        return "no bound"
    if plan.gap <= 0:
        return "proven cheapest"
    return f"at most {format_percent(plan.gap, digits=1)} above the cheapest"


def _width(console: Console) -> int:
    return max(20, console.width - 2)


def _title(gpu: GpuPlan) -> str:
    price = f", {format_price(gpu.price_per_hour)}" if gpu.price_per_hour is not None else ""
    where = f"{gpu.device.type}  node {gpu.device.node}, card {gpu.device.index}"
    return f"{where}  {format_gib(gpu.capacity_bytes)}{price}"


def _print_gpu(gpu: GpuPlan, owners: dict[str, int], console: Console) -> None:
    console.print(_title(gpu), style="bold")
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
    console.print(_gpu_table(gpu, owners, console.width))


def _gpu_table(gpu: GpuPlan, owners: dict[str, int], width: int) -> Table:
    """Each replica's terms in GiB; short heads on a narrow terminal."""
    wide = ("GiB", "weights", "KV cache", "activations", "runtime", "together", "of the card")
    narrow = ("GiB", "weights", "KV", "act.", "run.", "all", "share")
    table = _table(*(wide if width >= _WIDE else narrow))
    for share in gpu.shares:
        figures = [_gib(getattr(share, f"{term}_bytes")) for term in TERMS]
        portion = format_percent(share.claimed_bytes / gpu.capacity_bytes, digits=1)
        row = (shortened(share.replica, _LONGEST_NAME), *figures, _gib(share.claimed_bytes), portion)
        table.add_row(*row, style=colour(owners[share.replica]))
    for sleeper in gpu.sleepers:
        name = shortened(sleeper.share.replica, _LONGEST_NAME)
        size = sleeper.asleep_bytes
        portion = format_percent(size / gpu.capacity_bytes, digits=1)
        row = (name, "asleep", "", "", _gib(size), _gib(size), portion)
        table.add_row(*row, style=colour(owners[sleeper.share.replica]))
    for name, size in (("held by others", gpu.used_bytes), ("headroom", gpu.headroom_bytes)):
        if size or name == "headroom":
            portion = format_percent(size / gpu.capacity_bytes, digits=1)
            table.add_row(name, "", "", "", "", _gib(size), portion, style="dim")
    return table


def _gib(size: int) -> str:
    return f"{size / GIB:,.2f}"


def _table(*columns: str) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number == 0 else "right", no_wrap=True)
    return table


def _choices(plan: Plan, owners: dict[str, int], width: int) -> Table:
    """What was chosen, a line a replica; a narrow terminal keeps the columns that a command is made of."""
    columns: dict[str, Callable[[ReplicaPlan], str]] = {
        "precision": lambda one: one.quantization,
        "KV type": lambda one: one.settings.kv_cache_dtype,
        "tp": _split,
        "max_model_len": lambda one: f"{one.settings.max_model_len:,}",
        "max_num_seqs": lambda one: f"{one.settings.max_num_seqs:,}",
        "KV needed": lambda one: format_gib(one.kv_needed_bytes),
        "worst case": lambda one: format_gib(one.kv_worst_case_bytes),
        "TTFT": lambda one: _time(one.ttft_s),
        "TPOT": lambda one: _time(one.tpot_s),
    }
    for spare in ("worst case", "KV type", "KV needed"):
        if width < sum(len(name) + 3 for name in columns) + 12:
            del columns[spare]
    short = {"precision": "format", "max_model_len": "length", "max_num_seqs": "seqs"} if width < _WIDE else {}
    table = _table("replica", *(short.get(name, name) for name in columns))
    for replica in plan.replicas:
        name = shortened(replica.id, _LONGEST_NAME)
        table.add_row(name, *(text(replica) for text in columns.values()), style=colour(owners[replica.id]))
    return table


def _split(replica: ReplicaPlan) -> str:
    """Tensor-parallel ranks; with pipeline stages ``2x3``."""
    settings = replica.settings
    stages = f"x{settings.pipeline_parallel_size}" if settings.pipeline_parallel_size > 1 else ""
    return f"{settings.tensor_parallel_size}{stages}"


def _times_note(plan: Plan) -> str:
    """What the times are: estimates, with an interval for each of the two; "" where there are none."""
    told = []
    for name, each in (
        ("TTFT", [replica.ttft_s for replica in plan.replicas]),
        ("TPOT", [replica.tpot_s for replica in plan.replicas]),
    ):
        known = [times for times in each if times and times[1]]
        if known:
            low, high = min(one[0] / one[1] for one in known), max(one[2] / one[1] for one in known)
            told.append(f"{name} {low:.1f}-{high:.1f} x")
    if not told:
        return ""
    return f"~ roofline at the asked percentile, alone; 90 % within {', '.join(told)}"


def _time(interval: tuple[float, float, float] | None) -> str:
    return f"~{format_seconds(interval[1])}" if interval else "-"


def _print_reasons(plan: Plan, owners: dict[str, int], console: Console) -> None:
    """A model's reasons once, however many replicas it has."""
    told: set[str] = set()
    for replica in plan.replicas:
        for sentence in (replica.why, replica.runner_up) if replica.model not in told else ():
            if sentence:
                _print_indented(f"{replica.model}: {sentence}", colour(owners[replica.id]), console)
        told.add(replica.model)


def _print_indented(sentence: str, style: str, console: Console, *, indent: int = 2) -> None:
    """A sentence that wraps under itself, without the blanks that a box would be filled up with."""
    from textwrap import fill

    from rich.text import Text

    margin = " " * indent
    lines = fill(
        sentence, max(20, console.width - 1), initial_indent=margin, subsequent_indent=margin,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
    console.print(Text(lines, style=style), soft_wrap=True)


def _to_sleep(plan: Plan, replica: ReplicaPlan) -> list[str]:
    """What sends a replica to sleep once it answers, so that the next of its turns finds room."""
    modes = [turns.mode for turns in plan.turns if replica.model in turns.models]
    if not modes:
        return []
    if modes[0] == "restart":
        return ["# then stop it: it is started again when it is asked"]
    return [f"curl -X POST 'http://127.0.0.1:{replica.port}/sleep?level={modes[0][-1]}'"]


_MODES = {
    "sleep-1": "sleeping with their weights in host memory",
    "sleep-2": "sleeping without their weights",
    "restart": "stopped and started again",
}


def _turns(plan: Plan, turns: Turns) -> str:
    """Who takes turns, how often, what it costs the first request, what it saves."""
    longest, late = max(turns.first_wait_s.values()), max(turns.delayed.values())
    told = [
        f"{' and '.join(turns.models)} take turns, {_MODES[turns.mode]}",
        f"about {turns.swaps_per_day:,.0f} wakes a day, {format_percent(late, digits=1)} of a model's "
        f"requests wait for one, ~{format_seconds(longest)} each",
    ]
    if turns.host_bytes:
        told.append(f"{format_gib(turns.host_bytes)} of host memory")
    if turns.saves_per_hour is not None:
        saved = turns.saves_per_hour
        told.append(
            f"saves {format_price(saved)}" if plan.cost_per_hour is not None else f"saves {saved:.0f} cards"
        )
    else:
        told.append("without it not all models have a place")
    return "; ".join(told)


def _print_shortfalls(plan: Plan, console: Console) -> None:
    for short in plan.shortfalls:
        console.print()
        lack = f" ({format_bytes(short.shortfall_bytes)} short)" if short.shortfall_bytes else ""
        _print_indented(f"{short.model} has no place{lack}: {short.reason}", "bold red", console, indent=0)
        for remedy in short.remedies:
            _print_indented(f"would fit: {remedy}", "", console)


def _print_relaxations(plan: Plan, console: Console) -> None:
    """What wishes cost; without places for all, the smallest sets to give up."""
    if not plan.relaxations:
        return
    console.print()
    if not plan.feasible:
        _print_indented("The smallest sets of wishes to give up, each tried:", "bold", console, indent=0)
        for one in plan.relaxations:
            _print_indented(f"{' and '.join(one.wishes)} (then on {one.cards})", "", console)
        return
    _print_indented("What binds, each tried alone:", "bold", console, indent=0)
    for one in plan.relaxations:
        saved = one.saves or 0.0
        worth = format_price(saved) if plan.cost_per_hour is not None else _plural(round(saved), "card")
        more = " more on each " in one.wishes[0]
        words = f"{one.wishes[0]} would save {worth}" if more else f"without {one.wishes[0]}: {worth} less"
        _print_indented(f"{words} ({one.cards})", "", console)


def _print_naive(plan: Plan, console: Console) -> None:
    if plan.naive is None:
        return
    naive = plan.naive
    console.print()
    cost = f", {naive.cost_ratio:.1f}x the cost" if naive.cost_ratio is not None else ""
    _print_indented(
        f"The usual sizing (each model alone, FP16, full context x 16 slots): {naive.cards} x {naive.gpu}, "
        f"{naive.cards_ratio:.1f}x the cards{cost}",
        "",
        console,
        indent=0,
    )
    for name, sentence in naive.by_model.items():
        _print_indented(f"{name}: {sentence}", "dim", console)


def _print_commands(plan: Plan, owners: dict[str, int], console: Console) -> None:
    """Each command whole on its line, however long: it is there to be copied. One block a machine."""
    nodes = sorted({replica.devices[0].node for replica in plan.replicas})
    for node in nodes:
        console.print()
        where = f" on node {node}" if len(nodes) > 1 else ""
        console.print(f"Start{where} in this order, each once the one before answers on /health:", style="bold")
        mine = [replica for replica in plan.replicas if replica.devices[0].node == node]
        for replica in sorted(mine, key=lambda one: one.start_order):
            console.print(replica.command_line, style=colour(owners[replica.id]), soft_wrap=True)
            for line in _to_sleep(plan, replica):
                console.print(line, style="dim", soft_wrap=True)
    if nodes:
        console.print()
