"""Files that a hub would hold, written from the catalogue: config.json, a safetensors header without its tensors,
and the folder layout of a hub's local cache. Programs that insist on a hub read these instead."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from copy import deepcopy
from math import prod
from pathlib import Path
from typing import Any

from bench.peer_tasks import Kind, Task
from cotenant.catalogue.models import ModelEntry, find_entry

_REVISION = "0" * 40
_BYTES = {"BF16": 2, "F16": 2, "I32": 4}
_AWQ = {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True, "version": "gemm"}

Shapes = dict[str, tuple[str, tuple[int, ...]]]


def write_model(task: Task, folder: Path, *, quantized: bool = True) -> Path:
    """FOLDER/config.json and FOLDER/model.safetensors (a header; the tensors themselves are absent). `quantized`
    false: the config says nothing of the format, which is then given as a flag."""
    folder.mkdir(parents=True, exist_ok=True)
    entry = _entry(task)
    config = config_of(entry)
    if task.kind is Kind.WEIGHTS and quantized:
        config = {**config, "torch_dtype": "float16", "quantization_config": _AWQ}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "model.safetensors").write_bytes(header(_shapes(task, entry)))
    return folder


def write_hub_cache(task: Task, home: Path) -> Path:
    """A hub's cache holding the task's unquantised model: its config and the total of its weights."""
    entry = _entry(task)
    model = home / "hub" / f"models--{task.model.replace('/', '--')}"
    snapshot = model / "snapshots" / _REVISION
    snapshot.mkdir(parents=True, exist_ok=True)
    (model / "refs").mkdir(exist_ok=True)
    (model / "refs" / "main").write_text(_REVISION, encoding="utf-8")
    (snapshot / "config.json").write_text(json.dumps(config_of(entry)), encoding="utf-8")
    index = {"metadata": {"total_size": 2 * entry.published.parameters}, "weight_map": {}}
    (snapshot / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    return home


def config_of(entry: ModelEntry) -> dict[str, Any]:
    """The catalogue's config, its windows written out as `layer_types` (as transformers saves them today)."""
    config: dict[str, Any] = deepcopy(dict(entry.config))
    text = config.get("text_config", config)
    pattern = text.pop("sliding_window_pattern", None)
    if pattern and "layer_types" not in text:
        text["layer_types"] = [
            "sliding_attention" if number % pattern else "full_attention"
            for number in range(1, text["num_hidden_layers"] + 1)
        ]
    return config


def header(shapes: Mapping[str, tuple[str, tuple[int, ...]]]) -> bytes:
    """A safetensors file up to where its tensors would begin."""
    told: dict[str, object] = {}
    end = 0
    for name, (dtype, shape) in shapes.items():
        start, end = end, end + _BYTES[dtype] * prod(shape)
        told[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [start, end]}
    text = json.dumps(told).encode()
    return struct.pack("<Q", len(text)) + text


def _shapes(task: Task, entry: ModelEntry) -> Shapes:
    if task.kind is Kind.WEIGHTS:
        return awq_shapes(entry.config)
    return {"model.weight": ("BF16", (entry.published.parameters,))}  # a total is enough: the cache is asked for


def awq_shapes(config: Mapping[str, Any]) -> Shapes:
    """Every tensor of a Qwen2 checkpoint in AWQ's own layout (4 bits, groups of 128)."""
    hidden, inner, vocabulary = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    kv = config["num_key_value_heads"] * config["head_dim"]
    found: Shapes = {"model.embed_tokens.weight": ("F16", (vocabulary, hidden))}
    for number in range(config["num_hidden_layers"]):
        layer = f"model.layers.{number}"
        for name, outputs in (("q_proj", hidden), ("k_proj", kv), ("v_proj", kv)):
            found |= _linear(f"{layer}.self_attn.{name}", hidden, outputs)
            found[f"{layer}.self_attn.{name}.bias"] = ("F16", (outputs,))
        found |= _linear(f"{layer}.self_attn.o_proj", hidden, hidden)
        found |= _linear(f"{layer}.mlp.gate_proj", hidden, inner)
        found |= _linear(f"{layer}.mlp.up_proj", hidden, inner)
        found |= _linear(f"{layer}.mlp.down_proj", inner, hidden)
        found[f"{layer}.input_layernorm.weight"] = ("F16", (hidden,))
        found[f"{layer}.post_attention_layernorm.weight"] = ("F16", (hidden,))
    return found | {"model.norm.weight": ("F16", (hidden,)), "lm_head.weight": ("F16", (vocabulary, hidden))}


def _linear(name: str, inputs: int, outputs: int, group: int = 128) -> Shapes:
    return {
        f"{name}.qweight": ("I32", (inputs, outputs // 8)),
        f"{name}.qzeros": ("I32", (inputs // group, outputs // 8)),
        f"{name}.scales": ("F16", (inputs // group, outputs)),
    }


def _entry(task: Task) -> ModelEntry:
    entry = find_entry(task.model)
    if entry is None:
        raise LookupError(f"{task.model} is not in the catalogue")
    return entry
