"""What a campaign asks of the world: engines, their memory, a load, a clock, a journal. The edge answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from cotenant.domain.measurement import Measurement
from cotenant.domain.verification import Ask, Reading, Reply

Stop = Callable[[Reading, Sequence[Reply]], str]
"""Why a load must end now, from the newest reading and the replies so far; "" to go on."""


class Engine(Protocol):
    """One replica's engine, started by us or running already."""

    @property
    def ours(self) -> bool:
        """Whether we started it, and stop it."""

    def start(self) -> None:
        """Until it serves; nothing where it does. Raises EngineError, InputError."""

    def stop(self) -> None:
        """Only what we started."""

    def reading(self) -> Reading:
        """What it holds now."""

    def log(self) -> Measurement | None:
        """What it printed about its memory, where its log is at hand."""


class Load(Protocol):
    """Requests to engines."""

    def uniform(self) -> float:
        """The next draw of its seed, from [0, 1)."""

    def send(
        self, asks: Sequence[Ask], *, concurrency: Mapping[str, int], stop: Stop
    ) -> tuple[tuple[Reply, ...], tuple[tuple[str, Reading], ...], str]:
        """Send them, at most so many of each replica at once; (replies, readings taken meanwhile by replica, why
        it was stopped)."""


class Journal(Protocol):
    """What was done already, for a campaign that broke off."""

    def get(self, key: str) -> Any:
        """What `put` kept under that key; None where nothing was."""

    def put(self, key: str, value: Any) -> None:
        """Keep it before the next step begins."""
