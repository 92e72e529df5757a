"""`cotenant simulate`: a plan against its traffic."""

from __future__ import annotations

from pathlib import Path

import click

from cotenant.cli.output import DOES_NOT_FIT, FITS, console, emit, json_option, progress, reports_errors


@click.command("simulate")
@click.argument("fleet", metavar="FLEET")
@click.option(
    "--trace", "traces", multiple=True, metavar="[MODEL=]FILE",
    help="Replay these requests on the plan made for the fleet's traffic (MODEL's, where there are several).",
)  # fmt: skip
@click.option(
    "--duration", metavar="TIME", help="How long requests come, as 600s. Default: traces whole, else 300s."
)
@click.option(
    "--seed", type=click.IntRange(0, 2**63 - 1), default=0, show_default=True, help="Of all that is drawn."
)
@click.option(
    "--policy",
    default="static",
    show_default=True,
    help="How models share cards: static, swap, swap-2 or restart.",
)
@click.option(
    "--patience",
    default="10s",
    show_default=True,
    metavar="TIME",
    help="How long a request waits before a busy model makes room for its own.",
)
@click.option("--compare", metavar="A,B,...", help="Several policies side by side, the same requests for each.")
@click.option(
    "--html", "html", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
    help="Also write a report with plots: one file, to be opened in a browser.",
)  # fmt: skip
@json_option
@reports_errors
def command(
    fleet: str,
    traces: tuple[str, ...],
    duration: str | None,
    seed: int,
    policy: str,
    patience: str,
    compare: str | None,
    html: Path | None,
    as_json: bool,
) -> int:
    """Plan FLEET, then replay its traffic token by token: TTFT, TPOT, goodput, KV high water, preemptions.

    Exit status 3 when there is no plan, or when an SLO is missed (with --compare: by every policy).
    """
    from cotenant import api
    from cotenant.catalogue import VERSION

    policies = [policy] if compare is None else [word.strip() for word in compare.split(",")]
    with progress() as report:
        found = [
            api.simulate(
                fleet, traces=traces, duration=duration, seed=seed, policy=one, patience=patience, progress=report
            )
            for one in policies
        ]  # fmt: skip
    if html is not None:
        from cotenant.edge.store import write_atomic
        from cotenant.report.replay_html import replay_html

        words = f"cotenant simulate {Path(fleet).name}"
        write_atomic(html, replay_html(found, title=f"Simulation of {Path(fleet).name}", command=words).encode())
    if as_json:
        from cotenant.report.replay_document import comparison_document, replay_document

        one = replay_document(found[0], catalogue=VERSION)
        emit(one if compare is None else comparison_document(found, catalogue=VERSION))
    elif compare is None:
        from cotenant.report.replay_text import print_replay

        print_replay(found[0], console())
    else:
        from cotenant.report.replay_text import print_comparison

        print_comparison(found, console())
    held = any(one.slo_held and not any(model.unfinished for model in one.models) for one in found)
    return FITS if held else DOES_NOT_FIT
