"""vLLM: sleep levels, LoRA at run time, metrics.

Sleep needs ``--enable-sleep-mode`` and VLLM_SERVER_DEV_MODE=1, whose endpoints ask for no key in most releases
(they are on loopback). Level 1 keeps weights in host memory; level 2 drops them, and to wake they are read
again and the prefix cache reset (blog.vllm.ai, 2025-10-26: wake the weights, reload_weights, wake the cache).
Sources: vllm/entrypoints (api_server, serve/sleep, serve/lora), vllm/v1/metrics/loggers.py.
"""

from __future__ import annotations

from cotenant.domain.engine import Version
from cotenant.domain.running import Command, EngineMetrics, Health, Launch
from cotenant.edge.engines.calls import call_json
from cotenant.edge.engines.plain import (
    EndsInOrder,
    health_at,
    metrics_at,
    on_cards,
    on_loopback,
    post,
    version_at,
    words,
)
from cotenant.engines.vllm.arguments import priority_flags
from cotenant.errors import EngineError

_METRICS = {
    "running": ("vllm:num_requests_running",),
    "waiting": ("vllm:num_requests_waiting",),
    "kv_used": ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
    "prompt_tokens": ("vllm:prompt_tokens_total",),
    "generated_tokens": ("vllm:generation_tokens_total",),
    "preemptions": ("vllm:num_preemptions_total",),
}


class Vllm(EndsInOrder):
    """The driver of vLLM's OpenAI server."""

    __slots__ = ()
    name = "vllm"
    can_sleep = True

    def command(self, launch: Launch, *, key: str = "") -> Command:
        """``vllm serve MODEL ...`` on loopback; its key by environment."""
        environment = {"VLLM_API_KEY": key} if key else {}
        argv = words(launch)
        if launch.sleep_level:
            environment["VLLM_SERVER_DEV_MODE"] = "1"
            argv = argv if "--enable-sleep-mode" in argv else (*argv, "--enable-sleep-mode")
        if self.follows_priorities(launch):
            argv = (*argv, *priority_flags(Version.parse(launch.version).parts))
        if launch.adapters:
            environment["VLLM_ALLOW_RUNTIME_LORA_UPDATING"] = "True"
        return Command((*argv, *on_loopback(self.name)), on_cards(launch, environment))

    def follows_priorities(self, launch: Launch) -> bool:
        """Whether it is started so that `priority` in a request counts; else vLLM refuses one that is not 0."""
        return launch.priorities and bool(priority_flags(Version.parse(launch.version).parts))

    def health(self, url: str, *, timeout_s: float = 2.0, key: str = "") -> Health:
        """/health answers 200 also while it sleeps; whether it does is asked where the server tells."""
        found = health_at(url, "/health", timeout_s=timeout_s, key=key)
        if found is not Health.READY:
            return found
        try:
            told = call_json(url, "/is_sleeping", timeout_s=timeout_s, key=key)
        except EngineError:
            return found
        return Health.ASLEEP if isinstance(told, dict) and told.get("is_sleeping") is True else found

    def version(self, url: str, *, timeout_s: float = 2.0, key: str = "") -> str:
        """From /version."""
        return version_at(url, "/version", "version", timeout_s=timeout_s, key=key)

    def metrics(self, url: str, *, timeout_s: float = 2.0, key: str = "") -> EngineMetrics:
        """From /metrics; the pool's gauge was called otherwise until 0.10."""
        return metrics_at(url, _METRICS, timeout_s=timeout_s, key=key)

    def sleep(self, url: str, *, level: int = 1, timeout_s: float = 60.0, key: str = "") -> None:
        """Free weights and cache."""
        post(url, f"/sleep?level={level}", timeout_s=timeout_s, key=key)

    def wake(self, url: str, *, level: int = 1, timeout_s: float = 120.0, key: str = "") -> None:
        """Weights back, and after level 2 read again and the prefix cache forgotten."""
        if level == 1:
            post(url, "/wake_up", timeout_s=timeout_s, key=key)
            return
        post(url, "/wake_up?tags=weights", timeout_s=timeout_s, key=key)
        post(url, "/collective_rpc", {"method": "reload_weights"}, timeout_s=timeout_s, key=key)
        post(url, "/wake_up?tags=kv_cache", timeout_s=timeout_s, key=key)
        post(url, "/reset_prefix_cache", timeout_s=timeout_s, key=key)

    def load_adapter(self, url: str, name: str, source: str, *, timeout_s: float = 60.0, key: str = "") -> None:
        """/v1/load_lora_adapter."""
        told = {"lora_name": name, "lora_path": source}
        post(url, "/v1/load_lora_adapter", told, timeout_s=timeout_s, key=key)

    def unload_adapter(self, url: str, name: str, *, timeout_s: float = 60.0, key: str = "") -> None:
        """/v1/unload_lora_adapter."""
        post(url, "/v1/unload_lora_adapter", {"lora_name": name}, timeout_s=timeout_s, key=key)
