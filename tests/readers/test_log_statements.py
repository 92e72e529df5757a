"""Every statement of the table is found by its needle and read to its last digit."""

from __future__ import annotations

import pytest

from cotenant.readers.logs.blocks import Counts, lines_of_interest
from cotenant.readers.logs.prefixes import entries
from cotenant.readers.logs.runs import Run, Runs
from tests.readers.log_statements import STATEMENTS, Statement


def _run(statement: Statement) -> Run:
    runs = Runs()
    for line in lines_of_interest([f"{statement.line}\n".encode()], runs.needles, Counts()):
        for entry in entries(line.number, line.text):
            runs.feed(entry)
    (found,) = (run for run in runs.runs if run.figures or run.failures)
    return found


@pytest.mark.parametrize("statement", STATEMENTS, ids=[f"{s.engine} {s.releases}" for s in STATEMENTS])
def test_a_statement_is_read(statement: Statement) -> None:
    run = _run(statement)
    read = {figure.name: figure.value for figure in run.figures}
    for failure in run.failures:
        read |= failure.figures
    if statement.engine == "ollama":  # the server's words, which count where its runner printed none
        read |= {name.removeprefix("ollama_"): value for name, value in read.items()}
    read |= {name: value for name, value in run.settings.items() if not isinstance(value, str)}
    assert {name: read.get(name) for name in statement.figures} == pytest.approx(statement.figures)
    assert statement.failure in [failure.kind for failure in run.failures] or not statement.failure
    assert run.engine == statement.engine
