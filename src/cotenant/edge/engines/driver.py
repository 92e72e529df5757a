"""What every engine driver can do. All calls block and give up by themselves; an event loop asks in a thread."""

from __future__ import annotations

from typing import Protocol

from cotenant.domain.running import Command, EngineMetrics, Health, Launch


class Driver(Protocol):
    """One engine's own words over HTTP, and its command line. It keeps no state: a URL says which engine."""

    @property
    def name(self) -> str:
        """The engine's id."""

    @property
    def can_sleep(self) -> bool:
        """Whether the engine frees its memory on request and comes back faster than it starts."""

    @property
    def stops_at_once(self) -> bool:
        """Whether an orderly end would save nothing: once idle it may be killed, and is gone sooner."""

    def command(self, launch: Launch, *, key: str = "") -> Command:
        """How the engine is started. Raises InputError where its program is missing or too old."""

    def health(self, url: str, *, timeout_s: float = 2.0, key: str = "") -> Health:
        """How it is just now."""

    def version(self, url: str, *, timeout_s: float = 2.0, key: str = "") -> str:
        """What it says it is, as its releases are numbered. Raises EngineError where it does not say."""

    def metrics(self, url: str, *, timeout_s: float = 2.0, key: str = "") -> EngineMetrics:
        """Its own figures. Raises EngineError where it does not answer."""

    def sleep(self, url: str, *, level: int = 1, timeout_s: float = 60.0, key: str = "") -> None:
        """Free its memory. Raises EngineError where it cannot or does not."""

    def wake(self, url: str, *, level: int = 1, timeout_s: float = 120.0, key: str = "") -> None:
        """Come back. Raises EngineError where it cannot or does not."""

    def load_adapter(self, url: str, name: str, source: str, *, timeout_s: float = 60.0, key: str = "") -> None:
        """Serve a LoRA adapter under `name`. Raises EngineError where it cannot or does not."""

    def unload_adapter(self, url: str, name: str, *, timeout_s: float = 60.0, key: str = "") -> None:
        """Stop serving it. Raises EngineError where it cannot or does not."""
