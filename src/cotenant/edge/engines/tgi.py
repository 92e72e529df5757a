"""Text Generation Inference: no sleep, adapters at start, metrics by its own names.

It gets no key: its launcher reads one from API_KEY, and hands it to the router's command line, where others see it
(launcher/src/main.rs). It listens on loopback. Other source: router/src/server.rs (/health, /info, /metrics, /v1).
"""

from __future__ import annotations

from cotenant.domain.running import Command, EngineMetrics, Health, Launch
from cotenant.edge.engines.plain import (
    EndsInOrder,
    FixedAdapters,
    NoSleep,
    health_at,
    metrics_at,
    on_cards,
    on_loopback,
    version_at,
    words,
)

_METRICS = {
    "running": ("tgi_batch_current_size",),
    "waiting": ("tgi_queue_size",),
    "prompt_tokens": ("tgi_request_input_length_sum",),
    "generated_tokens": ("tgi_request_generated_tokens_sum",),
}


class Tgi(EndsInOrder, NoSleep, FixedAdapters):
    """The driver of TGI's launcher and router."""

    __slots__ = ()
    name = "tgi"

    def command(self, launch: Launch, *, key: str = "") -> Command:
        """``text-generation-launcher ...`` on loopback."""
        argv = (*words(launch), *on_loopback(self.name))
        return Command(argv, on_cards(launch, {}))

    def health(self, url: str, *, timeout_s: float = 2.0, key: str = "") -> Health:
        """200 once the shards answer, 503 before."""
        return health_at(url, "/health", timeout_s=timeout_s)

    def version(self, url: str, *, timeout_s: float = 2.0, key: str = "") -> str:
        """From /info."""
        return version_at(url, "/info", "version", timeout_s=timeout_s, key=key)

    def metrics(self, url: str, *, timeout_s: float = 2.0, key: str = "") -> EngineMetrics:
        """From /metrics; a share of its pool it does not tell."""
        return metrics_at(url, _METRICS, timeout_s=timeout_s, key=key)
