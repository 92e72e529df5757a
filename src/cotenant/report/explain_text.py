"""An explained log on one screen: why, a bar a GPU as printed and as predicted, the terms, what would work."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cotenant.domain.explanation import Change, DeviceShare, Explanation
from cotenant.domain.measurement import Measurement
from cotenant.report.bars import FILLS, Segment, bar, legend
from cotenant.report.grid import print_table, table
from cotenant.report.tables import print_paragraph, print_warnings
from cotenant.units import format_bytes, format_gib

if TYPE_CHECKING:
    from rich.console import Console

_STYLES = {"fits": "bold green", "oom": "bold red", "unknown": "bold yellow"}
_NAMES = {"weights": "weights", "kv_cache": "KV cache", "activations": "activations", "runtime": "runtime"}
_TITLES = {
    "vllm": "vLLM", "sglang": "SGLang", "tgi": "TGI", "tensorrt-llm": "TensorRT-LLM", "llama.cpp": "llama.cpp",
    "ollama": "Ollama",
}  # fmt: skip
_SHOWN_COUNTS = (
    ("kv_cache_tokens", "tokens in the KV cache"), ("gpu_blocks", "blocks in the KV cache"),
    ("max_concurrency", "sequences of {max_concurrency_len:,.0f} tokens at once"),
    ("estimated_max_len", "tokens would fit, says the engine"),
)  # fmt: skip


def print_explanation(explanation: Explanation, console: Console) -> None:
    """Write the whole answer."""
    found = explanation.measurement
    print_paragraph(console, _title(explanation), style="bold", indent=0)
    verdict = {"fits": "fits", "oom": "ran out of memory", "unknown": "not decided"}[explanation.verdict]
    print_paragraph(
        console,
        f"{verdict}: {explanation.cause}{_short(explanation)}",
        style=_STYLES[explanation.verdict],
        indent=0,
    )
    for share in explanation.shares:
        if share.best_known:
            console.print()
            _print_share(share, console)
    _print_host(explanation, console)
    _print_counts(explanation, console)
    _print_changes(explanation, console)
    if explanation.assumed:
        console.print()
    for sentence in explanation.assumed:
        print_paragraph(console, _with_options(sentence), style="dim", indent=0)
    _print_others(explanation, console)
    print_warnings(console, found.notes)


def _title(explanation: Explanation) -> str:
    """What ran; where the log does not name the model, the one that the prediction is of."""
    found, predicted = explanation.measurement, explanation.predicted
    version = f" {found.engine_version}" if found.engine_version else ""
    gpu = f" on {found.gpu}" if found.gpu else ""
    where = f" ({found.source})" if found.source else ""
    named = found.model or (predicted.model.name if predicted is not None else "")
    cached = re.search(r"models--([\w.-]+?)--([\w.-]+)", named)
    if cached:
        named = "/".join(cached.groups())
    model = re.split(r"[/\\\\]", named)[-1] if named and _is_path(named) else named
    return f"{model or 'a model without a name'}{gpu}, {_TITLES.get(found.engine, found.engine)}{version}{where}"


def _is_path(name: str) -> bool:
    return name.startswith("/") or "\\" in name or name.count("/") > 1


_OPTIONS = ((": name the model", "--model"), (": name the card", "--gpu"), ("; name the card", "--gpu"))


def _with_options(sentence: str) -> str:
    """What the log left open, with the option of this command that says it."""
    for words, option in _OPTIONS:
        sentence = sentence.replace(words, f"{words} ({option})")
    return sentence


def _short(explanation: Explanation) -> str:
    short = explanation.shortfall_bytes
    return f" {format_bytes(short)} short." if short else ""


def _print_share(share: DeviceShare, console: Console) -> None:
    name = f"GPU {share.name}" if share.name else "GPU"
    size = "" if share.capacity_bytes is None else f"  {format_gib(share.capacity_bytes)}"
    budget = "" if share.budget_bytes is None else f", budget {format_gib(share.budget_bytes)}"
    console.print(f"{name}{size}{budget}", style="bold")
    width = max(20, console.width - 12)
    printed = {term: max(0, pair.printed_bytes or 0) for term, pair in share.terms.items()}
    predicted = {term: pair.predicted.value if pair.predicted else 0 for term, pair in share.terms.items()}
    used = share.used_bytes or 0
    scale = max(share.capacity_bytes or 0, used + sum(printed.values()), used + sum(predicted.values()), 1)
    for label, sizes in (("printed", printed), ("predicted", predicted)):
        if sum(sizes.values()):
            line = bar(_segments(sizes, used, scale), width)
            console.print(f"{label:<10}", line, sep="", end="\n")
    print_paragraph(console, legend(scale // width, used=bool(used)), style="dim", indent=0)
    _print_terms(share, console)


def _segments(sizes: dict[str, int], used: int, scale: int) -> list[Segment]:
    segments = [Segment(-1, "used", used)] if used else []
    segments += [Segment(0, term, size) for term, size in sizes.items()]
    return [*segments, Segment(-1, "headroom", scale - used - sum(sizes.values()))]


def _print_terms(share: DeviceShare, console: Console) -> None:
    rows = table("GiB", "printed", "predicted", "90 % interval", "off by")
    for term, pair in share.terms.items():
        predicted = pair.predicted
        off = ""
        if predicted is not None and pair.printed_bytes is not None:
            off = f"{round((predicted.value - pair.printed_bytes) / 2**30, 2) + 0.0:+.2f}"
        rows.add_row(
            f"{FILLS[term]} {_NAMES[term]}",
            _gib(pair.printed_bytes),
            _gib(None if predicted is None else predicted.value),
            "" if predicted is None else f"{_gib(predicted.low)} to {_gib(predicted.high)}",
            off,
        )
    if share.used_bytes:
        rows.add_row(f"{FILLS['used']} held by others", _gib(share.used_bytes), "", "", "", style="dim")
    if share.left_bytes is not None:
        rows.add_row(f"{FILLS['headroom']} left", _gib(share.left_bytes), "", "", "", style="dim")
    print_table(rows, console)


def _print_host(explanation: Explanation, console: Console) -> None:
    """What llama.cpp keeps beside its GPUs, or on none."""
    sizes = {name: explanation.host.get(term, 0) for term, name in _NAMES.items()}
    parts = [f"{format_gib(size)} {name}" for name, size in sizes.items() if size >= _SHOWN_BYTES]
    if parts:
        console.print()
        print_paragraph(console, f"in host memory: {', '.join(parts)}", indent=0)


_SHOWN_BYTES = 10 * 2**20  # less is 0.00 or 0.01 GiB


def _gib(size: int | None) -> str:
    return "" if size is None else format_gib(size).removesuffix(" GiB")


def _print_counts(explanation: Explanation, console: Console) -> None:
    found, predicted = explanation.measurement, explanation.predicted
    ours: dict[str, float] = {}
    if predicted is not None:
        cache = predicted.kv_cache
        ours = {"kv_cache_tokens": cache.tokens_as_printed, "max_concurrency": cache.max_concurrency}
    shown = [(name, words, value) for name, words in _SHOWN_COUNTS if (value := found.value(name)) is not None]
    ranks = _ranks(found)
    if shown or ranks:
        console.print()
    if ranks:
        print_paragraph(console, ranks, indent=0)
    for name, words, value in shown:
        said = words.format(max_concurrency_len=found.value("max_concurrency_len") or 0)
        beside = f" (predicted {_count(ours[name])})" if name in ours else ""
        print_paragraph(console, f"{_count(value)} {said}{beside}", indent=0)


def _ranks(found: Measurement) -> str:
    """How far the ranks of one replica differ, where several printed their pool."""
    told = {failure.line for failure in found.failures}
    pools = [figure for figure in found.every("available_kv_gib") if figure.rank and figure.line not in told]
    count = len({figure.rank for figure in pools})
    if count < 2:
        return ""
    least, most = (pick(pools, key=lambda figure: figure.value) for pick in (min, max))
    return f"{count} ranks have {least.text} to {most.text} GiB for the KV cache; {least.rank} binds"


def _count(value: float) -> str:
    return f"{value:,.2f}" if value != int(value) else f"{value:,.0f}"


def _print_changes(explanation: Explanation, console: Console) -> None:
    if explanation.changes:
        console.print()
        console.print("What would have worked, each alone and checked by the estimator", style="bold")
        rows = table("", "was", "becomes", "GiB to spare", "sequences at once", left=("was", "becomes"))
        for change in explanation.changes:
            rows.add_row(*_change_cells(change))
        print_table(rows, console)
    elif explanation.advice:
        console.print()
        print_paragraph(console, f"Try {', '.join(explanation.advice)}.", indent=0)


def _change_cells(change: Change) -> tuple[str, ...]:
    return (
        change.argument,
        "" if change.was is None else _word(change.was),
        _word(change.becomes),
        _gib(change.spare_bytes),
        f"{change.max_concurrency:,.1f}",
    )


def _word(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _print_others(explanation: Explanation, console: Console) -> None:
    if not explanation.others:
        return
    console.print()
    console.print(f"{len(explanation.others)} more in this log", style="bold")
    rows = table("line", "engine", "model", "weights GiB", "KV cache GiB", "", left=("engine", "model", ""))
    for other in explanation.others:
        pool = other.smallest("available_kv_gib")
        weights = other.first("weights_gib")
        rows.add_row(
            f"{other.first_line:,}", f"{_TITLES.get(other.engine, other.engine)} {other.source}".strip(),
            other.model or "", "" if weights is None else weights.text, "" if pool is None else pool.text,
            str(other.outcome or ""),
        )  # fmt: skip
    print_table(rows, console)
