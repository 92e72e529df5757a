"""What each tensor of a GGUF file does in the model, from its name.

Names are those of https://github.com/ggml-org/llama.cpp (src/llama-arch.cpp): ``token_embd``, ``output``, then
``blk.N.`` with attn_*, ffn_*, ffn_*_exps (all experts in one tensor), ffn_*_shexp, ssm_*, nextn.*.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from cotenant.domain.model import ParameterGroup, Role, Split, Stage
from cotenant.readers.tensors import TensorInfo

_BLOCK = re.compile(r"blk\.([0-9]{1,5})\.(.+)")
_CONSTANTS = ("rope_freqs", "rope_factors_long", "rope_factors_short")  # computed by the converter, not learnt
_SCALED_TYPES = {"NVFP4", "MXFP4", "TQ1_0", "TQ2_0"}  # their scales stand beside them, and are no parameters

_ROLES: tuple[tuple[str, Role], ...] = (  # the first that matches, by the name without .weight and .bias
    (r".*norm(_\d|_exps)?$|.*_norm_(a|b)$", Role.NORM),
    (r"(token_embd|token_types|position_embd|per_layer_token_embd)$", Role.EMBEDDING),
    (r"output$", Role.HEAD),
    (r"ffn_gate_inp(_shexp)?$|exp_probs_b$|ffn_.*_exps\.scale$", Role.ROUTER),
    (r"ffn_.*_(ch)?exps$", Role.EXPERT),
    (r"ffn_", Role.MLP),
    (r"ssm_|shortconv", Role.STATE),
    (r"attn_", Role.ATTENTION),
)  # fmt: skip
_ROW_PARALLEL = re.compile(r"(attn_output|attn_out|ffn_down(_shexp|_exps)?|ssm_out)\.bias$")
_WHOLE = re.compile(r"attn_(q_a|kv_a_mqa)|attn_rel")


def parameter_groups(
    tensors: Iterable[TensorInfo],
    *,
    num_layers: int,
    kv_heads: Sequence[int],
    recurrent: frozenset[int],
    dtype: str,
) -> tuple[ParameterGroup, ...]:
    """The tensors as groups, alike ones of several layers in one; their elements add up to the file's own.

    Blocks from `num_layers` on are draft layers (multi-token prediction). A file without ``output`` reads its
    embedding there again: a tied head. `kv_heads` has one number a block; in a block of `recurrent` attn_*
    tensors belong to the linear mixer.
    """
    by_shape: dict[tuple[str, tuple[int, ...], bool, int], dict[int, int]] = {}  # -> bytes by block
    types = {tensor.name: tensor.dtype for tensor in tensors}
    for tensor in tensors:
        if _is_parameter(tensor, types):
            block, name = _place(tensor.name)
            width = kv_heads[block] if 0 <= block < len(kv_heads) else 0
            mixer = "state:" if block in recurrent and not name.startswith("ffn") else ""
            by_shape.setdefault((mixer + name, tensor.shape, tensor.dtype == "F32", width), {})[block] = (
                tensor.bytes
            )
    groups = tuple(
        part
        for (name, shape, is_fp32, width), blocks in by_shape.items()
        for part in _groups(name, shape, blocks, num_layers, width, "fp32" if is_fp32 and dtype != "fp32" else "")
    )
    return groups + _tied_head(groups)


def _is_parameter(tensor: TensorInfo, types: dict[str, str]) -> bool:
    base, _, last = tensor.name.rpartition(".")
    if last in ("scale", "input_scale") and types.get(f"{base}.weight") in _SCALED_TYPES:
        return False
    return not any(constant in tensor.name for constant in _CONSTANTS)


def _place(name: str) -> tuple[int, str]:
    """(block, name within it); block -1 outside the layers."""
    match = _BLOCK.fullmatch(name)
    return (int(match.group(1)), match.group(2)) if match else (-1, name)


def _groups(
    name: str, shape: tuple[int, ...], blocks: dict[int, int], num_layers: int, kv_heads: int, dtype: str
) -> Iterable[ParameterGroup]:
    """The group in the layers, the one outside them and the draft one, each where it has tensors."""
    is_state, name = name.startswith("state:"), name.removeprefix("state:").removesuffix(".weight")
    role = _role(name)
    if is_state and role is Role.ATTENTION:
        role = Role.STATE
    split = _split(name, role)
    kv_heads = kv_heads if split is Split.KV else 0
    layers = tuple(sorted(block for block in blocks if 0 <= block < num_layers))
    if layers:
        size = sum(blocks[layer] for layer in layers)
        yield ParameterGroup(
            name, role, shape, split, 1, layers, kv_heads=kv_heads, dtype=dtype, stored_bytes=size
        )
    drafts = sum(block >= num_layers for block in blocks)
    if drafts:
        yield ParameterGroup(
            f"mtp.{name}", role, shape, split, drafts, stage=Stage.LAST, kv_heads=kv_heads, dtype=dtype, draft=True
        )
    if -1 in blocks:
        stage = Stage.LAST if role in (Role.HEAD, Role.NORM) and not name.startswith("token") else Stage.FIRST
        yield ParameterGroup(name, role, shape, split, 1, stage=stage, dtype=dtype, stored_bytes=blocks[-1])


def _role(name: str) -> Role:
    plain = name.removesuffix(".bias")
    return next((role for pattern, role in _ROLES if re.match(pattern, plain)), Role.OTHER)


def _split(name: str, role: Role) -> Split:
    """As vLLM's parallel layers divide the same tensors (llama.cpp divides by layers or rows instead)."""
    if role in (Role.EMBEDDING, Role.HEAD):
        return Split.VOCAB if name.startswith(("token_embd", "output", "per_layer")) else Split.NONE
    if role in (Role.NORM, Role.ROUTER, Role.OTHER) or _ROW_PARALLEL.match(name) or _WHOLE.match(name):
        return Split.NONE
    return Split.KV if re.match(r"attn_[kv](\.bias)?$", name) and role is Role.ATTENTION else Split.EVEN


def _tied_head(groups: tuple[ParameterGroup, ...]) -> tuple[ParameterGroup, ...]:
    if any(group.role is Role.HEAD for group in groups):
        return ()
    embedding = next((group for group in groups if group.name == "token_embd"), None)
    if embedding is None:
        return ()
    return (ParameterGroup("output", Role.HEAD, embedding.shape, Split.VOCAB, stage=Stage.LAST, tied=True),)
