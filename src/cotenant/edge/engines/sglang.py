"""SGLang: adapters at run time, metrics where they are switched on.

Its release_memory_occupation needs a server that was started with a memory saver, and is not used here: who makes
room is stopped. Its key can only be given on the command line (--api-key), where others would see it: it gets
none, and listens on loopback. Source: sgl-project/sglang, python/sglang/srt/entrypoints/http_server.py,
server_args.py.
"""

from __future__ import annotations

from cotenant.domain.running import Command, EngineMetrics, Health, Launch
from cotenant.edge.engines.plain import (
    EndsInOrder,
    NoSleep,
    health_at,
    metrics_at,
    on_cards,
    on_loopback,
    post,
    version_at,
    words,
)

_METRICS = {
    "running": ("sglang:num_running_reqs",),
    "waiting": ("sglang:num_queue_reqs",),
    "kv_used": ("sglang:token_usage",),
    "prompt_tokens": ("sglang:prompt_tokens_total",),
    "generated_tokens": ("sglang:generation_tokens_total",),
    "preemptions": ("sglang:num_retracted_reqs",),
}


class Sglang(EndsInOrder, NoSleep):
    """The driver of SGLang's server."""

    __slots__ = ()
    name = "sglang"

    def command(self, launch: Launch, *, key: str = "") -> Command:
        """``python3 -m sglang.launch_server ...`` on loopback, with metrics."""
        return Command((*words(launch), *on_loopback(self.name), "--enable-metrics"), on_cards(launch, {}))

    def health(self, url: str, *, timeout_s: float = 2.0, key: str = "") -> Health:
        """200 once it serves, 503 while it starts."""
        return health_at(url, "/health", timeout_s=timeout_s)

    def version(self, url: str, *, timeout_s: float = 2.0, key: str = "") -> str:
        """From /get_server_info, which later releases keep beside /server_info."""
        return version_at(url, "/get_server_info", "version", timeout_s=timeout_s, key=key)

    def metrics(self, url: str, *, timeout_s: float = 2.0, key: str = "") -> EngineMetrics:
        """From /metrics."""
        return metrics_at(url, _METRICS, timeout_s=timeout_s, hint="start it with --enable-metrics")

    def load_adapter(self, url: str, name: str, source: str, *, timeout_s: float = 60.0, key: str = "") -> None:
        """/load_lora_adapter."""
        post(url, "/load_lora_adapter", {"lora_name": name, "lora_path": source}, timeout_s=timeout_s)

    def unload_adapter(self, url: str, name: str, *, timeout_s: float = 60.0, key: str = "") -> None:
        """/unload_lora_adapter."""
        post(url, "/unload_lora_adapter", {"lora_name": name}, timeout_s=timeout_s)
