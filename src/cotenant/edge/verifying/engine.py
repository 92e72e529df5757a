"""An engine of the plan under measurement: started and stopped by us, or running already at a URL."""

from __future__ import annotations

import contextlib
import re
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

from cotenant.domain.measurement import Measurement
from cotenant.domain.running import EngineProcess, Health, Launch
from cotenant.domain.verification import Reading
from cotenant.edge.engines import find_driver, processes
from cotenant.edge.engines.installed import check_program
from cotenant.edge.logs import log_chunks
from cotenant.edge.verifying.pages import file_pages
from cotenant.errors import CotenantError, EngineError
from cotenant.readers.logs import read_log

DeviceBytes = Callable[[int], int | None]
"""Bytes that a process and its children hold on the fullest of their cards, by pid; None where nothing tells."""


class LiveEngine:
    """One replica. `log` is where its output goes (ours) or is read from (not ours; None: nowhere)."""

    def __init__(
        self, launch: Launch, *, log: Path | None, device_bytes: DeviceBytes, pid: int | None = None,
        start_s: float = 900.0, key: str = "",
    ) -> None:  # fmt: skip
        self.launch, self.log_path, self.device_bytes, self.start_s = launch, log, device_bytes, start_s
        self.driver = find_driver(launch.engine)
        self.url = launch.url or f"http://127.0.0.1:{launch.port}"
        self.pid, self.key = pid, key
        self.process: EngineProcess | None = None
        self._log_from = 0

    @property
    def ours(self) -> bool:
        """Whether we started it, and stop it."""
        return not self.launch.url

    def start(self) -> None:
        """Until it is ready. Raises EngineError where it does not come up, InputError where it cannot be run."""
        if self.ours and not self._runs():
            self._launch()
        end = time.monotonic() + self.start_s
        while (health := self.driver.health(self.url, key=self.key)) is not Health.READY:
            if self.ours and not self._runs():
                raise EngineError(f"{self.launch.id} {self._end()} while it started", hint=_hint(self.log_path))
            if not self.ours and health is Health.SILENT and time.monotonic() > end - self.start_s + 10:
                raise EngineError(
                    f"nothing answers at {self.url}",
                    hint=f"start {self.launch.id}, or say where it runs: --url {self.launch.id}=http://...",
                )
            if time.monotonic() > end:
                raise EngineError(f"{self.launch.id} is {health} after {self.start_s:.0f} s")
            time.sleep(0.05)

    def stop(self) -> None:
        """Only what we started."""
        if isinstance(self.process, EngineProcess):
            processes.stop(self.process)
            self.process = None

    def reading(self) -> Reading:
        """What it holds now; figures that nothing tells are left out."""
        pid = self.process.pid if isinstance(self.process, EngineProcess) else self.pid
        anonymous = file = model = shared = 0
        device = None
        if pid is not None:
            with contextlib.suppress(EngineError):
                held = processes.memory(EngineProcess(pid, processes.start_of(pid) or "", (), self.url, ""))
                anonymous, file = held.anonymous_bytes, held.file_bytes + held.shared_bytes
            model, shared = file_pages(pid, self.launch.checkpoint)
            device = self.device_bytes(pid)
        told: dict[str, float | int | None] = {}
        with contextlib.suppress(EngineError):
            figures = self.driver.metrics(self.url, timeout_s=5.0, key=self.key)
            told = {
                name: getattr(figures, name) for name in ("kv_used", "running", "waiting", "preemptions")
            }  # fmt: skip
        return Reading(
            time.monotonic(), anonymous, file, model, shared, device,
            kv_used=told.get("kv_used"),
            running=_whole(told.get("running")), waiting=_whole(told.get("waiting")),
            preemptions=_whole(told.get("preemptions")),
        )  # fmt: skip

    def log(self) -> Measurement | None:
        """What it printed about its memory; None where its log is not at hand or says nothing."""
        if self.log_path is None:
            return None
        with contextlib.suppress(CotenantError, OSError):
            name, _, chunks = log_chunks(self.log_path)
            return read_log(_after(chunks, self._log_from), name=name).measurements[-1]
        return None

    def _launch(self) -> None:
        port = urlsplit(self.url).port
        if self.driver.health(self.url, timeout_s=0.5) is not Health.SILENT:
            raise EngineError(
                f"port {port} is taken: something answers at {self.url}",
                hint=f"stop it, or measure it as it is: --url {self.launch.id}={self.url}",
            )
        check_program(self.launch.engine)
        log = self.log_path or Path("engine.log")
        self._log_from = log.stat().st_size if log.exists() else 0
        self.process = processes.launch(self.driver.command(self.launch), url=self.url, log=log)

    def _end(self) -> str:
        """How it ended: a kill that nobody here sent is the kernel's, for want of memory, more often than not."""
        status = None if self.process is None else processes.exit_status(self.process)
        if status == -signal.SIGKILL:
            return "was killed (as the kernel does where memory runs out)"
        return "ended" if status is None else f"ended with status {status}"

    def _runs(self) -> bool:
        return isinstance(self.process, EngineProcess) and processes.alive(self.process)


def _whole(value: float | int | None) -> int | None:
    return None if value is None else int(value)


def _hint(log: Path | None) -> str:
    if log is None or not log.exists():
        return ""
    lines = log.read_bytes()[-4000:].decode("utf-8", "replace").splitlines()
    wrong = [line for line in lines if re.search(r"error|fail|unable|out of memory|E ", line, re.IGNORECASE)]
    return f"see {log}: {(wrong or lines or [''])[-1].strip()[:200]}"


def _after(chunks: Iterator[bytes], start: int) -> Iterator[bytes]:
    for chunk in chunks:
        if start >= len(chunk):
            start -= len(chunk)
            continue
        yield chunk[start:]
        start = 0


def version_of(url: str, engine: str, *, timeout_s: float = 5.0, key: str = "") -> str | None:
    """The version that a running engine tells over HTTP; None where it tells none."""
    with contextlib.suppress(CotenantError):
        return find_driver(engine).version(url, timeout_s=timeout_s, key=key)
    return None
