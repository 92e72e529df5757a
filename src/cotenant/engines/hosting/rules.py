"""What an exporter must know of an engine to host it, as plain data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from cotenant.domain.engine import EngineSettings, Version
from cotenant.domain.workload import Adapter


class Beside(Protocol):
    """The rule of an engine that reads part of its settings from a file."""

    def __call__(
        self, settings: EngineSettings, model_path: str, adapters: Sequence[Adapter]
    ) -> tuple[str, str] | None:
        """(the name by which its arguments call the file, its text); None where it needs none."""


@dataclass(frozen=True, slots=True)
class AdapterRequests:
    """How a client asks a running engine for one of its LoRA adapters, all of them loaded at start; where they
    are `changed_running`, an engine that was started with some takes and drops others without a restart.

    `by_name`: the adapter's name stands where the model's would. Else `fields` gives what a request adds to the
    model's name: (number of the adapter asked for, None for the base alone; the adapters' names) -> fields.
    """

    by_name: bool = False
    fields: Callable[[int | None, Sequence[str]], Mapping[str, Any]] = lambda number, names: {}
    changed_running: bool = False


@dataclass(frozen=True, slots=True)
class Metrics:
    """Where Prometheus finds the engine's figures, and what it calls them; "" where it has none.

    `queue` is a gauge of requests that wait, `cache_use` one of the KV pool in use, 0..1, `first_token` a
    histogram of TTFT in seconds. `flags` switch the page on.
    """

    path: str = "/metrics"
    queue: str = ""
    cache_use: str = ""
    first_token: str = ""
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Hosting:
    """One engine. `image` gives the published container image of a version.

    `entry_words`: how many of the argument vector's first words the image's own entrypoint stands for; None where
    that is to be replaced by ours. `host_flag` (or a variable, from an address and a port) says on which address
    it answers; without one it answers on every interface where it is `open_unless_told`, else on loopback.
    `slots`: requests that a version takes at once where it is not told, the least over all cards. `health` answers
    2xx once the model is loaded. `probe` asks it from inside the image. `files_dir` keeps downloads between runs.
    `token`: the variable that it reads the hub's token from. `own_ports`: flags that keep two of its servers on
    one machine from each other's sockets. `after_start`: the command that makes the model known, where starting
    the server does not. `adapter_requests`: how one of several adapters is asked for; None where no request can,
    or none is known. `since`: the first release that can be told all that a plan decides; older ones are for
    estimates alone.
    """

    image: Callable[[Version], str]
    entry_words: int | None
    host_flag: str
    slots: Callable[[Version], int]
    health: str
    probe: str  # python3, curl, or the engine's own program
    files_dir: str
    token: str = "HF_TOKEN"
    metrics: Callable[[Version], Metrics | None] = lambda version: None
    listen_variables: Callable[[str, int], Mapping[str, str]] = lambda address, port: {}
    open_unless_told: bool = False
    own_ports: Callable[[Version, int], tuple[str, ...]] = lambda version, port: ()
    beside: Beside | None = None
    file_suffix: str = ""  # what the file beside it is called, after the replica's name
    after_start: Callable[[str, str], tuple[str, ...]] | None = None  # (model, file) -> words
    adapter_requests: AdapterRequests | None = None
    since: Version | None = None

    def listening(self, address: str) -> tuple[str, ...]:
        """The flags with which it answers there; none where a variable says it."""
        return (self.host_flag, address) if self.host_flag else ()


def tagged(repository: str, prefix: str = "") -> Callable[[Version], str]:
    """``repository:prefix + version``, a release written with all three of its numbers, as tags are."""

    def image(version: Version) -> str:
        text = str(version).lstrip("v~")
        if text == ".".join(map(str, version.parts)):
            text += ".0" * (3 - len(version.parts))
        return f"{repository}:{prefix}{text}"

    return image
