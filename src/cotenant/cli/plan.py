"""`cotenant plan`: several models on GPUs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
from cotenant.cli.outputs import check_outputs, tell_written, write_output
from cotenant.cli.progress import progress
from cotenant.cli.values import SEED

if TYPE_CHECKING:
    from rich.console import Console


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
    help="all: compare with ways to share a card that are simulated only (elastic KV, spatial, token).",
)  # fmt: skip
@click.option(
    "--replay",
    is_flag=True,
    help="Replay the plan; where an SLO breaks, tighten and plan again until all hold. With --what-if: each.",
)
@click.option("--time-limit", metavar="TIME", help="Take the best plan that is known by then, as 10s.")
@click.option(
    "--candidates", "listed", is_flag=True, help="Only list the ways to serve each model, and what was dropped."
)
@click.option("--why", "priced", is_flag=True, help="Also say what each wish costs: a plan without each of them.")
@click.option("--seed", type=SEED, default=0, show_default=True, help="Of the replay.")
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
def command(fleet: str, output: Path | None, html: Path | None, as_json: bool, **told: Any) -> int:
    """Place the models of FLEET (a YAML or JSON file, see docs/fleet-file.md) on its GPUs.

    Exit status 3 when there is no room; the nearest plan is printed all the same, with what would make it fit. So
    it is where --replay finds no plan that holds every SLO.
    """
    asked = _Asked(fleet, output, html, as_json, **told)
    _check(asked)
    check_outputs(output=output, html=html)
    if asked.listed:
        return _listed(asked)
    if asked.sweep is not None:
        return _swept(asked)
    if asked.strategies is not None:
        return _compared(asked)
    return _planned(asked)


@dataclass(frozen=True, slots=True)
class _Asked:
    """The words of the command line, by the names of its options."""

    fleet: str
    output: Path | None
    html: Path | None
    as_json: bool
    compare: str | None
    modes: str
    replay: bool
    time_limit: str | None
    listed: bool
    priced: bool
    seed: int
    previous: str | None
    sweep: str | None
    points: int
    calibration: bool
    aiconfigurator: bool

    @property
    def strategies(self) -> str | None:
        """What is compared; None where nothing is."""
        return f"{self.compare or 'optimal'},elastic,spatial,token" if self.modes == "all" else self.compare

    @property
    def known(self) -> dict[str, bool]:
        """What estimates may take from beyond the rules."""
        return {"calibration": self.calibration, "aiconfigurator": self.aiconfigurator}


def _check(asked: _Asked) -> None:
    """Refuses what does not go together."""
    ways = {
        "--compare": asked.strategies, "--replay": asked.replay, "--why": asked.priced, "--from": asked.previous,
        "--what-if": asked.sweep, "--candidates": asked.listed,
    }  # fmt: skip
    chosen = [name for name, value in ways.items() if value]
    if chosen == ["--replay", "--what-if"]:  # each point is replayed
        return
    if len(chosen) > 1:
        raise click.UsageError(f"{' and '.join(chosen)} do not go together")
    if asked.html is not None and asked.sweep is None:
        raise click.UsageError("--html draws --what-if")
    if asked.time_limit is not None and chosen:
        raise click.UsageError("--time-limit goes with a plan alone")


def _planned(asked: _Asked) -> int:
    from cotenant import api
    from cotenant.catalogue import VERSION
    from cotenant.report.document import plan_document
    from cotenant.report.plan_text import print_plan

    with progress() as report:
        plan = api.plan(
            asked.fleet, replay=asked.replay, why=asked.priced, seed=asked.seed, previous=asked.previous,
            time_limit=asked.time_limit, workers=None, progress=report, **asked.known,
        )  # fmt: skip
    _show(asked, plan_document(plan, catalogue=VERSION), lambda on: print_plan(plan, on, priced=asked.priced))
    return FITS if plan.feasible and plan.promises_held is not False else DOES_NOT_FIT


def _compared(asked: _Asked) -> int:
    from cotenant import api
    from cotenant.catalogue import VERSION
    from cotenant.report.contenders import contenders_document, print_contenders

    with progress() as report:
        question = api.load_fleet(asked.fleet)
        words = [word.strip() for word in (asked.strategies or "").split(",")]
        found = api.compare_plans(question, words, seed=asked.seed, progress=report, **asked.known)
    document = contenders_document(found, catalogue=VERSION, input_hash=question.input_hash)
    _show(asked, document, lambda on: print_contenders(found, on))
    return FITS if any(not one.unplaced for one in found) else DOES_NOT_FIT


def _listed(asked: _Asked) -> int:
    from cotenant import api
    from cotenant.catalogue import VERSION
    from cotenant.edge.known import known
    from cotenant.planning.listed import ways_listed
    from cotenant.report.candidates import print_ways, ways_document

    question = api.load_fleet(asked.fleet)
    with known(**asked.known):
        ways = ways_listed(question)
    document = ways_document(ways, catalogue=VERSION, input_hash=question.input_hash)
    _show(asked, document, lambda on: print_ways(ways, on))
    return FITS if {one.model for one in ways if one.offered} == {one.model for one in ways} else DOES_NOT_FIT


def _swept(asked: _Asked) -> int:
    from cotenant import api
    from cotenant.catalogue import VERSION
    from cotenant.report.what_if import print_what_if, what_if_document, what_if_html

    with progress() as report:
        question = api.load_fleet(asked.fleet)
        sweep, found = api.what_if(
            question,
            asked.sweep or "",
            points=asked.points,
            replay=asked.replay,
            seed=asked.seed,
            progress=report,
            **asked.known,
        )
    if asked.html is not None:
        title = f"What if: {sweep.name}, {Path(asked.fleet).name}"
        write_output(asked.html, what_if_html(sweep, found, title=title))
    document = what_if_document(sweep, found, catalogue=VERSION, input_hash=question.input_hash)
    _show(asked, document, lambda on: print_what_if(sweep, found, on))
    return FITS if any(one.feasible for one in found) else DOES_NOT_FIT


def _show(asked: _Asked, document: Mapping[str, Any], as_text: Callable[[Console], None]) -> None:
    """The answer where it was wanted: in a file, as JSON, as text."""
    if asked.output is not None:
        from cotenant.edge.store import write_json

        write_json(asked.output, document)
        tell_written(asked.output)
    if asked.as_json:
        emit(document)
    else:
        as_text(console())
