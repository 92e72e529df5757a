"""The page's server as a process of its own, and a client of it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

from bench.table import CannotRunError


@contextmanager
def server(*options: str) -> Iterator[str]:
    """`cotenant ui` as a process of its own; its address. It must end by itself after SIGTERM."""
    command = [sys.executable, "-m", "cotenant", "ui", "--port", "0", "--json", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        if process.stdout is None:
            raise CannotRunError("the server has no stdout")
        lines: list[str] = []
        while not lines or lines[-1] != "}\n":
            lines.append(process.stdout.readline())
            if not lines[-1]:
                raise CannotRunError("the server did not start")
        yield json.loads("".join(lines))["url"]
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(20)


def ask(url: str, value: object = None, *, method: str | None = None) -> bytes:
    """The body of an answer, whatever its status."""
    data = None if value is None else json.dumps(value).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=300) as answer:
            found: bytes = answer.read()
    except urllib.error.HTTPError as error:
        found = error.read()
    return found


def planned(url: str, fleet: object) -> bytes:
    """A plan over HTTP: the bytes of its result."""
    job = json.loads(ask(f"{url}/api/plan", {"fleet": fleet}))["job"]
    while json.loads(ask(f"{url}/api/jobs/{job}"))["state"] in ("waiting", "running"):
        time.sleep(0.02)
    return ask(f"{url}/api/jobs/{job}/result")
