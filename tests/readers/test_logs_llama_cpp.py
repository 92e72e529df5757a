"""Lines of llama.cpp: drafts, windows and indexers keep caches of their own."""

from __future__ import annotations

from tests.readers.logs import LOG_FOLDER, one


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
