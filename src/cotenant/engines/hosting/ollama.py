"""Ollama as something to host (Dockerfile, parser/parser.go): a server, and a Modelfile that names the model."""

from __future__ import annotations

from collections.abc import Sequence

from cotenant.domain.engine import EngineSettings
from cotenant.domain.workload import Adapter
from cotenant.engines.hosting.rules import Hosting, tagged
from cotenant.engines.ollama import default_slots, modelfile


def _modelfile(settings: EngineSettings, model_path: str, adapters: Sequence[Adapter]) -> tuple[str, str]:
    return "", modelfile(settings, model_path, adapters)


HOSTING = Hosting(
    image=tagged("ollama/ollama"),
    entry_words=1,
    host_flag="",
    slots=default_slots,
    health="/api/version",
    probe="ollama",
    files_dir="/root/.ollama",
    token="",
    listen_variables=lambda address, port: {"OLLAMA_HOST": f"{address}:{port}"},
    beside=_modelfile,
    file_suffix=".Modelfile",
    after_start=lambda model, file: ("ollama", "create", model, "-f", file),
)
