"""`cotenant plan`: several models on GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from cotenant.cli.output import (
    DOES_NOT_FIT,
    FITS,
    aiconfigurator_option,
    calibration_option,
    console,
    emit,
    json_option,
    progress,
    reports_errors,
)


@click.command("plan")
@click.argument("fleet", metavar="FLEET")
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Also write the plan as JSON."
)
@click.option(
    "--compare", metavar="A,B,...",
    help="Several ways side by side, each replayed: naive (each model alone, 16 bits), greedy, optimal, promised.",
)  # fmt: skip
@click.option(
    "--modes", type=click.Choice(["runnable", "all"]), default="runnable", show_default=True,
    help="all: compare with ways to share a card that are simulated only (elastic KV, spatial).",
)  # fmt: skip
@click.option(
    "--replay", is_flag=True, help="Replay the plan; where an SLO breaks, tighten and plan again until all hold."
)
@click.option("--time-limit", metavar="TIME", help="Take the best plan that is known by then, as 10s.")
@click.option(
    "--candidates", "listed", is_flag=True, help="Only list the ways to serve each model, and what was dropped."
)
@click.option("--why", "priced", is_flag=True, help="Also say what each wish costs: a plan without each of them.")
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), default=0, show_default=True, help="Of the replay.")
@click.option(
    "--from", "previous", metavar="PLAN", help="A plan that runs: stay near it, and say how to get there."
)
@click.option(
    "--what-if", "sweep", metavar="WHAT=A..B",
    help="Plan again with more or less: traffic=0.5..4, slo=0.5..2, price:L4=0.8..1.5.",
)  # fmt: skip
@click.option("--points", type=click.IntRange(2, 64), default=8, show_default=True, help="Of --what-if.")
@click.option(
    "--html", type=click.Path(dir_okay=False, path_type=Path), help="Also draw the answer of --what-if there."
)
@calibration_option
@aiconfigurator_option
@json_option
@reports_errors
def command(
    fleet: str,
    output: Path | None,
    compare: str | None,
    modes: str,
    replay: bool,
    time_limit: str | None,
    listed: bool,
    priced: bool,
    seed: int,
    previous: str | None,
    sweep: str | None,
    points: int,
    html: Path | None,
    calibration: bool,
    aiconfigurator: bool,
    as_json: bool,
) -> int:
    """Place the models of FLEET (a YAML or JSON file, see docs/fleet-file.md) on its GPUs.

    Exit status 3 when there is no room; the nearest plan is printed all the same, with what would make it fit. So
    it is where --replay finds no plan that holds every SLO.
    """
    for file, hint in ((output, "-o"), (html, "--html")):
        if file is not None and not file.name:
            raise click.BadParameter("the name is empty", param_hint=hint)
    if modes == "all":
        compare = f"{compare or 'optimal'},elastic,spatial"
    chosen = {
        "--compare": compare,
        "--replay": replay,
        "--why": priced,
        "--from": previous,
        "--what-if": sweep,
        "--candidates": listed,
    }
    if sum(bool(value) for value in chosen.values()) > 1:
        raise click.UsageError(
            f"{' and '.join(name for name, value in chosen.items() if value)} do not go together"
        )
    if html is not None and sweep is None:
        raise click.UsageError("--html draws --what-if")
    if time_limit is not None and any(chosen.values()):
        raise click.UsageError("--time-limit goes with a plan alone")
    known = {"calibration": calibration, "aiconfigurator": aiconfigurator}
    if listed:
        return _listed(fleet, known, output, as_json)
    if sweep is not None:
        return _swept(fleet, sweep, points, known, output, html, as_json)
    if compare is not None:
        return _compared(fleet, compare, seed, known, output, as_json)
    from cotenant import api
    from cotenant.catalogue import VERSION
    from cotenant.report.document import plan_document

    with progress() as report:
        plan = api.plan(
            fleet, replay=replay, why=priced, seed=seed, previous=previous, time_limit=time_limit,
            workers=None, progress=report, **known,
        )  # fmt: skip
    _written(document := plan_document(plan, catalogue=VERSION), output)
    if as_json:
        emit(document)
    else:
        from cotenant.report.plan_text import print_plan

        print_plan(plan, console(), priced=priced)
    return FITS if plan.feasible and plan.promises_held is not False else DOES_NOT_FIT


def _compared(
    fleet: str, strategies: str, seed: int, known: Mapping[str, bool], output: Path | None, as_json: bool
) -> int:
    from cotenant import api
    from cotenant.catalogue import VERSION
    from cotenant.report.contenders import contenders_document, print_contenders

    with progress() as report:
        question = api.load_fleet(fleet)
        words = [word.strip() for word in strategies.split(",")]
        found = api.compare_plans(question, words, seed=seed, progress=report, **known)
    _written(document := contenders_document(found, catalogue=VERSION, input_hash=question.input_hash), output)
    if as_json:
        emit(document)
    else:
        print_contenders(found, console())
    return FITS if any(not one.unplaced for one in found) else DOES_NOT_FIT


def _listed(fleet: str, wanted: Mapping[str, bool], output: Path | None, as_json: bool) -> int:
    from cotenant import api
    from cotenant.catalogue import VERSION
    from cotenant.edge.known import known
    from cotenant.planning.listed import ways_listed
    from cotenant.report.candidates import print_ways, ways_document

    question = api.load_fleet(fleet)
    with known(**wanted):
        ways = ways_listed(question)
    _written(document := ways_document(ways, catalogue=VERSION, input_hash=question.input_hash), output)
    if as_json:
        emit(document)
    else:
        print_ways(ways, console())
    return FITS if {one.model for one in ways if one.offered} == {one.model for one in ways} else DOES_NOT_FIT


def _swept(
    fleet: str,
    sweep: str,
    points: int,
    known: Mapping[str, bool],
    output: Path | None,
    html: Path | None,
    as_json: bool,
) -> int:
    from cotenant import api
    from cotenant.catalogue import VERSION
    from cotenant.report.what_if import print_what_if, what_if_document, what_if_html

    with progress() as report:
        question = api.load_fleet(fleet)
        asked, found = api.what_if(question, sweep, points=points, progress=report, **known)
    _written(document := what_if_document(asked, found, catalogue=VERSION, input_hash=question.input_hash), output)
    if html is not None:
        from cotenant.edge.store import write_atomic

        write_atomic(html, what_if_html(asked, found, title=f"{Path(fleet).name}: {asked.name}").encode())
    if as_json:
        emit(document)
    else:
        print_what_if(asked, found, console())
    return FITS if any(one.feasible for one in found) else DOES_NOT_FIT


def _written(document: object, output: Path | None) -> None:
    if output is not None:
        from cotenant.edge.store import write_json

        write_json(output, document)
