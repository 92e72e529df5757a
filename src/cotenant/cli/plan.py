"""`cotenant plan`: several models on GPUs."""

from __future__ import annotations

from pathlib import Path

import click

from cotenant.cli.output import DOES_NOT_FIT, FITS, console, emit, json_option, progress, reports_errors


@click.command("plan")
@click.argument("fleet", metavar="FLEET")
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Also write the plan as JSON."
)
@json_option
@reports_errors
def command(fleet: str, output: Path | None, as_json: bool) -> int:
    """Place the models of FLEET (a YAML or JSON file, see docs/fleet-file.md) on its GPUs.

    Exit status 3 when there is no room; the nearest plan is printed all the same, with what would make it fit.
    """
    if output is not None and not output.name:
        raise click.BadParameter("the name is empty", param_hint="-o")
    from cotenant import api
    from cotenant.catalogue import VERSION
    from cotenant.report.document import plan_document

    with progress() as report:
        plan = api.plan(fleet, progress=report)
    document = plan_document(plan, catalogue=VERSION)
    if output is not None:
        from cotenant.edge.store import write_json

        write_json(output, document)
    if as_json:
        emit(document)
    else:
        from cotenant.report.plan_text import print_plan

        print_plan(plan, console())
    return FITS if plan.feasible else DOES_NOT_FIT
