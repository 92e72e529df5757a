"""SGLang as something to host (docker/Dockerfile, sglang/srt/metrics/collector.py)."""

from __future__ import annotations

from cotenant.domain.engine import Version
from cotenant.engines.hosting.rules import Hosting, Metrics, tagged


def _metrics(version: Version) -> Metrics:
    """Counted only with --enable-metrics."""
    return Metrics(
        queue="sglang:num_queue_reqs",
        cache_use="sglang:token_usage",
        first_token="sglang:time_to_first_token_seconds",
        flags=("--enable-metrics",),
    )


HOSTING = Hosting(
    image=tagged("lmsysorg/sglang", "v"),
    entry_words=None,  # the image has none
    listen=("--host", "0.0.0.0"),
    health="/health",
    probe="python3",
    files_dir="/root/.cache/huggingface",
    metrics=_metrics,
)
