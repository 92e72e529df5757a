"""Engines as things to host: images, ports, probes, metrics. One file an engine; `hosting_of` finds it."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from cotenant.domain.engine import EngineSettings, Version
from cotenant.engines.hosting.rules import Hosting

_PLACES = {
    "vllm": "vllm",
    "sglang": "sglang",
    "tgi": "tgi",
    "tensorrt-llm": "tensorrt_llm",
    "llama.cpp": "llama_cpp",
    "ollama": "ollama",
}


@cache
def hosting_of(engine: str) -> Hosting:
    """How the engine of that id (as `find_engine` gives it) is hosted."""
    found: Hosting = import_module(f"{__name__}.{_PLACES[engine]}").HOSTING
    return found


def slots_of(engine: str, version: Version, settings: EngineSettings) -> int:
    """Requests that a replica takes at once: as it is told, else by its engine's own default, the least over all
    cards. (An estimate knows its card: its settings have all defaults filled in.)"""
    return settings.slots or hosting_of(engine).slots(version)


def changes_adapters(engine: str) -> bool:
    """Whether one that was started with adapters takes and drops others while it runs."""
    requests = hosting_of(engine).adapter_requests
    return requests is not None and requests.changed_running
