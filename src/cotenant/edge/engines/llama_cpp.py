"""llama-server: its command, /health, /metrics, /slots.

It has no sleep on request (``--sleep-idle-seconds`` is its own clock): who makes room is stopped. LoRA adapters
are named at start and scaled later (/lora-adapters). Source: ggml-org/llama.cpp, tools/server/README.md.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from cotenant.domain.running import Command, EngineMetrics, Health, Launch
from cotenant.edge.engines.calls import call
from cotenant.edge.engines.programs import program
from cotenant.engines import find_engine
from cotenant.errors import EngineError
from cotenant.readers.prometheus import totals

KEY_VARIABLE = "LLAMA_API_KEY"


@dataclass(frozen=True, slots=True)
class LlamaServer:
    """The driver of llama-server."""

    name: str = "llama.cpp"
    can_sleep: bool = False

    def command(self, launch: Launch, *, key: str = "") -> Command:
        """``llama-server -m FILE ...`` on loopback, with metrics; buffers are printed at verbosity 4."""
        engine, version = find_engine(f"{launch.engine}@{launch.version}")
        words = engine.arguments(
            launch.settings, version=version, model_path=launch.checkpoint, port=launch.port,
            quantization=launch.quantization, served_name=launch.model, adapters=launch.adapters,
        )  # fmt: skip
        argv = (*program(self.name), *words[1:], "--host", "127.0.0.1", "--metrics", "-lv", "4")
        environment = {KEY_VARIABLE: key} if key else {}
        if launch.devices:
            environment["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, launch.devices))
        return Command(argv, environment)

    def health(self, url: str, *, timeout_s: float = 2.0, key: str = "") -> Health:
        """200 when the model is loaded, 503 while it loads; /health asks for no key."""
        try:
            status, _ = call(url, "/health", timeout_s=timeout_s)
        except EngineError:
            return Health.SILENT
        return {200: Health.READY, 503: Health.LOADING}.get(status, Health.UNWELL)

    def metrics(self, url: str, *, timeout_s: float = 2.0, key: str = "") -> EngineMetrics:
        """From /metrics; requests in slots from /slots where it does not say."""
        status, body = call(url, "/metrics", timeout_s=timeout_s, key=key)
        if status != 200:
            raise EngineError(f"{url}/metrics answered {status}", hint="start llama-server with --metrics")
        found = totals(body.decode("utf-8", "replace"))

        def whole(name: str) -> int | None:
            value = found.get(f"llamacpp:{name}")
            return None if value is None else int(value)

        return EngineMetrics(
            running=whole("requests_processing"),
            waiting=whole("requests_deferred"),
            kv_used=found.get("llamacpp:kv_cache_usage_ratio"),
            prompt_tokens=whole("prompt_tokens_total"),
            generated_tokens=whole("tokens_predicted_total"),
        )

    def slots(self, url: str, *, timeout_s: float = 2.0, key: str = "") -> list[dict[str, object]]:
        """Its slots as it tells them (``n_ctx``, ``is_processing``). Raises EngineError where it does not."""
        status, body = call(url, "/slots", timeout_s=timeout_s, key=key)
        try:
            found = json.loads(body)
        except (ValueError, RecursionError):
            found = None
        if status != 200 or not isinstance(found, list):
            raise EngineError(f"{url}/slots answered {status}", hint="start llama-server with --slots")
        return [one for one in found if isinstance(one, dict)]

    def sleep(self, url: str, *, level: int = 1, timeout_s: float = 60.0, key: str = "") -> None:
        """Not on request."""
        raise EngineError("llama-server does not sleep on request", hint="it is stopped instead")

    def wake(self, url: str, *, level: int = 1, timeout_s: float = 120.0, key: str = "") -> None:
        """Not on request."""
        raise EngineError("llama-server does not sleep on request", hint="it is started instead")

    def load_adapter(self, url: str, name: str, source: str, *, timeout_s: float = 60.0, key: str = "") -> None:
        """Adapters are named at start."""
        raise EngineError("llama-server takes adapters at start only", hint="name it in the plan's adapters")

    def unload_adapter(self, url: str, name: str, *, timeout_s: float = 60.0, key: str = "") -> None:
        """Adapters are named at start."""
        raise EngineError("llama-server keeps its adapters until it stops")
