"""Engine names as a fleet writes them: ``vllm``, ``vllm@0.21``, ``trtllm@1.0``."""

from __future__ import annotations

from cotenant.catalogue.strict import nearest
from cotenant.domain.engine import Version
from cotenant.errors import UnknownEngineError

ALIASES = {
    "vllm": "vllm", "sglang": "sglang", "tgi": "tgi", "text-generation-inference": "tgi",
    "tensorrt-llm": "tensorrt-llm", "trtllm": "tensorrt-llm", "llama.cpp": "llama.cpp",
    "llama-server": "llama.cpp", "ollama": "ollama",
}  # fmt: skip


def check_engine(text: str) -> str:
    """`text` with the engine's own id in place of an alias. Raises UnknownEngineError.

    Whether a rule covers the version is the engine room's to say.
    """
    name, at, version = text.strip().partition("@")
    engine = ALIASES.get(name.lower().replace("_", "-"))
    if engine is None:
        raise UnknownEngineError(
            f"unknown engine {name[:60]!r}", hint=nearest(name[:60], sorted(set(ALIASES.values())))
        )
    if not at:
        return engine
    try:
        Version.parse(version)
    except ValueError:
        hint = f"{engine}@0.21, or {engine} for the newest that is known"
        raise UnknownEngineError(f"{version[:60]!r} is not a version of {engine}", hint=hint) from None
    return f"{engine}@{version.strip()}"
