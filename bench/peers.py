"""The same questions to other programs: `python -m bench.peers [--peers DIR] [--json] [--write]`.

Other programs are never dependencies. Each is looked for in DIR, in a virtual environment under its own name, then
on PATH:

    for name in hf-mem kvfit llmfit ridgepoint aiconfigurator; do
        python -m venv DIR/$name && DIR/$name/bin/pip install $name
    done

One that is absent, or has no answer, keeps its row with the reason. Every answer comes from a process of its own,
run twice: seconds are the processor's own in the faster one, memory the larger peak. `--write` keeps the table in
docs/how-it-compares.md.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.markdown import DOCS
from bench.peer_programs import OURS, PROGRAMS, PYTHON, Answer, Program, ask_cotenant
from bench.peer_tasks import TASKS, Task
from bench.peers_page import error_of, page, text
from bench.table import Row, measured, show
from cotenant import __version__
from cotenant.units import GIB

Measured = tuple[float, Mapping[str, object]]
_RUNS = 2


def rows(peers: Path | None, programs: Sequence[Program] = PROGRAMS) -> list[Row]:
    """Every task by every program, ours first; then how far ours are off at worst."""
    found = []
    for task in TASKS:
        found.append(_row(task, OURS, partial(_ours, task)))
        found += [_row(task, program.name, partial(_theirs, program, peers, task)) for program in programs]
    errors = [error_of(row) for row in found if row.id.endswith(f".{OURS}")]
    worst = None if None in errors else max(abs(error) for error in errors if error is not None)
    return [*found, Row("ours_worst_error", worst, "share", "<= 0.01")]


def _row(task: Task, name: str, measure: Callable[[], Measured]) -> Row:
    row = measured(f"{task.id}.{name}", "GiB", "", measure)
    told = {"truth_gib": round(task.truth_gib, 3), **row.details}
    return Row(row.id, row.value, row.unit, row.reach, row.reason, told)


def _ours(task: Task) -> Measured:
    return _asked(partial(ask_cotenant, PYTHON, task), task, __version__)


def _theirs(program: Program, peers: Path | None, task: Task) -> Measured:
    command = program.locate(peers)
    return _asked(partial(program.ask, command, task), task, program.version(command))


def _asked(ask: Callable[[Path], Answer], task: Task, version: str) -> Measured:
    runs = []
    for _ in range(_RUNS):
        with TemporaryDirectory() as folder:
            size, run = ask(Path(folder))
        runs.append(run)
    return round(size / GIB, 4), {
        "error": round(size / task.truth_bytes - 1, 4),
        "seconds": round(min(run.seconds for run in runs), 2),
        "mib": round(max(run.mib for run in runs)),
        "version": version,
    }


def run(argv: Sequence[str] | None = None) -> int:
    """Ask all, print, and with --write keep the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="a list of rows instead of a table")
    parser.add_argument("--peers", metavar="DIR", type=Path, default=None, help="a virtual environment for each")
    parser.add_argument("--write", action="store_true", help="write docs/how-it-compares.md")
    options = parser.parse_args(argv)
    found = rows(options.peers)
    if options.write:
        day = datetime.now(tz=UTC).date().isoformat()
        (DOCS / "how-it-compares.md").write_text(page(found, day), encoding="utf-8")
    if options.json:
        return show(found, as_json=True)
    sys.stdout.write(text(found))
    return int(any(row.holds is False for row in found))


if __name__ == "__main__":
    sys.exit(run())
