"""Speculative decoding as engines are told of it: the method, the tokens proposed a step, the draft's name.

vLLM takes one JSON object (--speculative-config; config/speculative.py), SGLang a handful of flags
(--speculative-algorithm ...; server_args.py). What a draft is made of, others find out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cotenant.domain.engine import EngineSettings
from cotenant.errors import InputError

_PREFIX = "speculative_"
_MOST_TOKENS = 256
_OWN_STEPS = 1  # what vLLM proposes where a checkpoint's own layer is used and nothing is said
_SGLANG_STEPS = 3  # auto_choose_speculative_params, for models with layers of their own
_LLAMA_TOKENS = 3  # common/common.h, n_max, since b9235; 16 before, which no buffer followed
_LOOKUPS = ("ngram", "ngram_gpu", "suffix")
_METHODS = ("mtp", "eagle", "eagle3", "dflash", "draft_model", *_LOOKUPS)
# SGLang's algorithms -> vLLM's methods.
_ALGORITHMS = {
    "NEXTN": "mtp", "EAGLE": "eagle", "EAGLE3": "eagle3", "STANDALONE": "draft_model", "NGRAM": "ngram",
    "DFLASH": "dflash",
}  # fmt: skip
_SGLANG_WORDS = {
    "speculative_algorithm", "speculative_algo", "speculative_num_steps", "speculative_eagle_topk",
    "speculative_num_draft_tokens", "speculative_draft_model_path", "speculative_draft_model",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked. `draft` names weights of its own; "" where the layers are the checkpoint's, or none."""

    method: str
    tokens: int
    draft: str = ""


def read_speculative(value: object) -> Asked | None:
    """vLLM's object, as a mapping or JSON text; None for nothing. Raises InputError."""
    if value is None or value == "":
        return None
    if isinstance(value, str):
        value = _parsed(value)
    if not isinstance(value, Mapping):
        raise _fault(f"must be an object, not {type(value).__name__}")
    draft = value.get("model")
    if draft is not None and not (isinstance(draft, str) and 0 < len(draft) <= 1000):
        raise _fault("names a model that is no text")
    draft = draft or ""
    method = value.get("method") or _guessed(draft)
    if not isinstance(method, str):
        raise _fault(f"names a method that is no text: {str(method)[:40]}")
    method = "mtp" if method.endswith(("mtp", "nextn")) else method
    if method not in _METHODS:
        raise _fault(f"has the method {method[:40]!r}, which no rule covers", f"one of {', '.join(_METHODS)}")
    if method == "mtp" or method in _LOOKUPS:
        draft = ""
    elif not draft:
        raise _fault(f"says {method} and names no model", '{"method": "eagle3", "model": OWNER/NAME, ...}')
    return Asked(method, _tokens(value.get("num_speculative_tokens"), method), draft)


def split_speculative(engine: str, words: Mapping[str, Any]) -> tuple[Asked | None, Mapping[str, Any]]:
    """(what an engine's own words ask, the other words). Raises InputError for a value that cannot be read."""
    if not isinstance(words, Mapping):
        return None, words  # refused by who reads the rest
    if engine == "llama.cpp":
        return _from_llama_server(words), words
    spelled = {word: str(word).lstrip("-").replace("-", "_").lower() for word in words}
    mine = {key: words[word] for word, key in spelled.items() if key.startswith(_PREFIX)}
    rest = {word: words[word] for word, key in spelled.items() if not key.startswith(_PREFIX)}
    if not mine:
        return None, words
    if engine == "vllm":
        unknown, asked = set(mine) - {"speculative_config"}, read_speculative(mine.get("speculative_config"))
    elif engine == "sglang":
        unknown, asked = set(mine) - _SGLANG_WORDS, _from_sglang(mine)
    else:
        unknown, asked = set(mine), None
    if unknown:
        raise InputError(f"{', '.join(sorted(unknown))[:80]}: not options of {engine} here")
    return asked, rest


def refuse_elsewhere(engine: str, title: str, asked: Asked | None, settings: EngineSettings) -> None:
    """Raise InputError where an engine would be told of what its rules here do not know."""
    if asked is not None and engine == "llama.cpp" and asked.method not in ("draft_model", "mtp", "ngram"):
        raise InputError(
            f"{title} has no rule here for {asked.method}", hint="name a draft: --model-draft FILE.gguf"
        )
    if asked is not None and engine not in ("vllm", "sglang", "llama.cpp"):
        hint = "vLLM's, SGLang's and llama.cpp's have"
        raise InputError(f"speculative decoding of {title} has no rule here", hint=hint)
    if settings.decode_context_parallel_size > 1 and engine != "vllm":
        raise InputError(f"decode_context_parallel_size is vLLM's, not {title}'s")
    if settings.language_model_only and engine != "vllm":
        raise InputError(f"language_model_only is vLLM's, not {title}'s")


def sglang_flags(method: str, tokens: int, draft: str) -> tuple[str, ...]:
    """The flags of SGLang that say the same."""
    algorithm = next((name for name, meant in _ALGORITHMS.items() if meant == method), method.upper())
    flags: tuple[str, ...] = ("--speculative-algorithm", algorithm, "--speculative-num-steps", str(tokens))
    flags += ("--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", str(tokens + 1))
    return flags + (("--speculative-draft-model-path", draft) if draft else ())


def _from_llama_server(words: Mapping[str, Any]) -> Asked | None:
    """``--model-draft`` names a small model that proposes, ``--spec-type draft-mtp`` the checkpoint's own layers;
    who reads the other words finds their faults."""
    from cotenant.engines.llama_cpp.options import spelled

    told = {spelled(str(word)): value for word, value in words.items()}
    draft, tokens = str(told.get("model_draft") or ""), told.get("draft_max")
    kinds = {kind.strip() for kind in str(told.get("spec_type") or "").split(",")} - {"", "none"}
    kinds = {kind for kind in kinds if not kind.startswith("ngram")}  # they propose from the prompt: no memory
    unknown = kinds - {"draft-simple", "draft-mtp"}
    if unknown:
        raise InputError(
            f"no rule here for --spec-type {', '.join(sorted(unknown))[:60]}", hint="draft-simple, draft-mtp"
        )
    number = int(str(tokens)) if str(tokens).isdecimal() and len(str(tokens)) < 4 else _LLAMA_TOKENS
    if "draft-mtp" in kinds:
        return Asked("mtp", number)
    return Asked("draft_model", number, draft) if draft else None


def _from_sglang(words: Mapping[str, Any]) -> Asked | None:
    name = str(words.get("speculative_algorithm") or words.get("speculative_algo") or "").upper()
    draft = str(words.get("speculative_draft_model_path") or words.get("speculative_draft_model") or "")
    if not name:
        raise InputError("speculative options without --speculative-algorithm", hint=", ".join(_ALGORITHMS))
    method = _ALGORITHMS.get(name)
    if method is None:
        raise InputError(f"SGLang has no rule here for {name[:40]!r}", hint=f"one of {', '.join(_ALGORITHMS)}")
    if method == "eagle" and not draft:
        method = "mtp"  # the checkpoint's own layers, run as EAGLE does
    drafted = words.get("speculative_num_draft_tokens")
    steps = words.get("speculative_num_steps")
    if drafted is not None:  # the last token that was verified counts as one
        tokens = max(_tokens(drafted, method) - 1, 1)
    else:
        tokens = _SGLANG_STEPS if steps is None else _tokens(steps, method)
    return Asked(method, tokens, "" if method in ("mtp", "ngram") else draft)


def _parsed(text: str) -> object:
    try:
        found: object = json.loads(text)
    except (ValueError, RecursionError):
        raise _fault(f"is not JSON: {text[:60]!r}") from None
    return found


def _guessed(draft: str) -> str:
    """The method that vLLM makes of a draft's name alone."""
    name = draft.lower()
    if not name:
        raise _fault("names neither a method nor a model", '{"method": "mtp", "num_speculative_tokens": 1}')
    found = (method for mark, method in (("eagle3", "eagle3"), ("eagle-3", "eagle3"), ("eagle", "eagle"),
                                         ("dflash", "dflash")) if mark in name)  # fmt: skip
    return next(found, "draft_model")


def _tokens(value: object, method: str) -> int:
    if value is None:
        if method == "mtp":
            return _OWN_STEPS
        raise _fault("lacks num_speculative_tokens")
    text = str(value)
    if isinstance(value, bool) or not text.isdecimal() or not 1 <= int(text[:9]) <= _MOST_TOKENS:
        raise _fault(f"proposes {text[:40]!r} tokens a step; 1 to {_MOST_TOKENS} can be meant")
    return int(text)


def _fault(problem: str, hint: str = "") -> InputError:
    return InputError(f"speculative_config {problem}", hint=hint)
