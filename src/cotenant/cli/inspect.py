"""`cotenant inspect`: what a model is made of."""

from __future__ import annotations

import click

from cotenant.cli.completions import complete_models
from cotenant.cli.output import FITS, console, emit, json_option, reports_errors
from cotenant.cli.progress import waiting


@click.command("inspect")
@click.argument("model", shell_complete=complete_models)
@json_option
@reports_errors
def command(model: str, as_json: bool) -> int:
    """What MODEL is made of: parameters by role, weights in each format, layers and what they keep of a token.

    MODEL is a name of the catalogue, a hub id, a folder, a config.json, a .safetensors or a .gguf file.
    """
    from cotenant import api
    from cotenant.estimation.anatomy import anatomy

    with waiting(f"Reading {model}"):
        found = anatomy(api.load_model(model))
    if as_json:
        from cotenant.catalogue import VERSION
        from cotenant.readers.input_hash import input_hash
        from cotenant.report.catalogue_document import inspect_document

        emit(inspect_document(found, catalogue=VERSION, input_hash=input_hash({"model": model})))
    else:
        from cotenant.catalogue.models import find_entry
        from cotenant.report.model_text import print_anatomy

        entry = find_entry(found.model.model_id) if found.model.source == "catalogue" else None
        print_anatomy(found, console(), entry)
    return FITS
