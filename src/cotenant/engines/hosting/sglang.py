"""SGLang as something to host (docker/Dockerfile, sglang/srt/metrics/collector.py)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cotenant.domain.engine import Version
from cotenant.engines.hosting.rules import AdapterRequests, Hosting, Metrics, tagged
from cotenant.engines.sglang import REQUESTS


def _metrics(version: Version) -> Metrics | None:
    """Counted only with --enable-metrics, since 0.3.5.post1."""
    if version.parts < (0, 3, 6):
        return None
    return Metrics(
        queue="sglang:num_queue_reqs",
        cache_use="sglang:token_usage",
        first_token="sglang:time_to_first_token_seconds",
        flags=("--enable-metrics",),
    )


def _adapter_fields(number: int | None, names: Sequence[str]) -> Mapping[str, Any]:
    """entrypoints/openai/serving_base.py: `lora_path` names the adapter, none is the base."""
    return {} if number is None else {"lora_path": names[number]}


HOSTING = Hosting(
    image=tagged("lmsysorg/sglang", "v"),
    entry_words=None,  # the image has none
    host_flag="--host",
    slots=lambda version: REQUESTS,
    health="/health",
    probe="python3",
    files_dir="/root/.cache/huggingface",
    metrics=_metrics,
    adapter_requests=AdapterRequests(fields=_adapter_fields, changed_running=True),
    since=Version((0, 2, 9), "0.2.9"),  # --served-model-name
)
