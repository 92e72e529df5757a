"""A draft for speculative decoding as a structure: its layers and the projection of the target's hidden states."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from cotenant.catalogue.drafts import DraftEntry, all_drafts
from cotenant.domain.engine import Speculation
from cotenant.domain.loaded import LoadedModel
from cotenant.domain.model import AttentionKind, ModelSpec, ParameterGroup, Role
from cotenant.engines.speculative import Asked
from cotenant.errors import CotenantError, InputError, UnsupportedError
from cotenant.readers.blocks import Groups, attention, cache_groups, gated_mlp, norm
from cotenant.readers.model_config import read_model_config

_DRAFT_VOCABULARY = 32_000  # what EAGLE-3 heads are published with
_HEADS = ("eagle", "eagle3")


def open_speculation(
    asked: Asked | None, target: ModelSpec, load: Callable[[str], LoadedModel]
) -> Speculation | None:
    """What was asked, with the structure of its draft; None for nothing. `load` opens a model by name.

    A head's config names a class that is no model of its own, so it is taken as such heads are published. Raises
    InputError and its kin.
    """
    if asked is None:
        return None
    if asked.method == "mtp" and not target.num_draft_parameters:
        raise InputError(f"{target.name} has no layer for multi-token prediction", hint="name a draft of its own")
    draft = _draft(asked, target, load) if asked.draft else None
    return Speculation(asked.method, asked.tokens, draft)


def _draft(asked: Asked, target: ModelSpec, load: Callable[[str], LoadedModel]) -> ModelSpec:
    known = next((entry for entry in all_drafts() if entry.id.lower() == asked.draft.lower()), None)
    if known is not None:
        return draft_model(known)
    if asked.method in _HEADS:
        return eagle_head(target, asked.draft, third=asked.method == "eagle3")
    try:
        found = load(asked.draft).spec
    except CotenantError as error:
        raise InputError(f"the draft: {error.message}", hint=error.hint) from error
    if found.encoder_only:
        raise InputError(f"{found.name} embeds and writes nothing: it is no draft")
    return found


def draft_model(entry: DraftEntry) -> ModelSpec:
    """The structure of a known draft; the projection is whole on every rank (vLLM, models/qwen3_dflash.py).

    Raises InputError's kin where its config cannot be read.
    """
    model = read_model_config(entry.config, name=entry.id, source=entry.source)
    shape = (model.hidden_size, entry.features * model.hidden_size)
    return replace(model, parameters=(*model.parameters, ParameterGroup("fc", Role.OTHER, shape)))


def eagle_head(target: ModelSpec, name: str, *, third: bool) -> ModelSpec:
    """EAGLE's head for `target`, as heads are published: one layer of the target's own shape behind a projection.

    EAGLE (arXiv 2401.15077) projects embedding and state, 2h to h; EAGLE-3 (2503.01840) three states, 3h to h,
    reads both in its attention (2h wide) and has an output layer of 32,000 tokens: 424.6M parameters for
    Llama-3.1-8B.
    Raises UnsupportedError where the target's layers are no plain attention.
    """
    like = next(
        (g for g in target.layer_groups if g.kind is AttentionKind.FULL and g.key_width == g.value_width), None
    )
    if like is None:
        raise UnsupportedError(
            f"nothing says what an EAGLE head of {target.name} is made of", hint="name the folder of the draft"
        )
    hidden, one = target.hidden_size, (0,)
    inputs = 2 * hidden if third else hidden
    layer = attention(one, hidden, like.query_heads, like.kv_heads, like.key_width)
    layer = tuple(
        part if part.name.endswith("o_proj") else replace(part, shape=(part.shape[0], inputs)) for part in layer
    )
    layer += gated_mlp(one, hidden, target.intermediate_size) + norm("norms", hidden, layers=one, copies=3)
    once: Groups = (ParameterGroup("fc", Role.OTHER, (hidden, (3 if third else 2) * hidden)),)
    if third:
        once += (ParameterGroup("draft_head", Role.OTHER, (_DRAFT_VOCABULARY, hidden)),)
    caches = cache_groups([None], like.query_heads, like.kv_heads, like.key_width)
    return replace(
        target, name=name, layer_groups=caches, parameters=layer + once, num_layers=1, stored_bytes=None,
        quantization="", cache_dtype="", num_experts=0, experts_per_token=0,
    )  # fmt: skip
