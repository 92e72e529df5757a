# ruff: noqa: E501 - log lines are long
"""Lines of llama.cpp and Ollama: caches apart from the model's own, files without a name, experts on the host."""

from __future__ import annotations

import pytest

from tests.readers.logs import LOG_FOLDER, one, read


def test_a_draft_model_is_kept_apart() -> None:
    text = (LOG_FOLDER / "llama-cpp.log").read_text("utf-8")
    draft = "".join(
        line.replace("5133.63", "500.00").replace("256.00", "32.00") + "\n" for line in text.splitlines()[4:21]
    )
    found = one(text + draft)
    assert [f.value for f in found.every("model_buffer_mib")] == [545.62, 5133.63]
    assert [f.value for f in found.every("model_buffer_mib", "draft")] == [545.62, 500.00]
    assert [f.value for f in found.every("kv_buffer_mib", "draft")] == [32.00]


def test_windows_and_their_sections() -> None:
    found = one(
        "llama_kv_cache_iswa: creating non-SWA KV cache, size = 8192 cells\n"
        "llama_kv_cache:    Vulkan0 KV buffer size =   128.00 MiB\n"
        "llama_kv_cache_iswa: creating     SWA KV cache, size = 6144 cells\n"
        "llama_kv_cache:    Vulkan0 KV buffer size =  1920.00 MiB\n"
    )
    assert [f.value for f in found.every("kv_buffer_mib", "full")] == [128.0]
    assert [f.value for f in found.every("kv_buffer_mib", "swa")] == [1920.0]


def test_an_indexer_has_a_cache_of_its_own() -> None:
    found = one(
        "llama_kv_cache_dsa: creating main KV cache, size = 768000 cells\n"
        "llama_kv_cache:      CUDA0 KV buffer size = 46406.25 MiB\n"
        "llama_kv_cache_dsa: creating indexer KV cache, size = 768000 cells\n"
        "llama_kv_cache:      CUDA0 KV buffer size =  3000.00 MiB\n"
    )
    assert [f.value for f in found.every("kv_buffer_mib", "indexer")] == [3000.0]


@pytest.mark.parametrize("path", ["../models/qwen/model.gguf", "/root/.ollama/models/blobs/sha256-" + "0f" * 32])
def test_a_file_without_a_name_is_known_by_its_header(path: str) -> None:
    found = one(
        f"srv    load_model: loading model '{path}'\n"
        "llama_model_loader: - kv   2:   general.name str              = Qwen3 0.6B\n"
        "load_tensors:   CPU_Mapped model buffer size =   456.11 MiB\n"
    )
    assert found.model == "Qwen3 0.6B"


def test_experts_that_a_pattern_leaves_with_the_host() -> None:
    found = one(
        "llm_load_print_meta: model size       = 106.830 GiB (3.903 BPW)\n"
        "Tensor blk.92.ffn_up_exps.weight buffer type overriden to CPU\n"
        "tensor blk.93.ffn_gate_exps.weight (420 MiB q6_K) buffer type overridden to CPU\n"
        "Tensor blk.15.ffn_up_exps.weight buffer type overriden to CUDA0\n"
        "Tensor blk.15.ffn_norm.weight buffer type overriden to CPU\n"
    )
    assert [figure.value for figure in found.every("host_expert_layer")] == [92, 93]
    assert found.value("weight_bits") == 3.903


def test_each_model_of_an_ollama_has_the_servers_version() -> None:
    """Its variables are told once; one that is empty is followed by the next one's name."""
    load = 'level=INFO source=server.go:168 msg=offload library=cpu layers.model=49 layers.offload=0 memory.required.full="10.3 GiB"\n'
    found = read(
        'msg="server config" env="map[OLLAMA_KV_CACHE_TYPE: OLLAMA_LLM_LIBRARY: OLLAMA_NUM_PARALLEL:2]"\n'
        'msg="Listening on [::]:11434 (version 0.9.0)"\n'
        + (load + "llama_kv_cache_unified:        CPU KV buffer size =  1536.00 MiB\n")
        * 2
    ).measurements
    assert [one.engine_version for one in found] == ["0.9.0", "0.9.0"]
    assert all("type_k" not in one.settings for one in found)


def test_a_card_whose_name_has_brackets() -> None:
    found = one(
        "llama_model_load_from_file_impl: using device Vulkan0 (AMD RX 580 (RADV POLARIS10)) (0000:01:00.0) - 3912 MiB free\n"
        "load_tensors:      Vulkan0 model buffer size =   999.77 MiB\n"
    )
    assert found.gpu == "AMD RX 580 (RADV POLARIS10)"
