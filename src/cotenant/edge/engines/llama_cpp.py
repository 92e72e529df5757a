"""llama-server: its command, /health, /metrics.

It has no sleep on request (``--sleep-idle-seconds`` is its own clock): who makes room is stopped. LoRA adapters
are named at start and scaled later (/lora-adapters). Source: ggml-org/llama.cpp, tools/server/README.md.
"""

from __future__ import annotations

from cotenant.domain.engine import Version
from cotenant.domain.running import Command, EngineMetrics, Health, Launch
from cotenant.edge.engines.plain import (
    FixedAdapters,
    NoSleep,
    health_at,
    metrics_at,
    on_cards,
    on_loopback,
    version_at,
    words,
)
from cotenant.errors import EngineError

# Pulls 16391 and 16382 (October 2025): prompts of idle slots are kept in host memory, up to 8 GiB, and states of
# sliding and recurrent layers up to 32 times a slot. Where host memory is the plan's, neither was planned.
_PROMPT_CACHE = Version((6800,))
KEY_VARIABLE = "LLAMA_API_KEY"
_METRICS = {
    "running": ("llamacpp:requests_processing",),
    "waiting": ("llamacpp:requests_deferred",),
    "kv_used": ("llamacpp:kv_cache_usage_ratio",),
    "prompt_tokens": ("llamacpp:prompt_tokens_total",),
    "generated_tokens": ("llamacpp:tokens_predicted_total",),
}


class LlamaServer(NoSleep, FixedAdapters):
    """The driver of llama-server."""

    __slots__ = ()
    name = "llama.cpp"
    figures = _METRICS

    @property
    def stops_at_once(self) -> bool:
        """It keeps nothing, and takes 0.1 to 0.2 s to end in order: more than it needs to be asked again."""
        return True

    def command(self, launch: Launch, *, key: str = "") -> Command:
        """``llama-server -m FILE ...`` on loopback, with metrics. Buffers are printed at verbosity 4, where many
        builds write whole requests and answers too (log_server_request): only a measured launch gets it."""
        argv = (*words(launch), *on_loopback(self.name), "--metrics")
        if launch.adapters:  # none is part of an answer unless its request asks for it
            argv = (*argv, "--lora-init-without-apply")
        if launch.measured:
            argv = (*argv, "-lv", "4")
        if launch.settings.works_on_host:
            argv = (*argv, "--no-repack")  # repacked for the processor, weights would be held twice
            if Version.parse(launch.version) >= _PROMPT_CACHE:
                argv = (*argv, "--cache-ram", "0", "--ctx-checkpoints", "0")
        return Command(argv, on_cards(launch, {KEY_VARIABLE: key} if key else {}))

    def health(self, url: str, *, timeout_s: float = 2.0, key: str = "") -> Health:
        """200 when the model is loaded, 503 while it loads; /health asks for no key."""
        return health_at(url, "/health", timeout_s=timeout_s)

    def version(self, url: str, *, timeout_s: float = 2.0, key: str = "") -> str:
        """The build's number, from /props: its ``build_info`` is ``b6800-abcdef0``."""
        build = version_at(url, "/props", "build_info", timeout_s=timeout_s, key=key)
        number = build.partition("-")[0].removeprefix("b")
        if not number.strip("0"):
            raise EngineError("its build has no number")
        return number

    def metrics(self, url: str, *, timeout_s: float = 2.0, key: str = "") -> EngineMetrics:
        """From /metrics, which it serves where it was started with --metrics."""
        hint = "start llama-server with --metrics"
        return metrics_at(url, _METRICS, timeout_s=timeout_s, key=key, hint=hint)
