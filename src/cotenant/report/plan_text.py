"""A plan on one screen: bars to scale, choices and reasons, the usual sizing, the commands."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cotenant.domain.plan import Plan, ReplicaPlan, Turns
from cotenant.engines.hosting import hosting_of
from cotenant.report.bars import colour
from cotenant.report.card_text import print_cards
from cotenant.report.grid import Grid, print_table, table
from cotenant.report.migration_text import print_migration
from cotenant.report.plan_rounds import print_rounds
from cotenant.report.tables import print_paragraph, print_sources, print_warnings
from cotenant.units import format_bytes, format_gib, format_percent, format_price, format_seconds, listed, plural

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.console import Console

_SHORT = {"precision": "format", "max_model_len": "length", "max_num_seqs": "seqs"}
_MOST_INTERVALS, _NAMED = 4, 4  # of the note below the times
_PROMISE = re.compile(r"\b(target|SLO)\b|: steps take ")  # of a warning that a promise may not be kept


def print_plan(plan: Plan, console: Console, *, commands: bool = True, priced: bool = False) -> None:
    """Write the whole answer, `commands` and warnings included unless told otherwise. `priced`: what binds was
    asked for, so that nothing does is said too."""
    owners = {replica.id: number for number, replica in enumerate(plan.replicas)}
    print_paragraph(console, _headline(plan), style="bold", indent=0)
    _print_shortfalls(plan, console)
    promises = [text for text in plan.warnings if _PROMISE.search(text)] if commands else []
    print_warnings(console, promises)
    print_cards(plan, owners, console)
    if plan.replicas:
        console.print()
        print_table(_choices(plan, owners), console)
        if _times_note(plan):
            print_paragraph(console, _times_note(plan), style="dim", indent=0)
            print_sources(console, ((replica.id, replica.times_from) for replica in plan.replicas))
        console.print()
        _print_reasons(plan, owners, console)
    for turns in plan.turns:
        print_paragraph(console, _turns(plan, turns), style="bold")
    _print_relaxations(plan, console)
    if priced and plan.feasible and not plan.relaxations:
        console.print()
        words = (
            "What binds: no wish alone; giving up any one of them, or more memory on these cards, saves nothing."
        )
        print_paragraph(console, words, style="bold", indent=0)
    print_rounds(plan, console)
    if plan.migration is not None:
        print_migration(plan.migration, plan.cost_per_hour, console)
    _print_naive(plan, console)
    if not commands:
        return
    _print_commands(plan, owners, console)
    print_warnings(console, [text for text in plan.warnings if text not in promises])


def _headline(plan: Plan) -> str:
    models = len({name for replica in plan.replicas for name in (replica.model, *replica.also_serves)})
    if not plan.feasible:
        missing = ", ".join(short.model for short in plan.shortfalls)
        if not plan.replicas:
            return f"does not fit: no room for {missing}"
        return f"does not fit: no room for {missing}. The nearest plan, below, places {plural(models, 'model')}"
    types: dict[str, int] = {}
    for gpu in plan.gpus:
        types[gpu.device.type] = types.get(gpu.device.type, 0) + 1
    cards = " + ".join(f"{count} x {name}" for name, count in types.items())
    least = min(gpu.headroom_bytes / gpu.capacity_bytes for gpu in plan.gpus)
    cost = f", {format_price(plan.cost_per_hour)}" if plan.cost_per_hour is not None else ""
    return (
        f"{plural(models, 'model')} on {cards}{cost}: fits, {format_percent(least, digits=1)} headroom "
        f"(asked {format_percent(plan.headroom)}), {_proof(plan)}{_promise(plan)}"
    )


def _promise(plan: Plan) -> str:
    if plan.promises_held is None:
        return _strain(plan)
    many = plural(max(one.replays for one in plan.rounds), "replay")
    return f", every SLO held over {many}" if plan.promises_held else ", but an SLO breaks when it is replayed"


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


def _proof(plan: Plan) -> str:
    if plan.gap is None:
        return "no bound"
    if plan.gap <= 0:
        return "proven cheapest"
    return f"at most {format_percent(plan.gap, digits=1)} above the cheapest"


def _choices(plan: Plan, owners: dict[str, int]) -> Grid:
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
    grid = table("replica", *columns, spare=("worst case", "KV type", "KV needed"), short=_SHORT)
    for replica in plan.replicas:
        cells = (text(replica) for text in columns.values())
        grid.add_row(replica.id, *cells, style=colour(owners[replica.id]))
    return grid


def _split(replica: ReplicaPlan) -> str:
    """Tensor-parallel ranks; with pipeline stages ``2x3``."""
    settings = replica.settings
    stages = f"x{settings.pipeline_parallel_size}" if settings.pipeline_parallel_size > 1 else ""
    return f"{settings.tensor_parallel_size}{stages}"


def _times_note(plan: Plan) -> str:
    """What the times are: estimates, with the intervals that warnings speak of, each with its models where they
    differ; "" where there are no times."""
    groups = _by_interval(plan.replicas)
    if not groups:
        return ""
    if len(groups) == 1:
        told = next(iter(groups))
    elif len(groups) <= _MOST_INTERVALS:
        told = "; ".join(f"{words} ({_few(names)})" for words, names in groups.items())
    else:
        told = f"{_within(plan.replicas)} at the widest; --json has each model's own"
    return f"~ roofline at the asked percentile, alone; 90 % within {told}"


def _by_interval(replicas: Sequence[ReplicaPlan]) -> dict[str, list[str]]:
    """Models by what is said of their intervals; one without a TPOT goes with those of the same TTFT."""
    found: dict[str, dict[str, None]] = {}
    for replica in sorted(replicas, key=lambda one: one.tpot_s is None):
        words = _within([replica])
        if words:
            same = next((each for each in found if each.startswith(words)), words)
            found.setdefault(same, {})[replica.model] = None
    return {words: list(names) for words, names in found.items()}


def _within(replicas: Sequence[ReplicaPlan]) -> str:
    """From the lowest to the highest that the two times may be, by their estimates."""
    told = []
    for name, each in (
        ("TTFT", [replica.ttft_s for replica in replicas]),
        ("TPOT", [replica.tpot_s for replica in replicas]),
    ):
        known = [times for times in each if times and times[1]]
        if known:
            low, high = min(one[0] / one[1] for one in known), max(one[2] / one[1] for one in known)
            told.append(f"{name} {low:.1f}-{high:.1f} x")
    return ", ".join(told)


def _few(names: Sequence[str]) -> str:
    rest = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {rest} more" if rest > 0 else "")


def _time(interval: tuple[float, float, float] | None) -> str:
    return f"~{format_seconds(interval[1])}" if interval else "-"


def _print_reasons(plan: Plan, owners: dict[str, int], console: Console) -> None:
    """A model's reasons once, however many replicas it has."""
    told: set[str] = set()
    for replica in plan.replicas:
        for sentence in (replica.why, replica.runner_up) if replica.model not in told else ():
            if sentence:
                print_paragraph(console, f"{replica.model}: {sentence}", style=colour(owners[replica.id]))
        told.add(replica.model)


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
    share = format_percent(late, digits=1) if late >= 0.0005 or not late else "under 0.1%"
    told = [
        f"{listed(turns.models)} take turns, {_MODES[turns.mode]}",
        f"about {turns.swaps_per_day:,.0f} wakes a day, {share} of a model's "
        f"requests wait for one, ~{format_seconds(longest)} each",
    ]
    if turns.host_bytes:
        told.append(f"{format_gib(turns.host_bytes)} of host memory")
    if turns.saves_per_hour is not None:
        saved = turns.saves_per_hour
        told.append(
            f"saves {format_price(saved)}"
            if plan.cost_per_hour is not None
            else f"saves {plural(round(saved), 'card')}"
        )
    else:
        told.append("without it not all models have a place")
    return "; ".join(told)


def _print_shortfalls(plan: Plan, console: Console) -> None:
    """Why, before what is placed all the same."""
    for short in plan.shortfalls:
        console.print()
        lack = f" ({format_bytes(short.shortfall_bytes)} short)" if short.shortfall_bytes else ""
        print_paragraph(console, f"{short.model} has no place{lack}: {short.reason}", style="bold red", indent=0)
        for remedy in short.remedies:
            print_paragraph(console, f"would fit: {remedy}")


def _print_relaxations(plan: Plan, console: Console) -> None:
    """What wishes cost; without places for all, the smallest sets to give up."""
    if not plan.relaxations:
        return
    console.print()
    if not plan.feasible:
        print_paragraph(console, "The smallest sets of wishes to give up, each tried:", style="bold", indent=0)
        for one in plan.relaxations:
            print_paragraph(console, f"{' and '.join(one.wishes)} (then on {one.cards})")
        return
    print_paragraph(console, "What binds, each tried alone:", style="bold", indent=0)
    for one in plan.relaxations:
        saved = one.saves or 0.0
        worth = format_price(saved) if plan.cost_per_hour is not None else plural(round(saved), "card")
        more = " more on each " in one.wishes[0]
        words = f"{one.wishes[0]} would save {worth}" if more else f"without {one.wishes[0]}: {worth} less"
        print_paragraph(console, f"{words} ({one.cards})")


def _print_naive(plan: Plan, console: Console) -> None:
    if plan.naive is None:
        return
    naive = plan.naive
    console.print()
    cost = f", {naive.cost_ratio:.1f}x the cost" if naive.cost_ratio is not None else ""
    words = (
        f"The usual sizing (each model alone, FP16, full context x 16 slots): {naive.cards} x {naive.gpu}, "
        f"{naive.cards_ratio:.1f}x the cards{cost}"
    )
    print_paragraph(console, words, indent=0)
    for name, sentence in naive.by_model.items():
        print_paragraph(console, f"{name}: {sentence}", style="dim")


def _print_commands(plan: Plan, owners: dict[str, int], console: Console) -> None:
    """Each command whole on its line, however long: it is there to be copied. One block a machine."""
    nodes = sorted({replica.devices[0].node for replica in plan.replicas})
    for node in nodes:
        console.print()
        where = f" on node {node}" if len(nodes) > 1 else ""
        words = f"Start{where} in this order, each once the one before answers on /health:"
        print_paragraph(console, words, style="bold", indent=0)
        mine = [replica for replica in plan.replicas if replica.devices[0].node == node]
        for replica in sorted(mine, key=lambda one: one.start_order):
            console.print(replica.command_line, style=colour(owners[replica.id]), soft_wrap=True)
            for line in _to_sleep(plan, replica):
                console.print(line, style="dim", soft_wrap=True)
    for sentence in _who_listens(plan):
        print_paragraph(console, sentence, style="dim", indent=0)
    if nodes:
        console.print()


def _who_listens(plan: Plan) -> list[str]:
    """Engines that others can reach unless they are told otherwise, and how to tell them."""
    hosts = {name: hosting_of(name) for name in sorted({replica.engine for replica in plan.replicas})}
    return [
        f"As it stands {name} answers on every interface; "
        f"{' '.join(host.listening('127.0.0.1'))} keeps it to this machine."
        for name, host in hosts.items()
        if host.open_unless_told
    ]
