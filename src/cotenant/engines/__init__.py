"""Engines, each one file: what they do with memory, by version, and how they are told.

`find_engine("vllm@0.21")` gives the rules and the version that they are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from cotenant.domain.engine import Version
from cotenant.domain.llama_cpp import LlamaCppOptions
from cotenant.engines.llama_cpp.engine import LLAMA_CPP
from cotenant.engines.llama_cpp.options import options_from as llama_cpp_options
from cotenant.engines.ollama import OLLAMA
from cotenant.engines.ollama import options_from as ollama_options
from cotenant.engines.rules import EngineRules
from cotenant.engines.sglang import SGLANG
from cotenant.engines.sglang import WORDS as SGLANG_WORDS
from cotenant.engines.tensorrt_llm import TENSORRT_LLM
from cotenant.engines.tensorrt_llm import WORDS as TENSORRT_LLM_WORDS
from cotenant.engines.tgi import TGI
from cotenant.engines.tgi import WORDS as TGI_WORDS
from cotenant.engines.vllm import VLLM
from cotenant.engines.words import Words, common_options, word_for
from cotenant.errors import InputError, UnknownEngineError

ENGINES: tuple[EngineRules, ...] = (VLLM, SGLANG, TGI, TENSORRT_LLM, LLAMA_CPP, OLLAMA)


def find_engine(text: str) -> tuple[EngineRules, Version]:
    """``vllm``, ``vLLM@0.21`` or an alias. Without a version the newest that the rules know.

    Raises UnknownEngineError for an unknown name or a version that no rule covers.
    """
    name, _, wanted = text.strip().partition("@")
    key = name.strip().lower().replace("_", "-")
    engine = _BY_NAME.get(key)
    if engine is None:
        raise _unknown(name.strip(), key)
    return engine, _version(engine, wanted.strip()) if "@" in text else engine.newest


_OWN_OPTIONS: Mapping[str, Callable[[Mapping[str, Any]], LlamaCppOptions]] = {
    LLAMA_CPP.name: llama_cpp_options,
    OLLAMA.name: ollama_options,
}
"""Engines that are told in words of their own, beyond the common settings."""


def own_options(engine: EngineRules, words: Mapping[str, Any]) -> LlamaCppOptions | None:
    """An engine's own words as its options; None where there are none. Raises InputError where the engine has no
    such words, InputErrors for words that it cannot read."""
    if not words:
        return None
    read = _OWN_OPTIONS.get(engine.name)
    if read is None:
        told, owners = ", ".join(words), ", ".join((*_WORDS, *_OWN_OPTIONS))
        raise InputError(f"{told}: not options of {engine.title}", hint=f"words of its own have {owners}")
    return read(words)


_WORDS: Mapping[str, Words] = {
    SGLANG.name: SGLANG_WORDS,
    TGI.name: TGI_WORDS,
    TENSORRT_LLM.name: TENSORRT_LLM_WORDS,
}
"""Engines whose own words all mean one of the common settings."""


def read_words(engine: EngineRules, words: Mapping[str, Any]) -> tuple[dict[str, Any], LlamaCppOptions | None]:
    """(common options, options of its own) that an engine's own words mean. Raises as `own_options`."""
    known = _WORDS.get(engine.name)
    if known is None or not words:
        return {}, own_options(engine, words)
    return common_options(engine.title, known, words), None


def own_word(engine: str, field: str) -> str:
    """What the engine of that id calls a common setting."""
    return word_for(_WORDS.get(engine, {}), field)


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


def _unknown(name: str, key: str) -> UnknownEngineError:
    from difflib import get_close_matches

    known = ", ".join(engine_names())
    near = get_close_matches(key, _BY_NAME, n=1)
    hint = f"did you mean {near[0]}? engines: {known}" if near else f"engines: {known}"
    return UnknownEngineError(f"unknown engine {name[:60]!r}", hint=hint)


_BY_NAME = {alias: engine for engine in ENGINES for alias in (engine.name, *engine.aliases)}
