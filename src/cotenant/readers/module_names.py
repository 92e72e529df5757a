"""What checkpoints call our tensors, from the layer's number on: the names that a quantisation recipe spells."""

from __future__ import annotations

from functools import lru_cache

# Our block -> what checkpoints call the module that holds it.
_PARENTS = {
    "self_attn": ("self_attn", "attn", "attention", "mixer"),
    "kda": ("self_attn", "linear_attn"),
    "linear_attn": ("linear_attn",),
    "mixer": ("mixer", "mamba"),
    "mlp": ("mlp", "ffn", "feed_forward", "mixer"),
    "indexer": ("self_attn.indexer", "attn.indexer"),
    "compressor": ("self_attn.compressor", "attn.compressor"),
    "experts": ("mlp.experts", "block_sparse_moe.experts", "ffn.experts", "feed_forward.experts", "mixer.experts"),
    "shared_experts": (
        "mlp.shared_experts", "mlp.shared_expert", "ffn.shared_experts", "feed_forward.shared_expert",
        "block_sparse_moe.shared_experts", "mixer.shared_experts", "shared_mlp",
    ),
}  # fmt: skip
_PARENTS["shared_expert"] = _PARENTS["shared_experts"]
# Gemma 4 keeps its experts beside the MLP, not in it.
_BESIDE = {"experts": ("experts", "moe.experts")}
_BESIDE_FAMILIES = frozenset({"gemma4"})
_LAST = {
    "gate_proj": ("gate_proj", "w1", "gate_up_proj"), "up_proj": ("up_proj", "w3", "gate_up_proj"),
    "down_proj": ("down_proj", "w2"),
    "q_proj": ("q_proj", "qkv_proj", "wq"), "k_proj": ("k_proj", "qkv_proj", "wk"),
    "v_proj": ("v_proj", "qkv_proj", "wv"), "o_proj": ("o_proj", "wo"),
    "q_a_proj": ("q_a_proj", "wq_a"), "q_b_proj": ("q_b_proj", "wq_b"), "kv_proj": ("kv_proj", "wkv"),
    "o_a_proj": ("o_a_proj", "wo_a"), "o_b_proj": ("o_b_proj", "wo_b"),
    "in_proj_qkvz": ("in_proj_qkvz", "in_proj_qkv", "in_proj_z"),
    "in_proj_ba": ("in_proj_ba", "in_proj_b", "in_proj_a"),
}  # fmt: skip


@lru_cache(maxsize=2048)
def module_names(name: str, family: str) -> tuple[str, ...]:
    """Spellings of our tensor `name`, each with a leading dot: ``.self_attn.q_proj``, ``.attn.wq`` ..."""
    parent, dot, last = name.rpartition(".")
    beside = _BESIDE if family in _BESIDE_FAMILIES else {}
    parents = (beside.get(parent) or _PARENTS.get(parent) or (parent,)) if dot else ("",)
    ends = _LAST.get(last, (last,))
    names = [f".{where}.{end}" if where else f".{end}" for where in parents for end in ends]
    if parent == "experts":  # one expert stands for all of them
        names += [f".{where}.0.{end}" for where in parents for end in ends] + [f".{where}" for where in parents]
    return tuple(names)
