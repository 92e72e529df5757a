"""Engines, each one file: what they do with memory, by version, and how they are told.

`find_engine("vllm@0.21")` gives the rules and the version that they are asked for.
"""

from __future__ import annotations

from cotenant.domain.engine import Version
from cotenant.engines.rules import EngineRules
from cotenant.engines.vllm import VLLM
from cotenant.errors import UnknownEngineError, UnsupportedError

ENGINES: tuple[EngineRules, ...] = (VLLM,)

PLANNED = {
    "sglang": ("sglang", "sgl"),
    "tgi": ("tgi", "text-generation-inference"),
    "tensorrt-llm": ("tensorrt-llm", "trtllm", "trt-llm"),
    "llama.cpp": ("llama.cpp", "llama-server", "llamacpp", "llama-cpp"),
    "ollama": ("ollama",),
}
"""Engines whose rules are not written yet, with the names that people give them."""


def find_engine(text: str) -> tuple[EngineRules, Version]:
    """``vllm``, ``vLLM@0.21`` or an alias. Without a version the newest that the rules know.

    Raises UnknownEngineError for an unknown name or a version that no rule covers, UnsupportedError for an
    engine that is planned but not built.
    """
    name, _, wanted = text.strip().partition("@")
    key = name.strip().lower().replace("_", "-")
    engine = _BY_NAME.get(key)
    if engine is None:
        raise _unknown(name.strip(), key)
    return engine, _version(engine, wanted.strip()) if "@" in text else engine.newest


def engine_names() -> tuple[str, ...]:
    """The ids of the engines that estimates exist for."""
    return tuple(engine.name for engine in ENGINES)


def _version(engine: EngineRules, wanted: str) -> Version:
    covered = f"its rules cover {engine.oldest} to {engine.newest}"
    try:
        version = Version.parse(wanted)
    except ValueError:
        raise UnknownEngineError(
            f"{wanted[:40]!r} is not a version of {engine.title}", hint=f"write {engine.name}@{engine.newest}"
        ) from None
    if version < engine.oldest:
        raise UnknownEngineError(f"{engine.title} {version} is older than any rule here", hint=covered)
    return version


def _unknown(name: str, key: str) -> UnknownEngineError | UnsupportedError:
    known = ", ".join(engine_names())
    for planned, names in PLANNED.items():
        if key in names:
            return UnsupportedError(f"{planned} is planned but not built yet", hint=f"engines so far: {known}")
    from difflib import get_close_matches

    near = get_close_matches(key, [*_BY_NAME, *(n for names in PLANNED.values() for n in names)], n=1)
    hint = f"did you mean {near[0]}? engines: {known}" if near else f"engines: {known}"
    return UnknownEngineError(f"unknown engine {name[:60]!r}", hint=hint)


_BY_NAME = {alias: engine for engine in ENGINES for alias in (engine.name, *engine.aliases)}
