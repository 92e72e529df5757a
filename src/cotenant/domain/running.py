"""Engines that run: the process, its memory, its health and what its metrics say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from cotenant.domain.engine import EngineSettings
from cotenant.domain.workload import Adapter


class Health(StrEnum):
    """What an engine answers when it is asked how it is."""

    LOADING = "loading"
    READY = "ready"
    ASLEEP = "asleep"
    UNWELL = "unwell"  # it answers, and says that it cannot serve
    SILENT = "silent"  # nothing answers in time


@dataclass(frozen=True, slots=True)
class Launch:
    """One replica as it is told to its engine: typed fields from which the command is built, never a text.

    `devices` are indices of cards as the engine's driver numbers them; none for an engine on the CPU. `url` is set
    where the engine is not ours to start. `quantization` is what the engine's own flag says, if anything.
    """

    id: str
    model: str  # the name that clients ask for
    engine: str
    version: str
    checkpoint: str  # what the engine loads: a path or a hub id
    settings: EngineSettings
    port: int
    quantization: str = ""
    adapters: tuple[Adapter, ...] = ()
    devices: tuple[int, ...] = ()
    url: str = ""
    sleep_level: int = 0  # how it gives memory back: vLLM's levels; 0: it is stopped
    also_serves: tuple[str, ...] = ()  # further names that clients may ask for
    measured: bool = False  # whether its log is read for what it holds; such a log may hold prompts too
    priorities: bool = False  # whether requests come with priorities, which the engine is to follow where it can


@dataclass(frozen=True, slots=True)
class Command:
    """An argument vector, run without a shell, and what is added to its environment (secrets go here)."""

    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EngineProcess:
    """A process that we started. `started` names the moment in the kernel's own count, so that a process which
    was given the same pid later is not taken for it."""

    pid: int
    started: str
    argv: tuple[str, ...]
    url: str
    log: str


@dataclass(frozen=True, slots=True)
class ProcessMemory:
    """Resident bytes of a process and its children, as the kernel counts them."""

    anonymous_bytes: int
    file_bytes: int
    shared_bytes: int
    peak_bytes: int

    @property
    def resident_bytes(self) -> int:
        """All that is resident."""
        return self.anonymous_bytes + self.file_bytes + self.shared_bytes


@dataclass(frozen=True, slots=True)
class EngineMetrics:
    """An engine's own figures; None where it does not tell. `kv_used` is a share 0..1 of its pool; the last
    three count since it started."""

    running: int | None = None
    waiting: int | None = None
    kv_used: float | None = None
    prompt_tokens: int | None = None
    generated_tokens: int | None = None
    preemptions: int | None = None
