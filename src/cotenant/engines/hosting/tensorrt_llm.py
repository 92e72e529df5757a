"""TensorRT-LLM as something to host (docker/, tensorrt_llm/serve/openai_server.py): its /metrics is JSON, so
Prometheus has nothing to read there."""

from __future__ import annotations

from collections.abc import Sequence

from cotenant.domain.engine import EngineSettings, Version
from cotenant.domain.workload import Adapter
from cotenant.engines.hosting.rules import Hosting, tagged
from cotenant.engines.tensorrt_llm import EXTRA_OPTIONS_FILE, OPTIONS_SINCE, default_slots, extra_options


def _options(settings: EngineSettings, model_path: str, adapters: Sequence[Adapter]) -> tuple[str, str] | None:
    """The YAML of `--extra_llm_api_options`."""
    import yaml

    fields = extra_options(settings, adapters)
    return (EXTRA_OPTIONS_FILE, yaml.safe_dump(dict(fields), sort_keys=False)) if fields else None


HOSTING = Hosting(
    image=tagged("nvcr.io/nvidia/tensorrt-llm/release"),
    entry_words=0,  # NVIDIA's entrypoint sets the container up and runs what it is given
    host_flag="--host",
    slots=default_slots,
    health="/health",
    probe="python3",
    files_dir="/root/.cache/huggingface",
    beside=_options,
    file_suffix=".extra_llm_api_options.yaml",
    since=Version(OPTIONS_SINCE, "0.19"),
)
