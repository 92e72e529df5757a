"""`cotenant workload`: what a request trace looks like."""

from __future__ import annotations

import click

from cotenant.cli.output import FITS, console, emit, json_option, reports_errors
from cotenant.cli.progress import progress


@click.command("workload")
@click.argument("trace", metavar="TRACE")
@click.option(
    "--tpot", default="30ms", show_default=True, metavar="TIME", help="Seconds a token, for requests in flight."
)
@json_option
@reports_errors
def command(trace: str, tpot: str, as_json: bool) -> int:
    """Lengths, rate, burstiness and concurrency of TRACE, and the traffic: block for a fleet file.

    TRACE is a CSV with a header or JSON lines: Azure, BurstGPT, Mooncake, Aegaeon, or columns named alike.
    """
    from cotenant.catalogue import VERSION
    from cotenant.edge.traces import open_trace
    from cotenant.report.trace_text import print_trace, trace_document
    from cotenant.simulation.trace_summary import summary
    from cotenant.units import parse_seconds

    token_s = parse_seconds(tpot)
    with progress() as report:
        report(f"reading {trace}")
        found = summary(open_trace(trace), token_s=token_s)
    if as_json:
        emit(trace_document(found, catalogue=VERSION))
    else:
        print_trace(found, console())
    return FITS
