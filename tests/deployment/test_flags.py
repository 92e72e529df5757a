"""Every flag that is written is one that the plan's own release takes (tests/contracts/flags, from its source)."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from typing import Any

import pytest

from cotenant.catalogue.gpus import find_gpu
from cotenant.deployment.container import arguments
from cotenant.deployment.launch import launches, with_own_ports
from cotenant.domain.engine import AdapterSlots, EngineSettings, Speculation, Version
from cotenant.domain.llama_cpp import LlamaCppOptions
from cotenant.domain.workload import Adapter
from cotenant.edge.models import open_model
from cotenant.engines import engine_names, find_engine
from cotenant.engines.hosting import hosting_of
from cotenant.errors import UnsupportedError
from tests.deployment.conftest import plan_of
from tests.deployment.flag_lists import ALL, ENGINES, known_to, lists_of

_TOLD: dict[str, Any] = {
    "tensor_parallel_size": 2, "pipeline_parallel_size": 2, "data_parallel_size": 2, "dtype": "bf16",
    "kv_cache_dtype": "fp8", "max_model_len": 4096, "max_num_seqs": 8, "max_num_batched_tokens": 4096,
    "gpu_memory_utilization": 0.5, "kv_cache_memory_bytes": 2**30, "block_size": 16, "enforce_eager": True,
    "enable_expert_parallel": True, "enable_sleep_mode": True, "adapters": AdapterSlots(2, 16),
    "kv_cache_tokens": 4096, "max_input_tokens": 2048, "max_graph_batch": 8, "enable_prefix_caching": False,
    "language_model_only": True, "decode_context_parallel_size": 2, "speculation": Speculation("ngram", 3),
    "llama_cpp": None,
}  # fmt: skip
_LLAMA: dict[str, Any] = {
    "n_ctx": 8192, "n_parallel": 4, "n_batch": 512, "n_ubatch": 256, "n_gpu_layers": 99, "flash_attn": True,
    "type_k": "q8_0", "type_v": "q8_0", "kv_unified": True, "swa_full": True, "kv_offload": False,
    "tensor_split": (1.0, 1.0), "n_cpu_moe": 4,
}  # fmt: skip


def flags_of(words: tuple[str, ...] | list[str]) -> set[str]:
    """The words that are flags of the engine; `-m` after `python` is Python's."""
    own = words[3:] if words[0].startswith("python") else words
    own = own[1:] if own and own[0] == "-m" and words[0] == "-m" else own
    return {word for word in own if word.startswith("-") and not word[1:2].isdigit()}


def all_that_it_starts_with(engine: str, version: str) -> list[EngineSettings]:
    """One setting after the other, and all of them together, as that release's own rules resolve them."""
    rules, parsed = find_engine(f"{engine}@{version}")
    model = open_model("meta-llama/Llama-3.1-8B-Instruct").spec
    asked = [EngineSettings(**{name: value}) for name, value in _TOLD.items() if value is not None]
    if engine == "llama.cpp":
        asked += [EngineSettings(llama_cpp=LlamaCppOptions(**{name: value})) for name, value in _LLAMA.items()]
        asked += [EngineSettings(llama_cpp=LlamaCppOptions(type_v="q8_0", flash_attn=True))]
    taken: list[EngineSettings] = []
    together = EngineSettings()
    for one in asked:
        try:
            taken.append(rules.resolve(model, find_gpu("H100-80GB-SXM"), one, parsed))
        except UnsupportedError:
            continue
        changed = {each.name: getattr(one, each.name) for each in fields(one)}
        merged = {name: value for name, value in changed.items() if value != getattr(EngineSettings(), name)}
        together = replace(together, **merged)
    return [*taken, together]


@pytest.mark.parametrize(("engine", "version"), ALL)
def test_no_release_is_told_what_it_does_not_know(engine: str, version: str) -> None:
    """Whatever its rules do not refuse."""
    rules, parsed = find_engine(f"{engine}@{version}")
    written: set[str] = set()
    for settings in all_that_it_starts_with(engine, version):
        words = rules.arguments(
            settings, version=parsed, model_path="owner/name", port=8000, quantization="fp8",
            served_name="name", adapters=(Adapter("a", 16, "owner/a"),) if settings.adapters else (),
        )  # fmt: skip
        written |= flags_of(words)
    assert written - known_to(engine, parsed) == set()
    assert len(written) >= 8


def exported(engine: str) -> tuple[set[str], Version]:
    """What exporters write for a plan that was made for that engine (``vllm@0.9.2``), and its release."""
    found = launches(plan_of(engine))
    written = [flags_of(arguments(with_own_ports(one), metrics=True)) for one in found]
    return set().union(*written), found[0].version


@pytest.mark.parametrize(("engine", "version"), ALL)
def test_what_is_planned_for_a_release_is_exported_in_its_own_flags(engine: str, version: str) -> None:
    """Older than what can be told all of a plan: refused by name."""
    since = hosting_of(engine).since
    if since is not None and Version.parse(version) < since:
        with pytest.raises(UnsupportedError, match=r"cannot be told all of a plan|knows --[a-z-]+ from"):
            exported(f"{engine}@{version}")
        return
    written, parsed = exported(f"{engine}@{version}")
    assert written - known_to(engine, parsed) == set()
    assert len(written) >= 7


@pytest.mark.parametrize("engine", ENGINES)
def test_a_plan_of_today_is_held_to_the_list_of_its_release(engine: str) -> None:
    written, version = exported(engine)
    assert written <= known_to(engine, version)
    assert lists_of(engine)[-1].version <= version


def test_every_engine_that_takes_flags_has_lists() -> None:
    """Ollama's server takes none: it reads variables and a Modelfile (tests/deployment/test_quoting.py)."""
    assert set(engine_names()) - set(ENGINES) == {"ollama"}
    assert all(len(lists_of(engine)) >= 2 for engine in ENGINES)


@pytest.mark.parametrize(("engine", "version"), ALL)
def test_every_list_says_where_it_was_read(engine: str, version: str) -> None:
    """At a commit; a package that names none is held by its digest, a page of NVIDIA's by its address."""
    told = next(one.document for one in lists_of(engine) if str(one.version) == version)
    assert "/" in told["repository"]
    assert told["flags"] == sorted(set(told["flags"]))
    if told["commit"]:
        assert re.fullmatch(r"[0-9a-f]{9,40}", told["commit"])
        assert told["files"]
    else:
        assert re.fullmatch(r"[0-9a-f]{64}", told.get("sha256", "")) or told["page"].startswith("https://nvidia.")


@pytest.mark.parametrize(
    ("engine", "told", "image"),
    [
        ("vllm", "0.21", "vllm/vllm-openai:v0.21.0"),
        ("vllm", "v0.8.5.post1", "vllm/vllm-openai:v0.8.5.post1"),
        ("sglang", "0.5.9", "lmsysorg/sglang:v0.5.9"),
        ("tgi", "3.3", "ghcr.io/huggingface/text-generation-inference:3.3.0"),
        ("tensorrt-llm", "1.2.1", "nvcr.io/nvidia/tensorrt-llm/release:1.2.1"),
        ("llama.cpp", "9849", "ghcr.io/ggml-org/llama.cpp:server-cuda-b9849"),
        ("ollama", "0.20.2", "ollama/ollama:0.20.2"),
    ],
)
def test_each_engine_has_its_published_image(engine: str, told: str, image: str) -> None:
    hosting = hosting_of(engine)
    assert hosting.image(Version.parse(told)) == image
    assert hosting.health.startswith("/")
    assert hosting.files_dir.startswith("/")
