"""llama-server as something to host (.devops/cuda.Dockerfile, tools/server/server.cpp)."""

from __future__ import annotations

from cotenant.engines.hosting.rules import Hosting, Metrics

HOSTING = Hosting(
    image=lambda version: f"ghcr.io/ggml-org/llama.cpp:server-cuda-b{version.parts[0]}",
    entry_words=1,  # /app/llama-server
    listen=("--host", "0.0.0.0"),
    health="/health",  # 503 while it loads
    probe="curl",
    files_dir="/root/.cache/llama.cpp",
    metrics=lambda version: Metrics(queue="llamacpp:requests_deferred", flags=("--metrics",)),
)
