"""A sign of life after a second: a spinner on a terminal, lines elsewhere."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest

from cotenant.cli.progress import waiting

_SLOW = """
import time
from cotenant.cli import progress
progress.PATIENCE_S = 0.2
with progress.waiting("Reading something"):
    time.sleep({seconds})
"""
_PIPED = """
import time
from cotenant.cli import progress
progress.PATIENCE_S, progress.EVERY_S = {patience}, 0.05
with progress.progress({options}) as tell:
    tell("reading the fleet")
    time.sleep({seconds})
    for words in {words}:
        tell(words)
        time.sleep({seconds})
"""


def shown(seconds: float) -> str:
    """What a block of so many seconds writes to a terminal."""
    leader, follower = pty.openpty()
    process = subprocess.Popen([sys.executable, "-c", _SLOW.format(seconds=seconds)], stderr=follower)
    os.close(follower)
    process.wait(30)
    os.set_blocking(leader, False)
    try:
        return os.read(leader, 65536).decode()
    except OSError:  # nothing was written
        return ""
    finally:
        os.close(leader)


def piped(
    *words: str, patience: float = 0.05, seconds: float = 0.5, options: str = "", quiet: str = ""
) -> list[str]:
    """The lines that stand on stderr where it is a pipe."""
    script = _PIPED.format(patience=patience, seconds=seconds, options=options, words=words)
    environment = os.environ | {"COTENANT_QUIET": quiet}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment)
    assert done.returncode == 0
    assert done.stdout == ""
    return done.stderr.splitlines()


def test_slow_work_is_shown_and_quick_work_is_not() -> None:
    assert "Reading something" in shown(4)  # rich is imported meanwhile, which takes a busy machine a while
    assert shown(0.0) == ""


def test_where_nobody_watches_what_is_done_is_told_in_lines() -> None:
    """Each once, however long it takes; what a terminal would obey is spelled out."""
    assert piped("packing", "packing", "a\x1b[31mb") == [
        "reading the fleet ...", "packing ...", "a\\x1b[31mb ...",
    ]  # fmt: skip


def test_quick_work_says_nothing_nor_does_what_was_told_to_be_quiet() -> None:
    assert piped("packing", patience=30, seconds=0.01) == []
    assert piped("packing", quiet="1") == []
    assert piped("packing", options="lines=False") == []


def test_a_reader_that_goes_away_stops_nothing() -> None:
    script = _PIPED.format(patience=0.05, seconds=0.3, options="", words=("packing",)) + "print('done')"
    environment = os.environ | {"COTENANT_QUIET": ""}
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stderr.close()
    assert process.stdout.read().decode().strip() == "done"
    process.stdout.close()
    process.wait(30)


def test_waiting_is_quiet_where_it_is_told(capfd: pytest.CaptureFixture[str]) -> None:
    with waiting("Reading something"):
        pass
    assert capfd.readouterr().err == ""
