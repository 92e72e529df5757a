"""One worker process, seen from the server: asked one question at a time, and killed where that is not wanted."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from cotenant.web.outcomes import BUSY, TOO_MUCH, died, failed

_LONGEST_LINE = 256 * 2**20  # bytes of one answer
_GONE_S = 1.0  # how long a worker that closed its pipes may take to end


class Hand:
    """A worker that is started when it is first needed, and anew after a kill, after `most_jobs` questions (None:
    as many as come) or where it ran out of memory. `nice`: how far it stands behind the server itself."""

    def __init__(self, most_bytes: int, *, most_jobs: int | None = 50, nice: int = 10) -> None:
        self._most_bytes, self._most_jobs, self._nice, self._answered = most_bytes, most_jobs, nice, 0
        self._process: Process | None = None
        self._folder: str | None = None

    async def ask(self, question: bytes, tell: Callable[[Mapping[str, Any]], None]) -> Mapping[str, Any]:
        """{"result": text} or {"status", "errors"} for a pickled (kind, asked, known).

        Cancelled, it leaves no process behind that works on.
        """
        try:
            questions, answers = await self._running()
        except (OSError, ValueError) as error:
            await self.end()
            reason = getattr(error, "strerror", None) or type(error).__name__
            return failed(BUSY, f"no worker could be started: {reason}", "try again in a few seconds")
        try:
            questions.write(question)
            await questions.drain()
            while line := await answers.readline():
                told: dict[str, Any] = json.loads(line)
                if "progress" not in told:
                    await self._count(told)
                    return told
                tell(told["progress"])
        except (ConnectionError, ValueError):
            pass  # told below
        except asyncio.CancelledError:
            await self.end()
            raise
        return died(await self._code())

    async def _running(self) -> tuple[asyncio.StreamWriter, asyncio.StreamReader]:
        """Where it is asked, and where it answers."""
        process = self._process
        if process is None or process.returncode is not None:
            self._clear()
            self._folder = tempfile.mkdtemp(prefix="cotenant-ui-")
            process = self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "cotenant.web.worker", str(self._most_bytes), str(self._nice), self._folder,
                stdin=PIPE, stdout=PIPE, limit=_LONGEST_LINE,
            )  # fmt: skip
        if process.stdin is None or process.stdout is None:
            raise ConnectionError("a worker without pipes")
        return process.stdin, process.stdout

    async def _count(self, told: Mapping[str, Any]) -> None:
        self._answered += 1
        worn = self._most_jobs is not None and self._answered >= self._most_jobs
        if worn or told.get("status") == TOO_MUCH:
            await self.end()

    async def _code(self) -> int | None:
        """How the process ended, which no longer answers."""
        process = self._process
        if process is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(_GONE_S):
                    await process.wait()
        code = None if process is None else process.returncode
        await self.end()
        return code

    async def end(self) -> None:
        """Kill the process, if there is one, and wait until it is gone."""
        process, self._process, self._answered = self._process, None, 0
        if process is not None and process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        self._clear()

    def _clear(self) -> None:
        """Its folder is empty: a process that is killed cannot take it along itself."""
        folder, self._folder = self._folder, None
        if folder is not None:
            with suppress(OSError):
                os.rmdir(folder)
