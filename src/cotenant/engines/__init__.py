"""Engines, each one file: what they do with memory, by version, and how they are told.

`find_engine("vllm@0.21")` gives the rules and the version that they are asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Any

from cotenant.domain.engine import Version
from cotenant.domain.llama_cpp import LlamaCppOptions
from cotenant.engines.rules import EngineRules
from cotenant.engines.words import Words, common_options, word_for
from cotenant.engines.words import listed_adapters as listed
from cotenant.errors import InputError, UnknownEngineError

_NAMES: Mapping[str, tuple[str, ...]] = {
    "vllm": ("vllm-openai",),
    "sglang": ("sgl",),
    "tgi": ("text-generation-inference", "text-generation-launcher"),
    "tensorrt-llm": ("trtllm", "trt-llm", "trtllm-serve"),
    "llama.cpp": ("llama-server", "llamacpp", "llama-cpp"),
    "ollama": (),
}
"""Each engine's id with the other names that people give it: known without loading any engine's rules."""

_RULES: Mapping[str, str] = {
    "vllm": "vllm:VLLM",
    "sglang": "sglang:SGLANG",
    "tgi": "tgi:TGI",
    "tensorrt-llm": "tensorrt_llm:TENSORRT_LLM",
    "llama.cpp": "llama_cpp.engine:LLAMA_CPP",
    "ollama": "ollama:OLLAMA",
}
_WORDS: Mapping[str, str] = {"sglang": "sglang:WORDS", "tgi": "tgi:WORDS", "tensorrt-llm": "tensorrt_llm:WORDS"}
"""Engines whose own words all mean one of the common settings: where these stand."""

_OWN_OPTIONS: Mapping[str, str] = {"llama.cpp": "llama_cpp.options:options_from", "ollama": "ollama:options_from"}
"""Engines that are told in words of their own, beyond the common settings: where these words are read."""


def find_engine(text: str) -> tuple[EngineRules, Version]:
    """``vllm``, ``vLLM@0.21`` or an alias. Without a version the newest that the rules know.

    Raises UnknownEngineError for an unknown name or a version that no rule covers.
    """
    if not isinstance(text, str):
        raise UnknownEngineError(f"an engine is named by text, not {type(text).__name__}", hint="write vllm@0.33")
    name, _, wanted = text.strip().partition("@")
    key = name.strip().lower().replace("_", "-")
    called = _ID_OF.get(key)
    if called is None:
        raise _unknown(name.strip(), key)
    engine: EngineRules = _loaded(_RULES[called])
    return engine, _version(engine, wanted.strip()) if "@" in text else engine.newest


@cache
def _loaded(place: str) -> Any:
    """What stands at ``module:NAME`` of this room; the module is imported on first use."""
    module, _, name = place.partition(":")
    return getattr(import_module(f"{__name__}.{module}"), name)


def own_options(engine: EngineRules, words: Mapping[str, Any]) -> LlamaCppOptions | None:
    """An engine's own words as its options; None where there are none. Raises InputError where the engine has no
    such words, InputErrors for words that it cannot read."""
    if not words:
        return None
    place = _OWN_OPTIONS.get(engine.name)
    if place is None:
        told, owners = ", ".join(words), ", ".join((*_WORDS, *_OWN_OPTIONS))
        raise InputError(f"{told}: not options of {engine.title}", hint=f"words of its own have {owners}")
    options: LlamaCppOptions = _loaded(place)(words)
    return options


def read_words(engine: EngineRules, words: Mapping[str, Any]) -> tuple[dict[str, Any], LlamaCppOptions | None]:
    """(common options, options of its own) that an engine's own words mean. Raises as `own_options`."""
    if not isinstance(words, Mapping):
        raise InputError(f"options are a mapping of words to values, not {type(words).__name__}")
    known = _words(engine.name)
    if known is None or not words:
        return {}, own_options(engine, words)
    return common_options(engine.title, known, words), None


def listed_adapters(engine: EngineRules, words: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """(name, source) of the adapters that an engine's own words list."""
    known = _words(engine.name)
    return () if known is None or not isinstance(words, Mapping) else listed(known, words)


def own_word(engine: str, field: str) -> str:
    """What the engine of that id calls a common setting."""
    return word_for(_words(engine) or {}, field)


def _words(engine: str) -> Words | None:
    """The words of an engine that are all common settings; None where it has none or others."""
    place = _WORDS.get(engine)
    words: Words | None = _loaded(place) if place is not None else None
    return words


def engine_names() -> tuple[str, ...]:
    """The ids of the engines that estimates exist for."""
    return tuple(_NAMES)


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


def _unknown(name: str, key: str) -> UnknownEngineError:
    from difflib import get_close_matches

    known = ", ".join(engine_names())
    near = get_close_matches(key, _ID_OF, n=1)
    hint = f"did you mean {near[0]}? engines: {known}" if near else f"engines: {known}"
    return UnknownEngineError(f"unknown engine {name[:60]!r}", hint=hint)


_ID_OF = {alias: name for name, aliases in _NAMES.items() for alias in (name, *aliases)}
