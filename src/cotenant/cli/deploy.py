"""`cotenant deploy`: a plan as files that start it."""

from __future__ import annotations

from pathlib import Path

import click

from cotenant.cli.output import DOES_NOT_FIT, FITS, emit, json_option, reports_errors
from cotenant.cli.outputs import check_outputs, tell_written
from cotenant.cli.printable import one_line
from cotenant.cli.progress import progress
from cotenant.deployment.targets import TARGETS


@click.command("deploy")
@click.argument("plan", metavar="PLAN")
@click.option("--to", "target", required=True, metavar="TARGET", help=f"One of {', '.join(TARGETS)}.")
@click.option(
    "--out", type=click.Path(file_okay=False), metavar="DIR",
    help="Write the files there, instead of to stdout.",
)  # fmt: skip
@click.option(
    "--listen", default="127.0.0.1", show_default=True, metavar="ADDRESS",
    help="Where engines answer: an address of their machine, 0.0.0.0 for every one. No engine asks for a key.",
)  # fmt: skip
@json_option
@reports_errors
def command(plan: str, target: str, out: str | None, listen: str, as_json: bool) -> int:
    """Write PLAN (the JSON of `cotenant plan`, - for stdin, or a fleet file, which is planned first) for a target.

    Exit status 3 when a model has no place in the plan; the others are written.
    """
    from cotenant import api
    from cotenant.catalogue import VERSION
    from cotenant.report.deployment_document import deployment_document, deployment_text

    if out == "":  # as a path it would be the folder that one stands in
        raise click.BadParameter("the name is empty", param_hint="--out")
    folder = None if out is None else Path(out)
    check_outputs(folder=folder)
    with progress() as report:
        found = api.deploy(plan, to=target, listen=listen, progress=report)
    if folder is not None:
        from cotenant.edge.deployments import write_deployment

        for path in write_deployment(found, folder):
            tell_written(path)
    if as_json:
        emit(deployment_document(found, catalogue=VERSION))
    else:
        if folder is None:
            click.echo(deployment_text(found), nl=False)
        for note in found.notes:
            click.echo(one_line(f"note: {note}"), err=True)
    return FITS if found.feasible else DOES_NOT_FIT
