"""What an older release has no flag for is refused by name, or left out where it does the same unasked."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant.catalogue.gpus import find_gpu
from cotenant.domain.engine import AdapterSlots, EngineSettings, Speculation
from cotenant.domain.llama_cpp import ALL_LAYERS, LlamaCppOptions
from cotenant.domain.workload import Adapter
from cotenant.edge.models import open_model
from cotenant.engines import find_engine
from cotenant.engines.hosting import hosting_of
from cotenant.errors import UnsupportedError


def started(engine: str, **settings: Any) -> tuple[str, ...]:
    """The words that start it, as its own rules resolve the settings."""
    rules, version = find_engine(engine)
    model = open_model("meta-llama/Llama-3.1-8B-Instruct").spec
    resolved = rules.resolve(model, find_gpu("H100-80GB-SXM"), EngineSettings(**settings), version)
    adapters = (Adapter("a", 16, "owner/a"),) if resolved.adapters else ()
    return rules.arguments(
        resolved, version=version, model_path="owner/name", port=8000, served_name="name", adapters=adapters
    )


@pytest.mark.parametrize(
    ("engine", "settings", "flag", "since"),
    [
        ("vllm", {"enable_sleep_mode": True}, "--enable-sleep-mode", "0.7"),
        ("vllm", {"data_parallel_size": 2}, "--data-parallel-size", "0.8.3"),
        ("vllm", {"speculation": Speculation("ngram", 3)}, "--speculative-config", "0.8.3"),
        ("sglang", {"kv_cache_tokens": 4096}, "--max-total-tokens", "0.2.9"),
        ("sglang", {"kv_cache_dtype": "fp8"}, "--kv-cache-dtype", "0.2.14"),
        ("sglang", {"adapters": AdapterSlots(2, 16)}, "--lora-paths", "0.3.2"),
        ("sglang", {"data_parallel_size": 2}, "--enable-dp-attention", "0.3.6"),
        ("sglang", {"block_size": 16}, "--page-size", "0.4.4"),
        ("sglang", {"pipeline_parallel_size": 2}, "--pp-size", "0.4.6"),
        ("llama.cpp", {"llama_cpp": LlamaCppOptions(type_k="q8_0")}, "-ctk", "b2251"),
        ("llama.cpp", {"llama_cpp": LlamaCppOptions(kv_offload=False)}, "--no-kv-offload", "b2599"),
        ("llama.cpp", {"llama_cpp": LlamaCppOptions(flash_attn=True)}, "-fa", "b2771"),
        ("llama.cpp", {"llama_cpp": LlamaCppOptions(n_cpu_moe=2)}, "-ot", "b5028"),
    ],
)
def test_what_came_later_is_refused_with_the_release_that_brought_it(
    engine: str, settings: dict[str, Any], flag: str, since: str
) -> None:
    oldest = find_engine(engine)[0].oldest
    with pytest.raises(UnsupportedError, match=f"knows {flag}.* from {since} on") as refused:
        started(f"{engine}@{oldest}", **settings)
    assert since in refused.value.hint
    assert flag in started(f"{engine}@{since}", **settings)


@pytest.mark.parametrize(
    ("build", "layers", "words"),
    [
        ("b5028", 2, ("-ot", r"blk\.(0|1)\.ffn_(up|down|gate)_exps=CPU")),
        ("b6050", ALL_LAYERS, ("-ot", "ffn_(up|down|gate)_exps=CPU")),
        ("b6051", ALL_LAYERS, ("--cpu-moe",)),
        ("b6088", 2, ("-ot", r"blk\.(0|1)\.ffn_(up|down|gate)_exps=CPU")),
        ("b6089", 2, ("--n-cpu-moe", "2")),
    ],
)
def test_experts_stay_on_the_host_in_each_builds_own_words(
    build: str, layers: int, words: tuple[str, ...]
) -> None:
    argv = started(f"llama.cpp@{build}", llama_cpp=LlamaCppOptions(n_cpu_moe=layers))
    at = argv.index(words[0])
    assert argv[at : at + len(words)] == words


def test_what_older_releases_do_unasked_is_left_out() -> None:
    assert "--no-enable-prefix-caching" not in started("vllm@0.6.4", enable_prefix_caching=False)
    assert "--no-enable-prefix-caching" in started("vllm@0.6.5", enable_prefix_caching=False)
    assert "--swa-full" not in started("llama.cpp@b5000", llama_cpp=LlamaCppOptions(swa_full=True))
    assert "--cuda-graph-max-bs" not in started("sglang@0.3.4")
    assert "--cuda-graph-max-bs" in started("sglang@0.3.5")
    assert "--served-model-name" not in started("sglang@0.2.8")
    assert "-hf" not in started("llama.cpp@b4469")
    assert started("llama.cpp@b4470")[1:3] == ("-hf", "owner/name")


def test_servers_of_tgi_before_3_3_have_no_port_of_metrics() -> None:
    told = hosting_of("tgi").own_ports
    assert "--prometheus-port" not in told(find_engine("tgi@3.2.3")[1], 8000)
    assert "--prometheus-port" in told(find_engine("tgi@3.3.0")[1], 8000)
