"""Speculative decoding: the draft's layers, weights and cache as part of the model that is served.

    mtp      the checkpoint's own multi-token prediction layers, reused for every further token
    others   a draft of its own (EAGLE, DFlash, a small model): its layers cache beside the target's; embedding and
             head are the target's (vLLM, v1/spec_decode/llm_base_proposer.py)
    n-gram   proposes from the prompt: no weights, no cache

A draft layer that caches as the target's do joins their block table; else it has one of its own, and layers are
dealt anew. Recurrent layers keep a state for every token that may be rejected (vLLM, layers/mamba/abstract.py:
num_speculative_blocks, and conv_kernel - 1 + tokens columns of the convolution).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from cotenant.domain.engine import EngineSettings, Speculation
from cotenant.domain.model import AttentionKind, LayerGroup, ModelSpec, ParameterGroup, Role
from cotenant.estimation.memo import IdentityCache

_OWN_LAYERS = ("mtp", "nextn", "deepseek_mtp", "qwen3_next_mtp")
_KEY = ("k_proj", "kv_a_proj_with_mqa", "kv_proj", "qkv_proj")
_CACHE: IdentityCache[ModelSpec] = IdentityCache()


def served_model(model: ModelSpec, settings: EngineSettings) -> ModelSpec:
    """The model as it is loaded under these settings: without its encoders where only text is served, with its
    draft where one is set; kept for the next call."""
    if settings.language_model_only:
        model = _CACHE.get((model,), "text", lambda: _text_alone(model))
    asked = settings.speculation
    if asked is None:
        return model
    return _CACHE.get((model, asked), 0, lambda: _with_draft(model, asked))


def _text_alone(model: ModelSpec) -> ModelSpec:
    """Without its towers and their projections (vLLM, config/multimodal.py, language_model_only; a model whose
    limits for every medium are 0 builds none either)."""
    kept = tuple(part for part in model.parameters if part.role is not Role.VISION)
    stored = model.stored_bytes if len(kept) == len(model.parameters) else None
    return replace(model, parameters=kept, modalities=("text",), stored_bytes=stored)


def _with_draft(model: ModelSpec, asked: Speculation) -> ModelSpec:
    states = tuple(_with_tokens(group, asked.tokens) for group in model.layer_groups)
    if asked.draft is not None:
        caches, weights = asked.draft.layer_groups, _placed(asked.draft, model)
    elif asked.method in _OWN_LAYERS:
        caches, weights = _own_caches(model), tuple(replace(p, draft=False) for p in model.parameters if p.draft)
    else:
        caches, weights = (), ()
    kept = tuple(part for part in model.parameters if not part.draft) if weights else model.parameters
    groups = _joined(states, caches, model.num_layers - 1)
    stored = None if weights else model.stored_bytes
    return replace(model, layer_groups=groups, parameters=(*kept, *weights), stored_bytes=stored)


def _with_tokens(group: LayerGroup, tokens: int) -> LayerGroup:
    """A state's convolution holds a further column for every token that may be rejected."""
    state = group.state
    if state is None or not state.conv_elements:
        return group
    columns = state.conv_elements * (state.conv_steps + tokens) // state.conv_steps
    return replace(group, state=replace(state, conv_elements=columns))


def prediction_layers(model: ModelSpec) -> ModelSpec | None:
    """The checkpoint's own prediction layers as a model, for engines that give them a context of their own beside
    the target's; embedding and output layer are the target's and no bytes of theirs. None where there are none."""
    caches = _own_caches(model)
    if not caches:
        return None
    numbers = tuple(range(len(caches[0].layers)))
    own = tuple(
        replace(
            part, name=part.name.partition(".")[2] or part.name, draft=False, layers=numbers,
            copies=max(1, part.copies // len(numbers)),
        )
        for part in model.parameters if part.draft
    )  # fmt: skip
    shared = tuple(replace(part, tied=True) for part in model.parameters if part.role is Role.HEAD)
    return replace(
        model, name=f"{model.name} (prediction layers)", layer_groups=(replace(caches[0], layers=numbers),),
        parameters=(*own, *shared), num_layers=len(numbers), stored_bytes=None,
    )  # fmt: skip


def _own_caches(model: ModelSpec) -> tuple[LayerGroup, ...]:
    """Multi-token prediction layers attend as the model's layers that keep everything do."""
    named = [part for part in model.parameters if part.draft and part.name.rpartition(".")[2] in _KEY]
    many = max((part.count for part in named), default=0)
    keeping = (AttentionKind.FULL, AttentionKind.LATENT)
    like = next((group for group in model.layer_groups if group.kind in keeping), None)
    if like is None or not many:
        return ()
    return (replace(like, layers=(0,) * many),)


def _placed(draft: ModelSpec, target: ModelSpec) -> tuple[ParameterGroup, ...]:
    """The draft's tensors on the last layer, without what it shares; the target's format is not theirs."""
    last = (target.num_layers - 1,)
    return tuple(
        replace(part, name=f"draft.{part.name}", role=Role.OTHER, layers=last * (len(part.layers) or 1))
        for part in draft.parameters
        if part.role not in (Role.EMBEDDING, Role.HEAD) and not part.draft
    )


def _joined(groups: tuple[LayerGroup, ...], drafts: Iterable[LayerGroup], last: int) -> tuple[LayerGroup, ...]:
    """The draft's layers stand behind the last one; those that cache alike share a group."""
    found = list(groups)
    for draft in drafts:
        layers = (last,) * len(draft.layers)
        place = next((n for n, group in enumerate(found) if _caching(group) == _caching(draft)), None)
        if place is None:
            found.append(replace(draft, layers=layers))
        else:
            found[place] = replace(found[place], layers=(*found[place].layers, *layers))
    return tuple(found)


def _caching(group: LayerGroup) -> tuple[object, ...]:
    return (group.kind, group.kv_heads, group.key_width, group.value_width, group.window, group.index_width)
