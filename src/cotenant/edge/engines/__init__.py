"""Engine drivers: how each engine is started, asked, put to sleep and stopped.

`find_driver("llama.cpp")` gives the driver; `processes` starts and stops what it describes.
"""

from __future__ import annotations

from importlib import import_module

from cotenant.edge.engines.driver import Driver
from cotenant.errors import UnknownEngineError

_DRIVERS = {
    "llama.cpp": "llama_cpp:LlamaServer",
    "vllm": "vllm:Vllm",
    "tgi": "tgi:Tgi",
    "sglang": "sglang:Sglang",
    "ollama": "ollama:Ollama",
}


def find_driver(engine: str) -> Driver:
    """The driver of an engine by its id. Raises UnknownEngineError where there is none."""
    place = _DRIVERS.get(engine)
    if place is None:
        raise UnknownEngineError(f"no driver for {engine[:60]!r}", hint=f"drivers: {', '.join(_DRIVERS)}")
    module, _, name = place.partition(":")
    driver: Driver = getattr(import_module(f"{__name__}.{module}"), name)()
    return driver
