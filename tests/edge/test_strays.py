"""Engines that a killed gateway started and never wrote down."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cotenant.domain.running import Command
from cotenant.edge.engines import processes
from cotenant.edge.engines.strays import strays

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
SLEEP = (sys.executable, "-c", "import time; time.sleep(60)")


def test_only_who_leads_a_session_and_writes_into_our_logs_is_a_stray(tmp_path: Path) -> None:
    logs = tmp_path / "state" / "logs"
    engine = processes.launch(Command(SLEEP), url="http://127.0.0.1:1", log=logs / "a.log")
    other = processes.launch(Command(SLEEP), url="http://127.0.0.1:2", log=tmp_path / "state" / "logs.txt")
    with (logs / "a.log").open("a") as log:  # somebody who writes there too, in our own session
        reader = subprocess.Popen(SLEEP, stdout=log, stderr=log)
    try:
        (found,) = strays(logs, known=())
        assert (found.pid, found.started, found.argv[-1]) == (engine.pid, engine.started, SLEEP[-1])
        assert strays(logs, known={engine.pid}) == []
        assert processes.stop(found)
        assert strays(logs, known=()) == []
        assert processes.alive(other)
    finally:
        reader.kill()
        reader.wait()
        processes.stop(other)
        processes.stop(engine)


def test_a_folder_that_is_not_there_has_no_strays(tmp_path: Path) -> None:
    assert strays(tmp_path / "none", known=()) == []
