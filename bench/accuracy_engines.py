"""Records of SGLang, TGI and TensorRT-LLM: which rules answer them where no version stands there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cotenant.domain.engine import Version

ENGINES = {"vllm": "vllm", "sglang": "sglang", "text-generation-inference": "tgi", "tensorrt-llm": "tensorrt-llm"}
"""How the records name the engines."""

# Releases between which the memory rules differ; the first is the one whose value stands.
_RELEASES = {
    "sglang": (
        "0.5.6",
        "0.4.3",
        "0.4.6.post5",
        "0.4.10.post2",
        "0.5.3.post1",
        "0.5.9",
        "0.5.12",
        "0.5.16",
        "0.5.23",
    ),
    "tgi": ("2.0.4", "1.1.1", "1.4.5", "2.3.1", "2.4.1", "3.0.1", "3.1.0", "3.3.7"),
    "tensorrt-llm": ("1.0.0", "0.17.0", "0.21.0", "1.2.1"),
}
# The first release of those read whose registry holds the architecture, or with which a model of it came out.
_SINCE = {
    "sglang": (
        ("deepseek-v4", "0.5.12"), ("laguna", "0.5.12"), ("mimo-v2", "0.5.9"), ("deepseek-v3.2", "0.5.3"),
        ("qwen3-vl", "0.5.3"), ("qwen3-next", "0.5.3"), ("qwen3.5", "0.5.9"), ("qwen3.6", "0.5.9"),
        ("qwen3.8", "0.5.12"), ("qwen3", "0.4.6"), ("llama-4", "0.4.6"), ("deepseek-v3", "0.4.3"),
        ("kimi-k2.", "0.5.9"), ("kimi-k2", "0.4.10"), ("kimi-linear", "0.5.6"), ("glm-5", "0.5.9"),
        ("minimax-m2", "0.5.6"), ("gpt-oss", "0.5.3"), ("nemotron-3", "0.5.6"), ("nemotron-h", "0.5.3"),
    ),
    "tgi": (("llama-3.1", "2.2.0"), ("llama-3", "2.0.2")),
    "tensorrt-llm": (("qwen3", "0.20.0"),),
}  # fmt: skip


_UNTAGGED = ("0.0.0", "0.1.dev")


def other_versions(row: Mapping[str, Any]) -> list[str]:
    """``engine@version`` for every version that may have printed the record, the one whose value stands first."""
    engine = ENGINES[row["engine"]]
    said = _said(row["engine_version"])
    if said is not None:
        return [f"{engine}@{said}"]
    name = (row.get("config_file") or "").lower()
    since = Version.parse(next((first for mark, first in _SINCE[engine] if mark in name), "0"))
    fitting = [one for one in _RELEASES[engine] if Version.parse(one) >= since]
    return [f"{engine}@{one}" for one in fitting or _RELEASES[engine][-1:]]


def _said(text: str | None) -> str | None:
    """A version where the record has one: an image's hash says nothing, nor does a build without tags (0.0.0)."""
    if not text or text.startswith(_UNTAGGED):
        return None
    try:
        return str(Version.parse(text.split(" or ")[0]))
    except ValueError:
        return None
