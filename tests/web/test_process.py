"""`cotenant ui` as a process: it says where it is, and ends when it is told to, with all that it started."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from tests.web.test_jobs import LONG

COMMAND = (sys.executable, "-m", "cotenant", "ui")


@contextmanager
def started(*options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    process = subprocess.Popen([*COMMAND, *options], stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        yield process, process.stderr.readline()
    finally:
        process.kill()
        process.communicate()


def ask(url: str, value: object = None) -> dict[str, object]:
    data = None if value is None else json.dumps(value).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        found: dict[str, object] = json.load(answer)
    return found


def test_it_ends_with_all_that_it_started() -> None:
    with started("--port", "0") as (process, line):
        assert line.startswith("the page is at http://127.0.0.1:")
        url = line.split()[4].rstrip("/")
        job = ask(f"{url}/api/simulate", LONG)["job"]
        while not ask(f"{url}/api/jobs/{job}")["progress"]:
            time.sleep(0.1)
        workers = psutil.Process(process.pid).children(recursive=True)
        assert workers
        process.send_signal(signal.SIGTERM)
        assert process.wait(15) == 0
        _, alive = psutil.wait_procs(workers, timeout=5)
        assert alive == []


def test_a_server_that_is_killed_leaves_no_worker() -> None:
    with started("--port", "0") as (process, line):
        url = line.split()[4].rstrip("/")
        job = ask(f"{url}/api/simulate", LONG)["job"]
        while not ask(f"{url}/api/jobs/{job}")["progress"]:
            time.sleep(0.1)
        workers = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        process.wait()
        _, alive = psutil.wait_procs(workers, timeout=10)
        assert alive == []


def test_a_port_that_is_taken_is_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        found = subprocess.run(
            [*COMMAND, "--port", str(taken.getsockname()[1])],
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
        )
    assert found.returncode == 1
    assert "cannot listen on 127.0.0.1:" in found.stderr


def test_without_the_extra_it_says_what_to_install(tmp_path: Path) -> None:
    """As in an installation without the extra: fastapi cannot be imported there."""
    (tmp_path / "fastapi.py").write_text("raise ImportError('no fastapi', name='fastapi')\n")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    found = subprocess.run([*COMMAND, "--dry-run"], capture_output=True, text=True, check=False, env=environment)
    assert found.returncode == 1
    assert "the page needs fastapi" in found.stderr
    assert "pip install '.[ui]' in the clone" in found.stderr


def test_an_address_that_is_no_gateway_is_refused() -> None:
    for address in ("ftp://x", "http://a/b?c", "/etc/passwd", "http://user:secret@host"):
        found = subprocess.run(
            [*COMMAND, "--port", "0", "--gateway", address],
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
        )
        assert found.returncode == 1
        assert "is not the address of a gateway" in found.stderr
