"""What drivers share: health by status, metrics by name, refusals for what an engine cannot do."""

from __future__ import annotations

from collections.abc import Mapping

from cotenant.domain.running import EngineMetrics, Health, Launch
from cotenant.edge.engines.calls import call, call_json
from cotenant.edge.engines.programs import program
from cotenant.engines import find_engine
from cotenant.engines.hosting import hosting_of
from cotenant.engines.names import also_named
from cotenant.errors import EngineError
from cotenant.readers.prometheus import totals

WHOLE = ("running", "waiting", "prompt_tokens", "generated_tokens", "preemptions")


def words(launch: Launch, replaced: int = 1) -> tuple[str, ...]:
    """The engine's argument vector from typed fields, its first `replaced` words by the program as it is here."""
    engine, version = find_engine(f"{launch.engine}@{launch.version}")
    argv = engine.arguments(
        launch.settings, version=version, model_path=launch.checkpoint, port=launch.port,
        quantization=launch.quantization, served_name=launch.model, adapters=launch.adapters,
    )  # fmt: skip
    return (*program(engine.name), *also_named(argv, launch.also_serves)[replaced:])


def on_loopback(engine: str) -> tuple[str, ...]:
    """The flags with which an engine answers this machine alone."""
    return hosting_of(engine).listening("127.0.0.1")


def on_cards(launch: Launch, environment: Mapping[str, str]) -> dict[str, str]:
    """The environment, with the cards that the engine may see."""
    cards = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": ",".join(map(str, launch.devices))}
    return dict(environment) | (cards if launch.devices else {})


def health_at(url: str, path: str, *, timeout_s: float, key: str = "") -> Health:
    """200 is ready, 503 loading, anything else unwell, nothing silent."""
    try:
        status, _ = call(url, path, timeout_s=timeout_s, key=key)
    except EngineError:
        return Health.SILENT
    return {200: Health.READY, 503: Health.LOADING}.get(status, Health.UNWELL)


def version_at(url: str, path: str, field: str, *, timeout_s: float, key: str = "") -> str:
    """A text in the JSON object at a path. Raises EngineError where it is not there."""
    told = call_json(url, path, timeout_s=timeout_s, key=key)
    found = told.get(field) if isinstance(told, dict) else None
    if not isinstance(found, str) or not found:
        raise EngineError(f"{url}{path} does not say its version")
    return found


def metrics_at(
    url: str, names: Mapping[str, tuple[str, ...]], *, timeout_s: float, key: str = "", hint: str = "",
    path: str = "/metrics",
) -> EngineMetrics:  # fmt: skip
    """Fields of EngineMetrics from /metrics; each has one name or, over versions, several. Raises EngineError."""
    status, body = call(url, path, timeout_s=timeout_s, key=key)
    if status != 200:
        raise EngineError(f"{url}{path} answered {status}", hint=hint)
    found = totals(body.decode("utf-8", "replace"))
    told: dict[str, float] = {}
    for field, called in names.items():
        for name in called:
            if name in found:
                told[field] = found[name]
                break
    whole = {name: int(value) for name, value in told.items() if name in WHOLE}
    return EngineMetrics(kv_used=told.get("kv_used"), **whole)


def post(url: str, path: str, body: object = None, *, timeout_s: float, key: str = "") -> None:
    """A call that must answer 200. Raises EngineError."""
    status, found = call(url, path, method="POST", body=body, timeout_s=timeout_s, key=key)
    if status != 200:
        raise EngineError(f"{path} answered {status}: {found[:200].decode('utf-8', 'replace')}")


class EndsInOrder:
    """An engine that is asked to end: it has processes of its own, or files to put in order."""

    __slots__ = ()

    @property
    def stops_at_once(self) -> bool:
        """It does not."""
        return False


class NoSleep:
    """An engine that gives no memory back on request: it is stopped instead."""

    __slots__ = ()

    @property
    def can_sleep(self) -> bool:
        """It cannot."""
        return False

    def sleep(self, url: str, *, level: int = 1, timeout_s: float = 60.0, key: str = "") -> None:
        """Refused."""
        raise EngineError("this engine does not sleep on request", hint="it is stopped instead")

    def wake(self, url: str, *, level: int = 1, timeout_s: float = 120.0, key: str = "") -> None:
        """Refused."""
        raise EngineError("this engine does not sleep on request", hint="it is started instead")


class FixedAdapters:
    """An engine that takes LoRA adapters at start only."""

    __slots__ = ()

    def load_adapter(self, url: str, name: str, source: str, *, timeout_s: float = 60.0, key: str = "") -> None:
        """Refused."""
        raise EngineError("this engine takes adapters at start only", hint="name it in the plan's adapters")

    def unload_adapter(self, url: str, name: str, *, timeout_s: float = 60.0, key: str = "") -> None:
        """Refused."""
        raise EngineError("this engine keeps its adapters until it stops")
