"""Plans of engines that allocate what they are told to: replicas side by side, each charged its footprint."""

import pytest

from cotenant import plan

FLEET = {
    "gpus": [{"type": "RTX-4090", "count": 1}],
    "models": [
        {
            "name": "chat", "model": "Qwen/Qwen3-8B", "quantization": ["gguf-q4_k_m"],
            "traffic": {"concurrent": 4, "context_tokens": {"p50": 500, "p95": 1500, "max": 4096}},
        },
        {
            "name": "small", "model": "Qwen/Qwen3-4B", "quantization": ["gguf-q8_0"],
            "traffic": {"concurrent": 2, "context_tokens": {"p50": 500, "p95": 1500, "max": 4096}},
        },
    ],
}  # fmt: skip


@pytest.mark.parametrize("engine", ["llama.cpp", "ollama"])
def test_two_replicas_share_a_card(engine):
    found = plan({**FLEET, "engine": engine})
    assert found.feasible
    assert {replica.model for replica in found.replicas} == {"chat", "small"}
    card = found.gpus[0]
    claimed = 0
    for share in card.shares:
        terms = (share.weights_bytes, share.kv_cache_bytes, share.activations_bytes, share.runtime_bytes)
        assert share.budget_bytes == sum(terms)
        claimed += sum(terms)
    assert card.headroom_bytes == card.capacity_bytes - claimed > 0
    for replica in found.replicas:
        assert replica.settings.llama_cpp.n_parallel == replica.settings.max_num_seqs
        assert replica.kv_needed_bytes > 0


def test_commands_are_the_servers_own():
    found = plan({**FLEET, "engine": "llama.cpp@b10229"})
    for replica in found.replicas:
        assert replica.command[0] == "llama-server"
        assert "-ngl" in replica.command
        assert str(replica.settings.llama_cpp.n_ctx) in replica.command
