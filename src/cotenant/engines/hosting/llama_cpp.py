"""llama-server as something to host (.devops/cuda.Dockerfile, tools/server/server.cpp)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cotenant.domain.engine import Version
from cotenant.engines.hosting.rules import AdapterRequests, Hosting, Metrics
from cotenant.engines.llama_cpp.builds import build_rules


def _adapter_fields(number: int | None, names: Sequence[str]) -> Mapping[str, Any]:
    """tools/server/README.md: `lora` scales each adapter by its place; unasked, all of them apply at once."""
    return {"lora": [{"id": place, "scale": float(place == number)} for place in range(len(names))]}


HOSTING = Hosting(
    image=lambda version: f"ghcr.io/ggml-org/llama.cpp:server-cuda-b{version.parts[0]}",
    entry_words=1,  # /app/llama-server
    host_flag="--host",
    slots=lambda version: build_rules(version).auto_slots,
    health="/health",  # 503 while it loads
    probe="curl",
    files_dir="/root/.cache/llama.cpp",
    metrics=lambda version: Metrics(queue="llamacpp:requests_deferred", flags=("--metrics",)),
    adapter_requests=AdapterRequests(fields=_adapter_fields),
    since=Version((4470,), "b4470"),  # -hf, which finds the file of a hub id
)
