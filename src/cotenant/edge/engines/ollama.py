"""Ollama: one server process a replica, its model loaded and unloaded by requests.

``ollama serve`` takes its address from OLLAMA_HOST and knows no keys; a model is loaded by an empty request that
keeps it for ever (keep_alive -1) and unloaded by one that keeps it for no time (0). It tells no metrics but what
is loaded (/api/ps). Source: ollama/ollama, docs/api.md, docs/faq.md.
"""

from __future__ import annotations

from cotenant.domain.running import Command, EngineMetrics, Health, Launch
from cotenant.edge.engines.calls import call_json
from cotenant.edge.engines.plain import EndsInOrder, FixedAdapters, health_at, on_cards, post, version_at
from cotenant.edge.engines.programs import program
from cotenant.errors import EngineError


class Ollama(EndsInOrder, FixedAdapters):
    """The driver of Ollama's server."""

    __slots__ = ()
    name = "ollama"
    can_sleep = False  # a whole process a replica: who makes room is stopped

    def command(self, launch: Launch, *, key: str = "") -> Command:
        """``ollama serve`` with its address, slots and context by environment."""
        options = launch.settings.llama_cpp
        environment = {"OLLAMA_HOST": f"127.0.0.1:{launch.port}", "OLLAMA_KEEP_ALIVE": "-1"}
        if options is not None and options.n_parallel:
            environment["OLLAMA_NUM_PARALLEL"] = str(options.n_parallel)
        if options is not None and options.n_ctx_slot:
            environment["OLLAMA_CONTEXT_LENGTH"] = str(options.n_ctx_slot)
        if options is not None and options.type_k != "f16":
            environment["OLLAMA_KV_CACHE_TYPE"] = options.type_k
        return Command((*program(self.name), "serve"), on_cards(launch, environment))

    def health(self, url: str, *, timeout_s: float = 2.0, key: str = "") -> Health:
        """The server's own; models load at their first request."""
        return health_at(url, "/api/version", timeout_s=timeout_s)

    def version(self, url: str, *, timeout_s: float = 2.0, key: str = "") -> str:
        """From /api/version."""
        return version_at(url, "/api/version", "version", timeout_s=timeout_s)

    def metrics(self, url: str, *, timeout_s: float = 2.0, key: str = "") -> EngineMetrics:
        """It counts nothing."""
        raise EngineError("Ollama has no metrics")

    def loaded(self, url: str, *, timeout_s: float = 2.0) -> dict[str, int]:
        """Bytes in card memory of each model that is loaded. Raises EngineError."""
        told = call_json(url, "/api/ps", timeout_s=timeout_s)
        models = told.get("models") if isinstance(told, dict) else None
        if not isinstance(models, list):
            raise EngineError(f"{url}/api/ps does not list models")
        return {str(one.get("name")): int(one.get("size_vram") or 0) for one in models if isinstance(one, dict)}

    def sleep(self, url: str, *, level: int = 1, timeout_s: float = 60.0, key: str = "") -> None:
        """Unload every model."""
        for name in self.loaded(url, timeout_s=timeout_s):
            post(url, "/api/generate", {"model": name, "keep_alive": 0}, timeout_s=timeout_s)

    def wake(self, url: str, *, level: int = 1, timeout_s: float = 120.0, key: str = "") -> None:
        """Its next request loads the model."""
        if self.health(url) is not Health.READY:
            raise EngineError("Ollama does not answer")
