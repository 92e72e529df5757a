"""The peers' table, for a terminal and as docs/how-it-compares.md."""

from __future__ import annotations

from collections.abc import Sequence

from bench.markdown import table
from bench.peer_programs import OURS, PROGRAMS
from bench.peer_tasks import TASKS
from bench.peers_beyond import beyond
from bench.table import Row

_NAMES = (OURS, *(program.name for program in PROGRAMS))


def error_of(row: Row) -> float | None:
    """How far the answer is off, as a share of the truth; None without an answer."""
    error = row.details.get("error")
    return error if isinstance(error, float) else None


def answers(found: Sequence[Row]) -> list[list[str]]:
    """A line a task: truth, then each program's answer with its error."""
    by_id = {row.id: row for row in found}
    return [
        [task.title, f"{task.truth_gib:.2f}", *(_cell(by_id.get(f"{task.id}.{name}")) for name in _NAMES)]
        for task in TASKS
    ]


def _cell(row: Row | None) -> str:
    if row is None or row.value is None:
        return "-"
    error = error_of(row) or 0.0
    return f"{row.value:.2f} ({'exact' if abs(error) < 0.0005 else f'{error:+.1%}'})"


def costs(found: Sequence[Row]) -> list[list[str]]:
    """A line a program: release, seconds and memory of its slowest and largest answer."""
    lines = []
    for name in _NAMES:
        told = [row.details for row in found if row.id.endswith(f".{name}") and row.value is not None]
        if told:
            seconds = max(float(str(one["seconds"])) for one in told)
            mib = max(int(str(one["mib"])) for one in told)
            lines.append([name, str(told[0]["version"]), f"{seconds:.1f} s", f"{mib} MiB"])
        else:
            lines.append([name, "-", "-", "-"])
    return lines


def text(found: Sequence[Row]) -> str:
    """The table for a terminal, the costs, and why answers are missing."""
    head = ["task", "truth", OURS, *_NAMES[1:]]
    parts = [
        _aligned([head, *answers(found)]),
        _aligned([["program", "release", "time", "memory"], *costs(found)]),
    ]
    missing = [f"{row.id}: {row.reason}" for row in found if row.value is None and row.reason]
    return "\n".join([*parts, *missing]) + "\n"


def _aligned(lines: Sequence[Sequence[str]]) -> str:
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "".join("  ".join(map(str.ljust, line, widths)).rstrip() + "\n" for line in lines)


def page(found: Sequence[Row], day: str) -> str:
    """docs/how-it-compares.md."""
    head = ["GiB", "truth", OURS, *_NAMES[1:]]
    missing = [f"- `{row.id}`: {row.reason}" for row in found if row.value is None and row.reason]
    return "\n".join([
        "# How it compares", "",
        f"Written by `python -m bench.peers --peers DIR --write` on {day}.", "", _INTRODUCTION, "",
        table(head, answers(found)), "",
        "Where the truth stands:", "",
        *(f"- {task.title}: {task.truth_gib:.2f} GiB; {task.stands}." for task in TASKS), "",
        *(["Without an answer:", "", *missing, ""] if missing else []),
        "What an answer costs, a cold process each (the processor's seconds of the slowest, the memory of the"
        " largest):", "",
        table(["program", "release", "time", "memory"], costs(found), left=2), "",
        "How each was asked, and what it does besides that Cotenant does not:", "",
        table(["program", "asked", "does besides"], [[one.name, one.how, one.more] for one in PROGRAMS], left=3),
        "",
        *beyond(),
        *_READING,
    ])  # fmt: skip


_INTRODUCTION = (
    "Each program answered the same questions on the same machine, in the mode of its own that comes nearest, from"
    " files made of the catalogue's configs (no network). KV is for 16 sequences of 8,192 tokens in 16 bits, as"
    " the model needs it: what an engine reserves beyond that depends on its version and flags, and"
    " `cotenant estimate` shows it apart. In brackets: how far off (exact: within 0.05 %); `-`: no answer,"
    " with the reason below."
)

_READING = (
    "Read it with care:",
    "",
    "- Five questions are few, and were chosen where calculators are known to differ. Over engines' own logs our"
    " errors stand in [accuracy.md](accuracy.md).",
    "- hf-mem counts window layers at full length on purpose, as an upper bound on what an engine may reserve, and"
    " linear attention in the same way. By our reading of its allocator, vLLM reserves more than 16.5 GiB for"
    " Gemma-3 too.",
    "- hf-mem and kvfit are given a file of the right size for the AWQ weights, as a hub would: the answer shows"
    " that they read it, not that they foresee it. The other answers come from the structure alone, llmfit's from"
    " parameters times bits.",
    "- Gemma-3's config is given with `layer_types` written out, as transformers saves it today. With the older"
    " `sliding_window_pattern` alone kvfit refuses, and says why; ridgepoint then counts every layer in full.",
    "- ridgepoint leaves window layers and state out where `layer_types` is given. Where llmfit says GB, its KV"
    " is in GiB and its weights in 10^9 bytes, and they are read so.",
    "- Ours for the AWQ weights includes what the engine adds on loading (the rotary table); the checkpoint alone"
    " comes to the truth.",
    "- aiconfigurator's release says of itself that it is to be replaced by `aisimulate`.",
    "",
)
