"""A sign of life after a second, on a terminal only."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import time

import pytest

from cotenant.cli.progress import waiting

_SLOW = """
import time
from cotenant.cli import progress
progress.PATIENCE_S = 0.2
with progress.waiting("Reading something"):
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


def test_slow_work_is_shown_and_quick_work_is_not() -> None:
    assert "Reading something" in shown(4)  # rich is imported meanwhile, which takes a busy machine a while
    assert shown(0.0) == ""


def test_no_terminal_no_words(capfd: pytest.CaptureFixture[str]) -> None:
    with waiting("Reading something"):
        time.sleep(0.01)
    assert capfd.readouterr().err == ""
