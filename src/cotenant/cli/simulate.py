"""`cotenant simulate`: a plan against its traffic."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from cotenant.cli.output import (
    DOES_NOT_FIT,
    FITS,
    aiconfigurator_option,
    calibration_option,
    console,
    emit,
    json_option,
    reports_errors,
)
from cotenant.cli.outputs import check_outputs, write_output
from cotenant.cli.progress import progress
from cotenant.cli.values import SEED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cotenant.domain.replay import Replay

_COMPARED = "static,elastic,swap,restart"
_NAMED = (
    "policy", "compare", "duration", "arrivals", "seed", "seeds", "patience", "residency", "hold", "timeout",
    "dispatch", "preempt",
)  # fmt: skip
"""Options that a report repeats."""


@click.command("simulate")
@click.argument("fleet", metavar="FLEET|PLAN")
@click.option(
    "--trace", "traces", multiple=True, metavar="[MODEL=]FILE",
    help="Replay these requests on the plan made for the fleet's traffic (MODEL's, where there are several).",
)  # fmt: skip
@click.option(
    "--duration", metavar="TIME", help="How long requests come, as 600s. Default: traces whole, else 300s."
)
@click.option(
    "--arrivals", metavar="HOW", help="How rates come: poisson, gamma:2 (bursts) or on-off:30s/90s (spells)."
)
@click.option("--seed", type=SEED, default=0, show_default=True, help="Of all that is drawn.")
@click.option(
    "--seeds", type=click.IntRange(1, 10_000), default=1, metavar="N", help="So many seeds, from --seed on."
)
@click.option(
    "--policy",
    default="static",
    show_default=True,
    metavar="HOW",
    help="How models share cards: static, elastic, spatial, disaggregated, swap, swap-2, restart, swap-lru, "
    "restart-lru, token or token-urgent.",
)
@click.option(
    "--patience",
    default="10s",
    show_default=True,
    metavar="TIME",
    help="How long a request waits before a busy model makes room for its own.",
)
@click.option(
    "--residency", default="5s", show_default=True, metavar="TIME",
    help="How long a model that takes turns stays at least.",
)  # fmt: skip
@click.option(
    "--hold", default="0s", show_default=True, metavar="TIME",
    help="How long a request waits before an idle model makes room.",
)  # fmt: skip
@click.option("--timeout", metavar="TIME", help="Clients leave that long after they came, answered or not.")
@click.option(
    "--fail", multiple=True, metavar="REPLICA@TIME+TIME",
    help="A replica fails then, for so long; mtbf:2h+90s: every one, by chance.",
)  # fmt: skip
@click.option(
    "--dispatch", default="least-loaded", show_default=True, metavar="HOW",
    help="Which replica takes a request: least-loaded, round-robin or best-fit (with slack).",
)  # fmt: skip
@click.option(
    "--preempt", default="latest", show_default=True, metavar="WHO",
    help="Who gives way for blocks, of the lowest priority: the latest, or the cheapest to bring back. It "
    "computes again; with latest:swap (:8GiB) its cache goes to host memory.",
)  # fmt: skip
@click.option(
    "--compare", metavar="[A,B,...]", is_flag=False, flag_value=_COMPARED,
    help=f"Several policies side by side, the same requests for each. Without names: {_COMPARED}.",
)  # fmt: skip
@click.option(
    "--html", "html", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
    help="Also write a report with plots: one file, to be opened in a browser.",
)  # fmt: skip
@click.option(
    "--workers", type=click.IntRange(1, 1024), metavar="N", help="Processes at once. Default: the cores."
)
@click.option("--ray", metavar="ADDRESS", help="Replay on this Ray cluster instead (auto: the one around).")
@calibration_option
@aiconfigurator_option
@json_option
@reports_errors
def command(
    fleet: str,
    traces: tuple[str, ...],
    duration: str | None,
    arrivals: str | None,
    seed: int,
    seeds: int,
    policy: str,
    patience: str,
    residency: str,
    hold: str,
    timeout: str | None,
    fail: tuple[str, ...],
    dispatch: str,
    preempt: str,
    compare: str | None,
    html: Path | None,
    workers: int | None,
    ray: str | None,
    calibration: bool,
    aiconfigurator: bool,
    as_json: bool,
) -> int:
    """Plan FLEET, then replay its traffic token by token: TTFT, TPOT, goodput, KV high water, preemptions.

    A plan's own JSON (cotenant plan FLEET -o PLAN) is replayed as it stands. Exit status 3 when there is no plan,
    when an SLO is missed, or when requests of a model wait to the end or none of them is answered (with --compare:
    under every policy; with --seeds: from any seed).
    """
    from cotenant import api
    from cotenant.simulation.conditions import conditions_of

    check_outputs(html=html)
    conditions = conditions_of(
        timeout=timeout, fail=fail, residency=residency, hold=hold, dispatch=dispatch, preempt=preempt
    )
    policies = [policy] if compare is None else [word.strip() for word in compare.split(",")]
    with progress() as report:
        found = api.simulate_many(
            fleet, policies=policies, seeds=range(seed, seed + seeds), traces=traces, duration=duration,
            arrivals=arrivals, patience=patience, conditions=conditions, workers=workers, ray=ray,
            calibration=calibration, aiconfigurator=aiconfigurator, progress=report,
        )  # fmt: skip
    firsts = found[::seeds]
    if html is not None:
        from cotenant.report.replay_html import replay_html

        name = Path(fleet).name
        write_output(html, replay_html(firsts, title=f"Simulation of {name}", command=_command(name)))
    _show(found, seeds=seeds, compared=compare is not None, as_json=as_json)
    kept = [all(_holds(one) for one in found[start : start + seeds]) for start in range(0, len(found), seeds)]
    return FITS if any(kept) else DOES_NOT_FIT


def _show(found: Sequence[Replay], *, seeds: int, compared: bool, as_json: bool) -> None:
    from cotenant.catalogue import VERSION
    from cotenant.report.replay_document import comparison_document, replay_document
    from cotenant.report.replay_text import print_comparison, print_replay
    from cotenant.report.seeds import print_seeds, seeds_document

    if seeds > 1:
        if as_json:
            emit(seeds_document(found, catalogue=VERSION))
        else:
            print_seeds(found, console())
    elif compared:
        if as_json:
            emit(comparison_document(found, catalogue=VERSION))
        else:
            print_comparison(found, console())
    elif as_json:
        emit(replay_document(found[0], catalogue=VERSION))
    else:
        print_replay(found[0], console())


def _holds(replay: Replay) -> bool:
    answered = all(model.finished or not model.requests for model in replay.models)
    return replay.slo_held and answered and not any(model.unfinished for model in replay.models)


def _command(name: str) -> str:
    """The words that were typed, but for the paths."""
    context = click.get_current_context()
    given = [
        f"--{option.replace('_', '-')} {value}"
        for option, value in context.params.items()
        if value not in (None, False, ())
        and option in _NAMED
        and context.get_parameter_source(option) is not click.core.ParameterSource.DEFAULT
    ]
    return " ".join(["cotenant simulate", name, *given])
