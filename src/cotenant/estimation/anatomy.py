"""What a model is made of: parameters by role, bytes in each format, what a token and a sequence cost in cache."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from cotenant.catalogue.quantization import all_formats, find_format
from cotenant.domain.anatomy import Anatomy, GroupCache
from cotenant.domain.engine import EngineSettings
from cotenant.domain.loaded import LoadedModel
from cotenant.domain.model import AttentionKind, LayerGroup, ModelSpec, Role
from cotenant.engines.rules import CacheRules
from cotenant.estimation.kv_cache import cache_layout
from cotenant.estimation.served_format import own_format
from cotenant.estimation.weights import checkpoint_bytes


def anatomy(loaded: LoadedModel) -> Anatomy:
    """The model taken apart. Raises UnsupportedError where its format has no rules and no file told its size."""
    model = loaded.spec
    name, size = _stored(model)
    groups = tuple(_group_cache(model, group) for group in model.layer_groups)
    return Anatomy(
        model=loaded,
        format=name,
        weights_bytes=size,
        parameters_by_role=_by_role(model),
        active_parameters=_active(model),
        bytes_by_format=bytes_by_format(model),
        kv_bytes_per_token=sum(part.bytes_per_token for part in groups),
        kv_bytes_per_sequence=sum(part.bytes_per_sequence for part in groups),
        groups=groups,
    )


def _by_role(model: ModelSpec) -> Mapping[Role, int]:
    """Parameters of each role that has any, in the order of the roles; draft layers apart, as publishers count."""
    sums = {role: sum(part.elements for part in model.parameters_of(role) if not part.draft) for role in Role}
    return {role: count for role, count in sums.items() if count}


def _active(model: ModelSpec) -> int | None:
    """Parameters at work for one token of a mixture of experts; None for a dense model."""
    if not model.num_experts:
        return None
    experts = _by_role(model).get(Role.EXPERT, 0)
    return model.num_parameters - experts + experts * model.experts_per_token // model.num_experts


def _stored(model: ModelSpec) -> tuple[str, int]:
    """(format, bytes) of the checkpoint: by the format's rules, or as the files' headers say."""
    if model.stored_bytes is not None and model.quantization.startswith("unknown:"):
        return model.quantization, model.stored_bytes
    own = find_format(own_format(model))
    return own.name, checkpoint_bytes(model, own)


def bytes_by_format(model: ModelSpec) -> Mapping[str, int]:
    """Bytes of the weights in every format; a checkpoint that is stored quantised has its own alone."""
    if model.quantization:
        return dict([_stored(model)])
    return {each.name: checkpoint_bytes(model, each) for each in all_formats()}


def _group_cache(model: ModelSpec, group: LayerGroup) -> GroupCache:
    """The group alone by the general cache rules: full and latent layers count by token, the rest by sequence."""
    if group.kind is AttentionKind.NONE:
        return GroupCache(group, 0, 0)
    alone = replace(model, layer_groups=(group,))
    layout = cache_layout(alone, EngineSettings(block_size=1), CacheRules())
    grows = group.kind in (AttentionKind.FULL, AttentionKind.LATENT, AttentionKind.CROSS)
    per_token = layout.token_bytes() if grows else 0
    return GroupCache(group, per_token, 0 if grows else layout.needed_bytes(model.max_model_len))
