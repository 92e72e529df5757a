"""`cotenant models`: the models of the catalogue."""

from __future__ import annotations

import click

from cotenant.cli.output import FITS, console, emit, json_option, reports_errors


@click.command("models")
@click.argument("filter", metavar="[FILTER]", default="")
@json_option
@reports_errors
def command(filter: str, as_json: bool) -> int:  # noqa: A002 - the word that users read
    """List the models whose id, alias, task or architecture holds FILTER; others are read from the hub."""
    from cotenant.catalogue.models import ModelEntry, all_entries
    from cotenant.edge.own_models import own_models
    from cotenant.errors import UnknownModelError

    def matches(entry: ModelEntry) -> bool:
        words = " ".join((entry.id, *entry.aliases, entry.task, *entry.config.get("architectures", ()))).lower()
        return all(part in words for part in filter.lower().split())

    entries = [entry for entry in all_entries() if matches(entry)]
    if as_json:
        from cotenant.catalogue import VERSION
        from cotenant.report.catalogue_document import models_document

        emit(models_document(entries, catalogue=VERSION))
        return FITS
    own = [model for model in own_models() if filter.lower() in f"{model.name} {model.task}".lower()]
    if not entries and not own:
        raise UnknownModelError(f"no model matches {filter[:60]!r}", hint="`cotenant models` lists them all")
    from cotenant.report.model_text import print_models

    if own:
        console().print(f"Your own: {', '.join(model.name for model in own)}\n", style="bold", soft_wrap=True)
    print_models(entries, console())
    return FITS
