"""Every way in which a model may be served, with what became of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cotenant.domain.way import Way
from cotenant.report.document import Document, header
from cotenant.report.grid import print_table, table
from cotenant.report.tables import print_paragraph
from cotenant.units import format_gib, format_percent

if TYPE_CHECKING:
    from rich.console import Console


def print_ways(ways: Sequence[Way], console: Console) -> None:
    """A line each, model by model: those that a plan may choose, then those that were dropped or refused. Formats
    that the decision matrix refuses outright are counted only."""
    grid = table(
        "model",
        "format",
        "GPU",
        "tp",
        "replicas",
        "claims",
        "busy",
        "",
        left=("format", "GPU"),
        wrap="",
        spare=("busy", "replicas"),
    )
    last = ""
    sized = [one for one in ways if one.offered or one.tensor_parallel_size]
    for one in sized:
        fate = _offered(one) if one.offered else one.reason
        grid.add_row(
            one.model if one.model != last else "", one.format, one.gpu, _split(one),
            str(one.replicas or "-"), format_gib(one.claim_bytes) if one.claim_bytes else "-",
            format_percent(one.busy) if one.busy is not None else "-", fate, style="" if one.offered else "dim",
        )  # fmt: skip
        last = one.model
    print_table(grid, console)
    if len(ways) > len(sized):
        print_paragraph(
            console,
            f"{len(ways) - len(sized)} more are formats that do not come into question (see --json)",
            style="dim",
        )


def _offered(one: Way) -> str:
    return "offered" if one.step_share == 1 else f"offered, {one.max_num_batched_tokens:,} tokens a step"


def _split(one: Way) -> str:
    """``2``, with stages ``2x3``, with whole experts ``2 ep``; a dash where the format does not come so far."""
    stages = f"x{one.pipeline_parallel_size}" if one.pipeline_parallel_size > 1 else ""
    return f"{one.tensor_parallel_size or '-'}{stages}{' ep' if one.expert_parallel else ''}"


def ways_document(ways: Sequence[Way], *, catalogue: str, input_hash: str) -> Document:
    """`cotenant/candidates/1`: `candidates[]`; `slack` null where any slowdown keeps the SLO."""
    return {
        **header("candidates", catalogue=catalogue, input_hash=input_hash),
        "candidates": [
            {
                "model": one.model,
                "gpu": one.gpu,
                "quantization": one.format,
                "kv_cache_dtype": one.kv_cache_dtype,
                "tensor_parallel_size": one.tensor_parallel_size,
                "pipeline_parallel_size": one.pipeline_parallel_size,
                "enable_expert_parallel": one.expert_parallel,
                "max_num_batched_tokens": one.max_num_batched_tokens,
                "replicas": one.replicas,
                "claim_bytes": one.claim_bytes,
                "busy": one.busy,
                "slack": one.slack,
                "offered": one.offered,
                "reason": one.reason,
            }
            for one in ways
        ],
    }
