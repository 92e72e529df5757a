"""`cotenant verify`: a plan against its live engines."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cotenant.cli.output import DOES_NOT_FIT, FITS, console, emit, json_option, reports_errors
from cotenant.cli.outputs import check_outputs, write_output
from cotenant.cli.progress import progress
from cotenant.cli.values import SEED

if TYPE_CHECKING:
    from typing import Any

    from cotenant.domain.verification import Verification


@click.command("verify")
@click.argument("plan", metavar="PLAN")
@click.option(
    "--url",
    "urls",
    multiple=True,
    metavar="NAME=URL",
    help="This replica or model runs already: measure it there.",
)
@click.option("--log", "logs", multiple=True, metavar="NAME=FILE", help="The log of an engine that runs already.")
@click.option("--pid", "pids", multiple=True, metavar="NAME=PID", help="Its process, for what it holds.")
@click.option("--key-env", metavar="NAME", help="The environment variable with the key of engines at --url.")
@click.option(
    "--engine-binary", "binaries", multiple=True, metavar="ENGINE=PATH", help="Where an engine's program is."
)
@click.option("--fleet", metavar="FLEET", help="The fleet file of the plan, where the plan does not hold it.")
@click.option("--quick", is_flag=True, help="Memory and limits alone, no steps between.")
@click.option(
    "--max-kv", default="90%", show_default=True, metavar="SHARE", help="Stop when a pool is fuller than that."
)
@click.option(
    "--max-errors", type=click.IntRange(0), default=2, show_default=True, help="Stop a step after so many."
)
@click.option(
    "--max-tokens",
    type=click.IntRange(16),
    metavar="N",
    help="The longest request, where the plan's takes too long.",
)
@click.option("--max-concurrency", type=click.IntRange(1), metavar="N", help="At most so many at once.")
@click.option(
    "--rounds", type=click.IntRange(1, 1000), default=1, show_default=True, help="Requests a user a step."
)
@click.option(
    "--traffic", metavar="TIME", help="At the end the plan's own traffic for so long, as it comes (open loop)."
)
@click.option("--seed", type=SEED, default=0, show_default=True, help="Of all prompts.")
@click.option(
    "--metrics",
    default="auto",
    show_default=True,
    metavar="SOURCE",
    help="Of cards: nvml, nvidia-smi, or a Prometheus text with DCGM's gauges (URL or file).",
)
@click.option("--watch", metavar="TIME", help="Then watch so long, as 24h, for low and high tide.")
@click.option("--every", default="10s", show_default=True, metavar="TIME", help="Between two readings of a watch.")
@click.option("--state", type=click.Path(file_okay=False, path_type=Path), metavar="DIR", help="Journal and logs.")
@click.option("--fresh", is_flag=True, help="Begin anew, though an earlier run broke off.")
@click.option(
    "--html", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Also a report with plots."
)
@click.option("--dry-run", is_flag=True, help="Say what would be asked of which engine; start nothing.")
@click.option("--no-calibration", is_flag=True, help="Keep no calibration of what was measured.")
@json_option
@reports_errors
def command(
    plan: str, html: Path | None, as_json: bool, binaries: tuple[str, ...], dry_run: bool, **told: object
) -> int:
    """Measure PLAN (the JSON of `cotenant plan`, or a fleet file, which is planned first) on live engines: those
    that run already (--url), or started here and stopped again.

    Memory before, after loading and after warm-up; cache growth; load stepped up to the plan's limits, each model
    alone and all at once. Exit status 3 when something that was measured contradicts the plan.
    """
    from cotenant import api
    from cotenant.edge.engines import programs

    check_outputs(html=html)
    programs.tell(_pairs(binaries, "--engine-binary"))
    if dry_run:
        return _steps(plan, as_json=as_json, **_words(told))
    with progress() as report, _stops_engines():
        found = api.verify(plan, progress=report, **_words(told))
    if html is not None:
        from cotenant.report.verify_html import verify_html

        write_output(html, verify_html(found, title=f"Verification of {Path(plan).name}"))
    _show(found, as_json=as_json)
    return FITS if found.holds else DOES_NOT_FIT


@contextmanager
def _stops_engines() -> Iterator[None]:
    """SIGTERM ends it as Ctrl-C does, so that no engine is left behind."""
    before = signal.getsignal(signal.SIGTERM)
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _words(told: dict[str, object]) -> dict[str, Any]:
    found: dict[str, Any] = {
        name: value for name, value in told.items() if name not in ("urls", "logs", "pids", "no_calibration")
    }
    for name in ("urls", "logs", "pids"):
        given = told[name]
        found[name] = _pairs(given if isinstance(given, tuple) else (), f"--{name[:-1]}")
    return found | {"calibration": not told["no_calibration"]}


def _steps(plan: str, *, as_json: bool, fleet: str | None, **told: Any) -> int:
    from cotenant.api.carrying_out import plan_and_requests
    from cotenant.catalogue import VERSION
    from cotenant.edge.verifying.asked import asked_from
    from cotenant.edge.verifying.run import planned_steps
    from cotenant.report.document import header

    with progress() as report:
        found, requests, _ = plan_and_requests(plan, fleet, report)
    steps = planned_steps(found, requests, asked_from(**told))
    if as_json:
        asked = [
            {
                "kind": step.kind,
                "beyond": step.beyond,
                "asks": {name: list(shape) for name, shape in step.shape.items()},
            }
            for step in steps
        ]
        emit({**header("verify-steps", catalogue=VERSION, input_hash=found.input_hash), "steps": asked})
        return FITS
    for step in steps:
        shapes = (f"{name}: {n} at once, {i:,} tokens in, {o:,} out" for name, (n, i, o) in step.shape.items())
        click.echo(f"{step.kind:9}{'; '.join(shapes)}{' (must be refused)' if step.beyond else ''}")
    return FITS


def _pairs(given: tuple[str, ...], option: str) -> dict[str, str]:
    from cotenant.errors import InputError

    found: dict[str, str] = {}
    for text in given:
        name, sign, value = text.partition("=")
        if not sign or not name or not value:
            raise InputError(f"{text[:80]!r} is not NAME=VALUE", path=option)
        found[name] = value
    return found


def _show(found: Verification, *, as_json: bool) -> None:
    from cotenant.catalogue import VERSION
    from cotenant.report.verify_document import verify_document
    from cotenant.report.verify_text import print_verification

    if as_json:
        emit(verify_document(found, catalogue=VERSION))
    else:
        print_verification(found, console())
