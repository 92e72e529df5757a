"""Processes that help end with the one that they help, also where that one is killed and can say nothing."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

HELPED = """
import time
from cotenant.edge.apart import each_apart
from cotenant.edge.crews import crew_of
from cotenant.edge.deadline import within

def long(seconds=600):
    print("at it", flush=True)
    time.sleep(seconds)

if __name__ == "__main__":
    {call}
"""


@pytest.mark.parametrize(
    "call",
    [
        "list(each_apart(long, [600] * 4, workers=2))",
        "with crew_of(2) as crew: list(crew.each(long, [600] * 4))",
        "within(600.0, long)",
    ],
)
def test_nobody_works_on_for_one_that_was_killed(call: str, tmp_path: Path) -> None:
    script = tmp_path / "helped.py"
    script.write_text(HELPED.format(call=call))
    helped = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE)
    assert helped.stdout is not None
    helped.stdout.readline()
    children = psutil.Process(helped.pid).children(recursive=True)
    assert children
    helped.kill()
    helped.wait()
    helped.stdout.close()
    late = time.monotonic() + 60
    while any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in children):
        assert time.monotonic() < late, children
        time.sleep(0.05)
