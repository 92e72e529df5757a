"""What the router wants done. Replies come back as events; a lost one is missed by a timer."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Start:
    """Start replica number `replica`; `generation` counts its processes."""

    replica: int
    generation: int


@dataclass(slots=True)
class Stop:
    """End the process of that generation (`kill`: at once); say `down` when it is gone."""

    replica: int
    generation: int
    kill: bool


@dataclass(slots=True)
class Sleep:
    """Free its memory; say `slept`."""

    replica: int
    generation: int


@dataclass(slots=True)
class Wake:
    """Bring it back and check one answer; say `up` or `failed`."""

    replica: int
    generation: int


@dataclass(slots=True)
class Probe:
    """Ask whether it is well; say `up` or `failed`."""

    replica: int
    generation: int


@dataclass(slots=True)
class Send:
    """Give the request to the engine."""

    request: int
    replica: int
    generation: int


@dataclass(slots=True)
class Cancel:
    """Take the request back from the engine; nothing more is to be said about it. `preempted`: a higher priority
    takes its slot, and it waits again."""

    request: int
    replica: int
    generation: int
    preempted: bool = False


@dataclass(slots=True)
class Refuse:
    """Answer the client with an error. `begun`: bytes of an answer were sent already, so it ends with an error in
    the stream. `retry_after_s` where coming again makes sense."""

    request: int
    status: int
    code: str
    message: str
    retry_after_s: int | None = None
    begun: bool = False


Effect = Start | Stop | Sleep | Wake | Probe | Send | Cancel | Refuse
