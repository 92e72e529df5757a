"""`cotenant schema`: the JSON Schema of the fleet file, for editors."""

from __future__ import annotations

import click

from cotenant.cli.output import FITS, emit, json_option, reports_errors


@click.command("schema")
@json_option
@reports_errors
def command(as_json: bool) -> int:
    """Print the JSON Schema of the fleet file, for your editor: `cotenant schema > fleet.schema.json`."""
    from cotenant.readers.fleet import fleet_json_schema

    emit(fleet_json_schema())
    return FITS
