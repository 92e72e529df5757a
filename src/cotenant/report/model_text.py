"""A model taken apart on one screen, and the catalogue of models as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cotenant.catalogue.models import ModelEntry
from cotenant.domain.anatomy import Anatomy, GroupCache
from cotenant.domain.model import AttentionKind, ModelSpec, Role
from cotenant.report.bars import Segment, bar, shortened
from cotenant.report.grid import INDENT, print_table, table
from cotenant.report.tables import print_paragraph, print_warnings
from cotenant.units import format_bytes, format_count, format_gib, format_percent

if TYPE_CHECKING:
    from rich.console import Console

_FILLS = {
    Role.EMBEDDING: "░", Role.HEAD: "▒", Role.ATTENTION: "▓", Role.MLP: "█", Role.EXPERT: "▚", Role.ROUTER: "┃",
    Role.NORM: "│", Role.STATE: "▞", Role.VISION: "╱", Role.OTHER: "╌",
}  # fmt: skip
_KEEPS = {
    AttentionKind.FULL: "keys and values of every token",
    AttentionKind.SLIDING: "of the last {window:,} tokens",
    AttentionKind.CHUNKED: "of the current chunk of {window:,} tokens",
    AttentionKind.LATENT: "one compressed row a token",
    AttentionKind.RECURRENT: "a state of fixed size",
    AttentionKind.CROSS: "keys and values of the encoder's tokens",
    AttentionKind.NONE: "nothing",
}
_LICENCE = 25  # columns of a licence, of which some are sentences


def print_anatomy(anatomy: Anatomy, console: Console, published: ModelEntry | None = None) -> None:
    """Write the whole answer; `published` is the catalogue's entry, where there is one."""
    model = anatomy.model.spec
    title = f"{model.name}  {model.architecture}, {model.num_layers} layers, up to {model.max_model_len:,} tokens"
    print_paragraph(console, title, style="bold", indent=0)
    print_paragraph(console, _total(anatomy), indent=0)
    if published is not None:
        print_paragraph(console, _published(published, model), indent=0, style="dim")
    console.print()
    _print_roles(anatomy, console)
    console.print()
    _print_cache(anatomy, console)
    console.print()
    _print_formats(anatomy, console)
    print_warnings(console, model.notes)


def _total(anatomy: Anatomy) -> str:
    model = anatomy.model.spec
    parts = [f"{model.num_parameters:,} parameters" if model.num_parameters else "parameters unknown"]
    if anatomy.active_parameters is not None:
        active = format_count(anatomy.active_parameters)
        parts.append(f"{active} active a token ({model.experts_per_token} of {model.num_experts} experts)")
    if model.num_draft_parameters:
        parts.append(f"{format_count(model.num_draft_parameters)} more for multi-token prediction")
    parts.append(f"{format_gib(anatomy.weights_bytes)} in {anatomy.format}")
    kinds = ", ".join(model.modalities)
    return "; ".join(parts) + ("" if kinds == "text" else f"; takes {kinds}")


def _published(entry: ModelEntry, model: ModelSpec) -> str:
    published = entry.published
    if not published.exact:
        sense = f"printed as {published.as_printed}"
    elif published.parameters == model.num_parameters:
        sense = "the same"
    elif published.parameters == model.num_parameters + model.num_draft_parameters:
        sense = "multi-token prediction included"
    else:
        sense = published.what
    return f"Published: {published.parameters:,} ({sense}), {published.source}"


def _print_roles(anatomy: Anatomy, console: Console) -> None:
    counts = anatomy.parameters_by_role
    whole = sum(counts.values())
    if not whole:
        return
    fills = {str(role): fill for role, fill in _FILLS.items()}
    segments = [Segment(number, str(role), count) for number, (role, count) in enumerate(counts.items())]
    console.print(bar(segments, max(20, console.width - 2), fills))
    rows = table("", "parameters", "share")
    for role, count in counts.items():
        rows.add_row(f"{_FILLS[role]} {role}", f"{count:,}", format_percent(count / whole, digits=1))
    print_table(rows, console)


def _print_cache(anatomy: Anatomy, console: Console) -> None:
    model = anatomy.model.spec
    if not model.has_cache:
        print_paragraph(console, "KV cache: none, the model keeps nothing between steps", indent=0)
        return
    fixed = anatomy.kv_bytes_per_sequence
    beside = f" and {format_bytes(fixed)} a sequence" if fixed else ""
    print_paragraph(
        console, f"KV cache in {model.dtype}: {anatomy.kv_bytes_per_token:,} B a token{beside}", indent=0
    )
    rows = table(
        "layers", "kind", "heads", "width", "a token", "a sequence", "keeps",
        left=("kind",), wrap="keeps", spare=("keeps",),
    )  # fmt: skip
    for part in anatomy.groups:
        rows.add_row(*_group_row(part))
    print_table(rows, console)


def _group_row(part: GroupCache) -> list[str]:
    group = part.group
    same = group.value_width in (0, group.key_width)
    width = str(group.key_width) if same else f"{group.key_width}/{group.value_width}"
    return [
        str(group.num_layers),
        str(group.kind),
        f"{group.query_heads}/{group.kv_heads}" if group.kv_heads else "-",
        width if group.key_width else "-",
        f"{part.bytes_per_token:,} B" if part.bytes_per_token else "-",
        format_bytes(part.bytes_per_sequence) if part.bytes_per_sequence else "-",
        _KEEPS[group.kind].format(window=group.window or 0),
    ]


def _print_formats(anatomy: Anatomy, console: Console) -> None:
    """Bytes in each format in as many columns as the console takes."""
    twin = "fp16" if anatomy.format != "fp16" else "bf16"  # two names of the same bytes
    sizes = {name: size for name, size in anatomy.bytes_by_format.items() if name != twin}
    known = anatomy.model.checkpoints
    print_paragraph(console, "Weights by format (* a checkpoint is known):", indent=0)
    names = {name: name + ("*" if name in known else "") for name in sizes}
    long = max(map(len, names.values()))
    cells = [f"{names[name].ljust(long)}  {format_gib(size):>12}" for name, size in sizes.items()]
    columns = max(1, (console.width - INDENT) // (len(cells[0]) + 3))
    for start in range(0, len(cells), columns):
        console.print(" " * INDENT + "   ".join(cells[start : start + columns]))


def print_models(entries: Sequence[ModelEntry], console: Console) -> None:
    """One row a model: its id, published parameters and task; where there is room also its licence, and formats
    with a known checkpoint."""
    columns = ("licence", "checkpoints known")
    rows = table(
        "model", "parameters", "task", *columns, left=("task", *columns), wrap=columns[1], spare=columns
    )  # fmt: skip
    for entry in entries:
        licence, known = shortened(entry.license or "-", _LICENCE), ", ".join(entry.checkpoints) or "-"
        rows.add_row(entry.id, format_count(entry.published.parameters), entry.task, licence, known)
    print_table(rows, console)
    console.print()
    aliases = sum(len(entry.aliases) for entry in entries)
    note = f"{len(entries)} structures, which {aliases} more names share; --json has them all, with their sources."
    print_paragraph(console, note, style="dim", indent=0)
