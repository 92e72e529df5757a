"""`cotenant gpus`: the cards of the catalogue."""

from __future__ import annotations

import click

from cotenant.cli.output import FITS, console, emit, json_option, reports_errors


@click.command("gpus")
@click.argument("filter", metavar="[FILTER]", default="")
@json_option
@reports_errors
def command(filter: str, as_json: bool) -> int:  # noqa: A002 - the word that users read
    """List the cards whose name, maker or architecture holds FILTER: two capacities, rates, price.

    Your own cards and prices go into `catalogue/gpus.yaml` in the configuration folder.
    """
    from cotenant.catalogue.gpus import all_gpus
    from cotenant.domain.gpu import GpuSpec
    from cotenant.edge.own_gpus import own_gpus
    from cotenant.errors import UnknownGpuError

    def matches(gpu: GpuSpec) -> bool:
        words = f"{gpu.name} {gpu.vendor} {gpu.architecture} {gpu.gfx or ''}".lower().replace(" ", "-")
        return all(part in words for part in filter.lower().split())

    own = own_gpus()
    names = {gpu.name for gpu in own}
    gpus = [gpu for gpu in (*own, *(gpu for gpu in all_gpus() if gpu.name not in names)) if matches(gpu)]
    if as_json:
        from cotenant.catalogue import VERSION
        from cotenant.report.catalogue_document import gpus_document

        emit(gpus_document(gpus, catalogue=VERSION))
        return FITS
    if not gpus:
        raise UnknownGpuError(f"no card matches {filter[:60]!r}", hint="`cotenant gpus` lists them all")
    from cotenant.report.gpu_text import print_gpus

    print_gpus(gpus, console())
    return FITS
