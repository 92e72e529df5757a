"""Ollama as something to host (Dockerfile, parser/parser.go): a server, and a Modelfile that names the model."""

from __future__ import annotations

from collections.abc import Sequence

from cotenant.domain.engine import EngineSettings
from cotenant.domain.workload import Adapter
from cotenant.engines.hosting.rules import Hosting, tagged
from cotenant.engines.ollama import modelfile


def _modelfile(settings: EngineSettings, model_path: str, adapters: Sequence[Adapter]) -> tuple[str, str]:
    return "", modelfile(settings, model_path, adapters)


HOSTING = Hosting(
    image=tagged("ollama/ollama"),
    entry_words=1,
    listen=(),
    health="/api/version",
    probe="ollama",
    files_dir="/root/.ollama",
    token="",
    listen_variables=lambda port: {"OLLAMA_HOST": f"0.0.0.0:{port}"},
    beside=_modelfile,
    file_suffix=".Modelfile",
    after_start=lambda model, file: ("ollama", "create", model, "-f", file),
)
