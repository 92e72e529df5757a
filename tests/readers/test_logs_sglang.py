# ruff: noqa: E501 - log lines are long
"""Lines of SGLang."""

from __future__ import annotations

from tests.readers.logs import one, values


def test_sglang_prints_its_pools_in_several_ways() -> None:
    found = one(
        "[2026-02-26 05:35:08 TP0] Using KV cache dtype: torch.float8_e4m3fn\n"
        "[2026-02-26 05:35:08 TP7] KV Cache is allocated. #tokens: 3262823, KV size: 186.77 GB\n"
        "[2026-02-26 05:35:09 TP0] Capture decode CUDA graph end. elapsed=0.78 s, mem usage=0.12 GB, avail mem=0.5 GB.\n"
    )
    assert values(found, "kv_cache_tokens", "available_kv_gib", "cudagraph_gib") == [3262823, 186.77, 0.12]
    assert found.settings["kv_cache_dtype"] == "float8_e4m3fn"
    jetson = one("[2026-05-14 10:55:40 TP0] KV Cache is allocated. K size: 4.41 GB, V size: 4.41 GB.\n")
    assert values(jetson, "sglang_k_gib", "sglang_v_gib", "available_kv_gib") == [4.41, 4.41, 8.82]
