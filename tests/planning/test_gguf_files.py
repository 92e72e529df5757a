"""GGUF files by their path in a fleet: of any block type or mix, on the engines that open them."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from cotenant import estimate, plan

# (number of the file type, number of the block type, bytes of 32 elements)
KINDS = {
    "gguf-f16": (1, 1, 64), "gguf-bf16": (32, 30, 64), "gguf-q4_1": (3, 3, 20), "gguf-q4_0": (2, 2, 18),
    "gguf-q8_0": (7, 8, 34), "gguf-q5_1": (9, 7, 24), "gguf-iq4_nl": (25, 20, 18),
}  # fmt: skip
WIDTH, LAYERS, VOCAB = 256, 2, 512


def text(words: str) -> bytes:
    return struct.pack("<Q", len(words)) + words.encode()


def gguf_file(path: Path, kind: str) -> int:
    """Writes a llama of two layers without its data; returns the bytes that its matrices take."""
    file_type, block, block_bytes = KINDS[kind]
    keys = {
        "llama.block_count": LAYERS, "llama.embedding_length": WIDTH, "llama.feed_forward_length": 2 * WIDTH,
        "llama.context_length": 8192, "llama.attention.head_count": 4, "llama.attention.head_count_kv": 2,
        "general.file_type": file_type,
    }  # fmt: skip
    shapes = {"token_embd": (WIDTH, VOCAB), "output": (WIDTH, VOCAB)}
    for layer in range(LAYERS):
        shapes |= {f"blk.{layer}.attn_{name}": (WIDTH, WIDTH) for name in ("q", "output")}
        shapes |= {f"blk.{layer}.attn_{name}": (WIDTH, WIDTH // 2) for name in ("k", "v")}
        shapes |= {f"blk.{layer}.ffn_{name}": (WIDTH, 2 * WIDTH) for name in ("gate", "up")}
        shapes[f"blk.{layer}.ffn_down"] = (2 * WIDTH, WIDTH)
    body = b"GGUF" + struct.pack("<IQQ", 3, len(shapes), len(keys) + 1)
    body += text("general.architecture") + struct.pack("<I", 8) + text("llama")
    for name, value in keys.items():
        body += text(name) + struct.pack("<II", 4, value)
    total = 0
    for name, (inputs, outputs) in shapes.items():
        body += text(f"{name}.weight") + struct.pack("<IQQIQ", 2, inputs, outputs, block, total)
        total += inputs * outputs // 32 * block_bytes
    path.write_bytes(body + bytes(-len(body) % 32) + bytes(total))
    return total


def fleet(path: Path, engine: str) -> dict[str, object]:
    traffic = {"concurrent": 2, "context_tokens": {"p50": 500, "p95": 1500, "max": 4096}}
    return {
        "engine": engine, "gpus": [{"type": "L4", "count": 1}],
        "models": [{"name": "a", "model": str(path), "traffic": traffic}],
    }  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("engine", ["llama.cpp", "ollama"])
def test_a_file_is_planned_and_estimated_as_it_is_stored(kind: str, engine: str, tmp_path: Path) -> None:
    path = tmp_path / "own.gguf"
    total = gguf_file(path, kind)
    found = plan(fleet(path, engine))
    assert found.feasible
    (replica,) = found.replicas
    assert (replica.quantization, replica.checkpoint) == (kind, str(path))
    assert str(path) in replica.command or engine == "ollama"
    alone = estimate(path, gpu="L4", engine=engine, max_model_len=4096)
    assert alone.quantization == kind
    embedding = WIDTH * VOCAB * total // (2 * WIDTH * VOCAB + LAYERS * 9 * WIDTH * WIDTH)
    assert alone.per_gpu[0].weights.bytes.value == total - embedding  # the embedding stays with the host


@pytest.mark.parametrize("kind", ["gguf-f16", "gguf-q4_1", "gguf-q8_0"])
def test_other_engines_refuse_it_by_its_own_format(kind: str, tmp_path: Path) -> None:
    gguf_file(tmp_path / "own.gguf", kind)
    found = plan(fleet(tmp_path / "own.gguf", "vllm"))
    assert not found.feasible
    assert found.shortfalls[0].reason.startswith(f"{kind} on L4: GGUF is for llama.cpp and Ollama")
