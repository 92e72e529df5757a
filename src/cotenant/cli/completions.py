"""What the shell offers for names: models, cards, engines and formats of the catalogues."""

from __future__ import annotations

from collections.abc import Iterable

import click
from click.shell_completion import CompletionItem


def complete_models(ctx: click.Context, param: click.Parameter, text: str) -> list[CompletionItem | str]:
    """Models of the catalogue, and paths where the text looks like one."""
    if text.startswith((".", "/", "~")):
        return [CompletionItem(text, type="file")]
    from cotenant.catalogue.models import all_entries

    return _matching(text, (entry.id for entry in all_entries()))


def complete_gpus(ctx: click.Context, param: click.Parameter, text: str) -> list[CompletionItem | str]:
    """Cards of the catalogue."""
    from cotenant.catalogue.gpus import all_gpus

    return _matching(text, (gpu.name for gpu in all_gpus()))


def complete_formats(ctx: click.Context, param: click.Parameter, text: str) -> list[CompletionItem | str]:
    """Formats of the catalogue."""
    from cotenant.catalogue.quantization import all_formats

    return _matching(text, (found.name for found in all_formats()))


def complete_engines(ctx: click.Context, param: click.Parameter, text: str) -> list[CompletionItem | str]:
    """Engines that estimates exist for."""
    from cotenant.engines import engine_names

    return _matching(text, engine_names())


def _matching(text: str, names: Iterable[str]) -> list[CompletionItem | str]:
    """Those that start with `text` or, after their owner, continue with it."""
    wanted = text.lower()
    return [name for name in names if name.lower().startswith(wanted) or f"/{wanted}" in name.lower()]
