"""LoRA slots: the buffers that an engine reserves at start for `max_loras` adapters of the largest rank.

Every linear layer that may carry an adapter gets A (rank x inputs) and B (outputs x rank) a slot, whatever the
loaded adapters target (vLLM: lora/layers). A is whole on every rank of a column-parallel layer and split over a
row-parallel one; B the other way round. Engines that also put adapters on the vocabulary hold A of the
embedding (vocabulary x rank) and B of the head, unsplit.
"""

from __future__ import annotations

from math import ceil

from cotenant.domain.engine import AdapterSlots
from cotenant.domain.model import ModelSpec, ParameterGroup, Role, Split
from cotenant.estimation.memo import IdentityCache
from cotenant.estimation.stages import copies_in_stage, stage_layers

_ROW_PARALLEL = ("o_proj", "down_proj", "out_proj", "dense_4h_to_h", "c_proj", "fc2")
_BYTES = 2  # slots are kept in the model's 16-bit dtype
_CACHE: IdentityCache[tuple[float, float]] = IdentityCache()


def adapter_bytes(
    model: ModelSpec,
    slots: AdapterSlots,
    ranks: int,
    stage: int,
    stages: int,
    on_vocabulary: bool,
    rest_last: bool = False,
) -> int:
    """Bytes of the slots on one rank of a stage."""
    linear, vocabulary = _CACHE.get(
        (model,),
        (ranks, stage, stages, rest_last),
        lambda: _elements_per_rank(model, ranks, stage, stages, rest_last),
    )
    elements = linear + (vocabulary if on_vocabulary else 0)
    return ceil(elements * _BYTES * slots.max_lora_rank * slots.max_loras)


def _elements_per_rank(
    model: ModelSpec, ranks: int, stage: int, stages: int, rest_last: bool
) -> tuple[float, float]:
    """(elements on linear layers, on the vocabulary) of one slot, for each unit of LoRA rank."""
    layers = stage_layers(model.num_layers, stages, rest_last)[stage]
    linear = vocabulary = 0.0
    for group in model.parameters:
        copies = copies_in_stage(group, layers, stage, stages) or (1 if group.tied and stages == 1 else 0)
        if group.role in (Role.ATTENTION, Role.MLP) and len(group.shape) == 2:
            linear += copies * _sides(group, ranks)
        elif group.role in (Role.EMBEDDING, Role.HEAD) and len(group.shape) == 2:
            vocabulary += copies * sum(group.shape)
    return linear, vocabulary


def _sides(group: ParameterGroup, ranks: int) -> float:
    outputs, inputs = group.shape
    if group.split is Split.NONE:
        return outputs + inputs
    if group.name.rpartition(".")[2] in _ROW_PARALLEL:
        return inputs / ranks + outputs
    heads = group.kv_heads if group.split is Split.KV else 0
    share = max(1, heads // ranks) / heads if heads else 1 / ranks
    return inputs + outputs * share
