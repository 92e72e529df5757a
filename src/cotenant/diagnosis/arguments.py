"""A setting in the engine's own words, found by asking the engine for its command with and without it."""

from __future__ import annotations

from collections.abc import Sequence

from cotenant.domain.engine import EngineSettings, Version
from cotenant.domain.measurement import Setting
from cotenant.engines.rules import EngineRules
from cotenant.errors import CotenantError


def argument_of(engine: EngineRules, version: Version, settings: EngineSettings, name: str, value: Setting) -> str:
    """The engine's own flag for our setting `name`: ``--context-length`` for SGLang's max_model_len.

    `settings` are resolved; ours with dashes where the engine's command does not show it.
    """
    kept = {field: getattr(settings, field) for field in EngineSettings.__dataclass_fields__}
    try:
        before, after = (
            _flags(engine.arguments(EngineSettings(**{**kept, **changed}), version=version, model_path="model"))
            for changed in ({}, {name: value})
        )
    except CotenantError:
        return dashed(name)
    changed_flags = [flag for flag, words in after.items() if before.get(flag) != words]
    return changed_flags[-1] if changed_flags else dashed(name)


def dashed(name: str) -> str:
    """``max_model_len`` as ``--max-model-len``."""
    return f"--{name.replace('_', '-')}"


def _flags(words: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Each flag with the words up to the next one."""
    flags: dict[str, tuple[str, ...]] = {}
    last = ""
    for word in words:
        if word.startswith("--"):
            last = word
            flags[last] = ()
        elif last:
            flags[last] = (*flags[last], word)
    return flags
