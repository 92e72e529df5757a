"""vLLM as something to host (docker/Dockerfile, vllm/v1/metrics/loggers.py, vllm/engine/metrics.py)."""

from __future__ import annotations

from cotenant.domain.engine import Version
from cotenant.engines.hosting.rules import AdapterRequests, Hosting, Metrics, tagged
from cotenant.engines.vllm.defaults import least_slots


def _metrics(version: Version) -> Metrics:
    """The pool's gauge was `gpu_cache_usage_perc` until 0.10."""
    pool = "vllm:kv_cache_usage_perc" if version.parts >= (0, 10) else "vllm:gpu_cache_usage_perc"
    return Metrics(
        queue="vllm:num_requests_waiting", cache_use=pool, first_token="vllm:time_to_first_token_seconds"
    )


HOSTING = Hosting(
    image=tagged("vllm/vllm-openai", "v"),
    entry_words=None,  # `vllm serve` since 0.10, a python module before: replaced, so that both start alike
    host_flag="--host",
    open_unless_told=True,  # entrypoints/openai/cli_args.py: no host, and so every interface
    slots=lambda version: least_slots(version.parts),
    health="/health",
    probe="python3",
    files_dir="/root/.cache/huggingface",
    metrics=_metrics,
    adapter_requests=AdapterRequests(
        by_name=True,  # entrypoints/openai/models: a name a LoRA module
        changed_running=True,  # /v1/load_lora_adapter, where VLLM_ALLOW_RUNTIME_LORA_UPDATING is set
    ),
)
