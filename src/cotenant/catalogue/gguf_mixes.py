"""What a GGUF mix such as Q4_K_M stores on average, by role.

A mix gives most tensors one type and some of them another, layer by layer (llama.cpp src/llama-quant.cpp). A
format does not know its model, so each rule is weighed by the share of tensors that it meets in a common model:
32 layers, query heads = 4 x key-value heads, not 8 experts, no importance matrix. The bytes of a file at hand
come from its header instead, exactly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cotenant.domain.model import Role
from cotenant.domain.storage import Storage

# Share of a role's elements: attention by 1 : 1/4 : 1/4 : 1 (query, key, value, output), the rest by thirds.
_TENSORS: Mapping[Role, Mapping[str, float]] = {
    Role.ATTENTION: {"attn_q": 0.4, "attn_k": 0.1, "attn_v": 0.1, "attn_output": 0.4},
    Role.MLP: {"ffn_gate": 1 / 3, "ffn_up": 1 / 3, "ffn_down": 1 / 3},
    Role.EXPERT: {"ffn_gate": 1 / 3, "ffn_up": 1 / 3, "ffn_down": 1 / 3},
}
# Share of a tensor's layers for which a condition holds in the common model.
_HOLDS: Mapping[str, float] = {
    "always": 1.0,
    "more_bits": 0.5,  # first eighth, last eighth, a third of the rest
    "index_below_2": 2 / 32,
    "index_below_4": 4 / 32,
    "layer_below_eighth": 1 / 8,
    "layer_below_sixteenth": 1 / 16,
    "layer_below_eighth_with_imatrix": 0.0,
    "layer_below_eighth_without_imatrix": 1 / 8,
    "gqa_at_least_4": 1.0,
    "model_70b": 0.0,
    "experts_8": 0.0,
    "not_experts_8": 1.0,
    "experts_8_and_more_bits": 0.0,
}
_FLOAT_BITS = 32  # norms, biases and routers stay F32


def mix_storage(mix: Mapping[str, Any], type_bits: Mapping[str, float]) -> Mapping[Role, Storage]:
    """Average bits of each role's elements, scales included. Raises KeyError for an unknown type or condition."""
    default, output = mix["default"], mix["output"] or mix["default"]
    storage = {
        role: Storage(_average(shares, default, mix["rules"], type_bits)) for role, shares in _TENSORS.items()
    }
    storage |= {role: Storage(type_bits[default]) for role in (Role.EMBEDDING, Role.STATE)}
    return storage | {Role.HEAD: Storage(type_bits[output]), Role.ROUTER: Storage(_FLOAT_BITS)}


def largest_bits(mix: Mapping[str, Any], tensor: str, type_bits: Mapping[str, float]) -> float:
    """Bits of an element where the mix gives that tensor most, in some layer of a common model."""
    return max(type_bits[name] for name, share in _types(tensor, mix["default"], mix["rules"]).items() if share)


def _average(
    shares: Mapping[str, float], default: str, rules: Sequence[Mapping[str, Any]], type_bits: Mapping[str, float]
) -> float:
    return sum(
        share * sum(part * type_bits[name] for name, part in _types(tensor, default, rules).items())
        for tensor, share in shares.items()
    )


def _types(tensor: str, default: str, rules: Sequence[Mapping[str, Any]]) -> Mapping[str, float]:
    """Type -> share of this tensor's layers; rules apply in order, so the last that holds wins."""
    types = {default: 1.0}
    for rule in rules:
        if tensor not in rule["tensors"]:
            continue
        holds, only = _HOLDS[rule["when"]], rule.get("from")
        moved = 0.0
        for name in list(types):
            if only is None or name in only:
                moved += types[name] * holds
                types[name] *= 1 - holds
        types[rule["type"]] = types.get(rule["type"], 0.0) + moved
    return types
