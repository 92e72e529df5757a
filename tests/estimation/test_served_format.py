"""Which checkpoint is loaded, which flag the engine is told, which kernel runs it, what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant.catalogue.gpus import find_gpu
from cotenant.domain.loaded import LoadedModel
from cotenant.edge.models import open_model
from cotenant.engines import find_engine
from cotenant.errors import InputError, UnsupportedError
from cotenant.estimation.anatomy import anatomy
from cotenant.estimation.served_format import ServedFormat, served_format

BASE = "meta-llama/Llama-3.1-8B-Instruct"


def serve(name: str | None, card: str = "A100-80GB-SXM", loaded: LoadedModel | None = None) -> ServedFormat:
    engine, version = find_engine("vllm")
    return served_format(loaded or open_model(BASE), name, find_gpu(card), engine=engine, version=version)


def test_the_models_own_format_is_the_default() -> None:
    found = serve(None)
    assert (found.format.name, found.model_path, found.format.engine_flag) == ("bf16", BASE, "")
    assert found.warnings == ()


def test_a_known_checkpoint_is_loaded_and_needs_no_flag() -> None:
    found = serve("awq")
    assert found.format.name == "awq-int4"
    assert found.model_path != BASE
    assert found.format.engine_flag == ""
    assert found.kernel.speed.value == "fast"


def test_without_a_checkpoint_the_engine_quantises_while_loading() -> None:
    bare = replace(open_model(BASE), checkpoints={})
    found = serve("fp8", "H100-80GB-SXM", bare)
    assert (found.model_path, found.format.engine_flag) == (BASE, "fp8")


def test_without_either_the_user_is_told() -> None:
    bare = replace(open_model(BASE), checkpoints={})
    found = serve("awq-int4", loaded=bare)
    assert found.model_path == BASE
    assert "no AWQ" in found.warnings[0]


def test_a_repository_of_gguf_mixes_names_the_mix() -> None:
    engine, version = find_engine("llama.cpp")
    loaded = replace(open_model(BASE), checkpoints={"gguf": "someone/Llama-GGUF"})
    found = served_format(loaded, "q4_k_m", find_gpu("RTX-4090"), engine=engine, version=version)
    assert (found.format.name, found.model_path) == ("gguf-q4_k_m", "someone/Llama-GGUF:Q4_K_M")
    assert found.warnings == ()


def test_no_kernel_is_refused_with_what_runs() -> None:
    with pytest.raises(UnsupportedError, match="has no kernel for") as refused:
        serve("bf16", "V100-32GB-SXM")
    assert "fp16" in refused.value.hint
    with pytest.raises(InputError, match="unknown format"):
        serve("zip")


def test_32_bits_are_served_in_16() -> None:
    assert serve(None, "L4", open_model("BAAI/bge-m3")).format.name == "bf16"
    assert serve(None, "T4", open_model("BAAI/bge-m3")).format.name == "fp16"


def test_a_checkpoints_own_name_means_its_format() -> None:
    quantised = open_model(open_model(BASE).checkpoints["awq-int4"])
    found = serve(None, loaded=quantised)
    assert found.format.name == "awq-int4"
    assert found.model_path == quantised.model_id


def test_a_quantisation_without_rules_is_refused_by_name() -> None:
    loaded = open_model(BASE)
    strange = replace(loaded, spec=replace(loaded.spec, quantization="unknown:hqq"))
    with pytest.raises(UnsupportedError, match="'hqq'"):
        serve(None, loaded=strange)
    with pytest.raises(UnsupportedError, match="'hqq'"):
        anatomy(strange)
    weighed = anatomy(replace(strange, spec=replace(strange.spec, stored_bytes=5_000_000_000)))
    assert (weighed.format, weighed.weights_bytes) == ("unknown:hqq", 5_000_000_000)
    assert weighed.kv_bytes_per_token == 131_072
