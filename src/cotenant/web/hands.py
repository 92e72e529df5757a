"""One worker process, seen from the server: asked one question at a time, and killed where that is not wanted."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

_LONGEST_LINE = 256 * 2**20  # bytes of one answer
_DIED = {
    "errors": [
        {
            "error": "the worker ended before it answered: out of memory, most likely",
            "hint": "ask for less, or start cotenant ui with a larger --job-memory",
            "path": "",
        }
    ]
}


class Hand:
    """A worker that is started when it is first needed, and anew after a kill or `most_jobs` questions."""

    def __init__(self, most_bytes: int, *, most_jobs: int = 50) -> None:
        self._most_bytes, self._most_jobs, self._answered = most_bytes, most_jobs, 0
        self._process: Process | None = None

    async def ask(self, question: bytes, tell: Callable[[Mapping[str, Any]], None]) -> dict[str, Any]:
        """{"result": text} or {"errors": [...]} for a pickled (kind, asked, known).

        Cancelled, it leaves no process behind that works on.
        """
        try:
            questions, answers = await self._running()
            questions.write(question)
            await questions.drain()
            while line := await answers.readline():
                told: dict[str, Any] = json.loads(line)
                if "progress" not in told:
                    await self._count()
                    return told
                tell(told["progress"])
            await self.end()
        except (ConnectionError, ValueError):
            await self.end()
        except asyncio.CancelledError:
            await self.end()
            raise
        return _DIED

    async def _running(self) -> tuple[asyncio.StreamWriter, asyncio.StreamReader]:
        """Where it is asked, and where it answers."""
        process = self._process
        if process is None or process.returncode is not None:
            process = self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "cotenant.web.worker", str(self._most_bytes),
                stdin=PIPE, stdout=PIPE, stderr=DEVNULL, limit=_LONGEST_LINE,
            )  # fmt: skip
        if process.stdin is None or process.stdout is None:
            raise ConnectionError("a worker without pipes")
        return process.stdin, process.stdout

    async def _count(self) -> None:
        self._answered += 1
        if self._answered >= self._most_jobs:
            await self.end()

    async def end(self) -> None:
        """Kill the process, if there is one, and wait until it is gone."""
        process, self._process, self._answered = self._process, None, 0
        if process is not None and process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
