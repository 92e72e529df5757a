"""Small GGUF files with random weights, of shapes that no small real model has. Memory is exact all the same."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

WIDTH, LAYERS, VOCABULARY = 512, 4, 4096
_HEADS, _KV_HEADS, _HEAD = 8, 2, 64
Shapes = dict[str, tuple[int, ...]]


def write(folder: Path, kind: str) -> Path:
    """The file of a ``qwen3``, ``gemma3`` (sliding window) or ``qwen35`` (recurrent layers) of a few megabytes."""
    settings, tensors = {"qwen3": _qwen3, "gemma3": _gemma3, "qwen35": _qwen35}[kind]()
    path = folder / f"{kind}.gguf"
    _write(path, kind, settings, tensors)
    return path


def _write(path: Path, arch: str, settings: Mapping[str, Any], tensors: Shapes) -> None:
    import gguf
    import numpy

    writer = gguf.GGUFWriter(path, arch)
    for key, value in settings.items():
        name = f"{arch}.{key}"
        if isinstance(value, list):
            writer.add_array(name, value)
        elif isinstance(value, int):
            writer.add_uint32(name, value)
        else:
            writer.add_float32(name, value)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([f"t{number}" for number in range(VOCABULARY)])
    writer.add_token_types([gguf.TokenType.NORMAL] * VOCABULARY)
    writer.add_token_merges(["t 1"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    for name, shape in tensors.items():
        plain = len(shape) == 1 or "conv" in name or "norm" in name
        writer.add_tensor(name, numpy.zeros(shape, numpy.float32 if plain else numpy.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _common() -> dict[str, Any]:
    return {
        "block_count": LAYERS, "context_length": 8192, "embedding_length": WIDTH, "feed_forward_length": 2 * WIDTH,
        "attention.head_count": _HEADS, "attention.head_count_kv": _KV_HEADS, "attention.key_length": _HEAD,
        "attention.value_length": _HEAD, "attention.layer_norm_rms_epsilon": 1e-5, "rope.freq_base": 10000.0,
        "rope.dimension_count": _HEAD,
    }  # fmt: skip


def _attention(layer: int) -> Shapes:
    part = f"blk.{layer}."
    return {
        part + "attn_norm.weight": (WIDTH,),
        part + "attn_q.weight": (_HEADS * _HEAD, WIDTH),
        part + "attn_k.weight": (_KV_HEADS * _HEAD, WIDTH),
        part + "attn_v.weight": (_KV_HEADS * _HEAD, WIDTH),
        part + "attn_output.weight": (WIDTH, _HEADS * _HEAD),
        part + "attn_q_norm.weight": (_HEAD,),
        part + "attn_k_norm.weight": (_HEAD,),
    }


def _feed_forward(layer: int) -> Shapes:
    part = f"blk.{layer}."
    return {
        part + "ffn_gate.weight": (2 * WIDTH, WIDTH),
        part + "ffn_up.weight": (2 * WIDTH, WIDTH),
        part + "ffn_down.weight": (WIDTH, 2 * WIDTH),
    }


def _ends(*, tied: bool = False) -> Shapes:
    found: Shapes = {"token_embd.weight": (VOCABULARY, WIDTH), "output_norm.weight": (WIDTH,)}
    return found if tied else found | {"output.weight": (VOCABULARY, WIDTH)}


def _qwen3() -> tuple[dict[str, Any], Shapes]:
    tensors = _ends()
    for layer in range(LAYERS):
        tensors |= _attention(layer) | _feed_forward(layer) | {f"blk.{layer}.ffn_norm.weight": (WIDTH,)}
    return _common(), tensors


def _gemma3() -> tuple[dict[str, Any], Shapes]:
    tensors = _ends(tied=True)
    for layer in range(LAYERS):
        part = f"blk.{layer}."
        norms = ("ffn_norm", "post_attention_norm", "post_ffw_norm")
        tensors |= _attention(layer) | _feed_forward(layer) | {f"{part}{name}.weight": (WIDTH,) for name in norms}
    return _common() | {"attention.sliding_window": 256}, tensors


def _qwen35() -> tuple[dict[str, Any], Shapes]:
    """Every fourth layer attends, the others are gated delta nets with a state."""
    state, groups, heads = 64, 4, 8
    inner, tensors = state * heads, _ends()
    channels = inner + 2 * groups * state
    for layer in range(LAYERS):
        part = f"blk.{layer}."
        tensors |= _feed_forward(layer) | {part + "post_attention_norm.weight": (WIDTH,)}
        if (layer + 1) % 4 == 0:
            tensors |= _attention(layer) | {part + "attn_q.weight": (2 * _HEADS * _HEAD, WIDTH)}
            continue
        tensors |= {
            part + "attn_norm.weight": (WIDTH,), part + "attn_qkv.weight": (channels, WIDTH),
            part + "attn_gate.weight": (inner, WIDTH), part + "ssm_conv1d.weight": (channels, 4),
            part + "ssm_dt.bias": (heads,), part + "ssm_a": (heads,), part + "ssm_beta.weight": (heads, WIDTH),
            part + "ssm_alpha.weight": (heads, WIDTH), part + "ssm_norm.weight": (state,),
            part + "ssm_out.weight": (WIDTH, inner),
        }  # fmt: skip
    return _common() | {
        "ssm.conv_kernel": 4, "ssm.state_size": state, "ssm.group_count": groups, "ssm.time_step_rank": heads,
        "ssm.inner_size": inner, "full_attention_interval": 4, "rope.dimension_sections": [11, 11, 10, 0],
    }, tensors  # fmt: skip
