"""Activations: the most that the start-up profile run holds beside the weights.

    peak   = max(widest layer x max_num_batched_tokens, sampler) + vision outputs, or the vision encoder's run
    layer  = residual + normed input + the widest of: query-key-value twice (before and after rotary) + output;
             gate-up + their product; experts' workspaces (tokens x top-k x the larger of 2 x inner and hidden,
             and tokens x top-k x inner), all divided over tensor-parallel ranks
    sampler= max_num_seqs rows x padded vocabulary x bytes alive per logit + all tokens' hidden states

The sampler's part does not depend on the model's size nor on tensor parallel: logits are gathered whole. A model
without an output head (one that embeds) samples nothing: its run ends in a pooler (vLLM, v1/worker/
gpu_model_runner.py, profile_run).
"""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.domain.engine import EngineSettings
from cotenant.domain.estimate import Term
from cotenant.domain.interval import Interval
from cotenant.domain.model import AttentionKind, ModelSpec, ParameterGroup, Role, Split
from cotenant.engines.rules import ProfileRules
from cotenant.estimation.eager_run import EagerShape, Kept, eager_run
from cotenant.estimation.memo import IdentityCache
from cotenant.estimation.vision import encoder_run
from cotenant.units import MIB

_ELEMENT = 2  # activations are computed in a 16-bit dtype


@dataclass(frozen=True, slots=True)
class LayerWidths:
    """Elements a token of one rank inside a layer, the widest of all layers."""

    hidden: int
    attention: float  # query, key, value (and gates) of one rank
    output: float  # what the output projection reads
    inner: float  # dense feed-forward: gate and up together
    expert: float  # one expert: gate and up together
    expert_product: float
    state: float  # recurrent mixers' projections
    latent_up: float  # MLA: keys and values after the up-projection
    index: int  # bytes of an indexer's key
    streams: int  # parallel residual streams (hyper-connections)


_WIDTHS: IdentityCache[LayerWidths] = IdentityCache(4096)
_TERMS: IdentityCache[Term] = IdentityCache(4096)


def activations(
    model: ModelSpec, settings: EngineSettings, rules: ProfileRules, *, last_stage: bool = True
) -> Term:
    """The peak of one rank, from resolved settings; only a pipeline's last stage samples."""
    key = (
        settings.tensor_parallel_size, settings.max_num_batched_tokens, settings.max_num_seqs, last_stage,
        settings.max_model_len if minds_length(model, rules) else 0, settings.max_input_tokens,
        settings.block_size, settings.enforce_eager, settings.max_graph_batch,
    )  # fmt: skip
    return _TERMS.get((model, rules), key, lambda: _activations(model, settings, rules, last_stage))


def minds_length(model: ModelSpec, rules: ProfileRules) -> bool:
    """Whether they change with max_model_len: MLA's workspace, whole prompts, a slot's tokens, a video's."""
    filmed = (rules.video_frames or rules.video_stamps) and len(model.modalities) > 1
    latent = any(group.kind is AttentionKind.LATENT for group in model.layer_groups)
    return bool(latent or filmed or rules.whole_prompts or rules.slot_token_bytes)


def given_back(model: ModelSpec, settings: EngineSettings, rules: ProfileRules) -> int:
    """Of `activations`, bytes that PyTorch keeps unused and gives back before an allocation fails."""
    if not rules.counts_reserved:
        return 0
    kept = _kept(model, settings, rules)
    return kept.reserved_bytes - kept.peak_bytes


def _activations(model: ModelSpec, settings: EngineSettings, rules: ProfileRules, last_stage: bool) -> Term:
    if rules.counts_reserved:
        return _reserved(model, settings, rules)
    widths = _WIDTHS.get(
        (model,), settings.tensor_parallel_size, lambda: _widths(model, settings.tensor_parallel_size)
    )
    tokens = settings.max_num_batched_tokens or 1
    layer = _layer_bytes(model, widths, tokens, settings, rules)
    sampler, rows = 0.0, 0
    samples = last_stage and not model.encoder_only and next(model.parameters_of(Role.HEAD), None) is not None
    if samples:
        rows = _rows(settings, tokens, rules)
        sampler = _sampler_bytes(model, rows, tokens, rules)
    resident = rows * model.vocab_size * rules.resident_logit_bytes + _slot_bytes(model, settings, rules)
    prompts = _prompt_logits(model, tokens, settings, rules) if samples else 0.0
    if prompts > max(layer, sampler):
        return _whole_prompts(model, tokens, prompts, resident)
    text = max(layer, sampler) + resident
    least = text
    if sampler > layer and rules.logit_bytes_low < rules.logit_bytes:
        least = max(layer, sampler * rules.logit_bytes_low / rules.logit_bytes) + resident
    what = f"{rows} rows of {model.vocab_size:,} logits"
    if sampler <= layer:
        what = f"{tokens:,} tokens in the widest layer"
        what += f", and what {_slots(settings, rows, rules)} keep" if resident else ""
    low, high = _doubts(model, least, text, sampler > layer)
    images = encoder_run(
        model, tokens, settings.tensor_parallel_size, frames=rules.video_frames,
        length=settings.max_model_len or 0, stamped=rules.video_stamps,
    )  # fmt: skip
    if images is None:
        return Term(Interval(round(low), round(text), round(high)), f"{rules.run}: {what}")
    value = max(text + images.kept, images.peak)
    what += "; the vision encoder's images are known only roughly"
    most = max(high, value) + images.doubt * images.peak
    return Term(Interval(round(low), round(value), round(most)), f"{rules.run}: {what}")


def _reserved(model: ModelSpec, settings: EngineSettings, rules: ProfileRules) -> Term:
    """What the allocator keeps; where a freed block was split, the logits may have needed one more."""
    tokens, kept = settings.max_num_batched_tokens or 1, _kept(model, settings, rules)
    value, peak = kept.reserved_bytes, kept.peak_bytes
    logits = tokens * model.vocab_size * _ELEMENT if rules.prompt_logit_bytes else 0
    low, high = max(peak, 0.92 * value), value * 1.15 + max(logits, 150 * MIB)
    what = f"{tokens:,} prompt tokens" + (f" with {model.vocab_size:,} logits each, unsplit" if logits else "")
    why = f"{rules.run}: all that PyTorch keeps of {what}"
    images = encoder_run(model, tokens, settings.tensor_parallel_size)
    if images is None:
        return Term(Interval(round(low), value, round(high)), why)
    middle = max(value + images.kept, images.peak)
    most = max(high, middle) + images.doubt * images.peak
    return Term(
        Interval(round(low), round(middle), round(most)),
        f"{why}; the vision encoder's images are known only roughly",
    )


_KEPT: IdentityCache[Kept] = IdentityCache(1024)


def _kept(model: ModelSpec, settings: EngineSettings, rules: ProfileRules) -> Kept:
    tokens, ranks = settings.max_num_batched_tokens or 1, settings.tensor_parallel_size
    rows = _rows(settings, tokens, rules)
    return _KEPT.get(
        (model, rules), (tokens, ranks, rows), lambda: eager_run(_shape(model, tokens, ranks, rows, rules))
    )


def _shape(model: ModelSpec, tokens: int, ranks: int, rows: int, rules: ProfileRules) -> EagerShape:
    widths = _WIDTHS.get((model,), ranks, lambda: _widths(model, ranks))
    experts = widths.expert * (model.experts_per_token or 1)
    return EagerShape(
        tokens=tokens, hidden=model.hidden_size, attention=widths.attention, output=widths.output,
        inner=max(widths.inner, experts), vocabulary=model.vocab_size if rules.prompt_logit_bytes else 0,
        ranks=ranks, logit_copies=2 if rules.prompt_logit_bytes > _ELEMENT else 1,
        sampler_bytes=round(rows * model.vocab_size * rules.logit_bytes), output_copies=rules.output_copies,
    )  # fmt: skip


def _slots(settings: EngineSettings, rows: int, rules: ProfileRules) -> str:
    own = rules.slot_logit_bytes or rules.slot_token_bytes
    return f"{settings.max_num_seqs or 1 if own else rows:,} slots"


def _slot_bytes(model: ModelSpec, settings: EngineSettings, rules: ProfileRules) -> float:
    of_slot = model.vocab_size * rules.slot_logit_bytes + (settings.max_model_len or 1) * rules.slot_token_bytes
    return (settings.max_num_seqs or 1) * of_slot


def _rows(settings: EngineSettings, tokens: int, rules: ProfileRules) -> int:
    """Rows of logits that are sampled at once: of every slot, or of the prompts that fill the batch."""
    if rules.whole_prompts:
        longest = settings.max_input_tokens or (settings.max_model_len or 2) - 1
        return -(-tokens // max(1, min(tokens, longest)))
    return min(settings.max_num_seqs or 1, tokens, settings.max_graph_batch or tokens)


def _prompt_logits(model: ModelSpec, tokens: int, settings: EngineSettings, rules: ProfileRules) -> float:
    """Logits of every prompt token: while they are gathered, a rank's part beside the whole; then what is made of
    them."""
    if not rules.prompt_logit_bytes:
        return 0.0
    ranks = settings.tensor_parallel_size
    gathered = _ELEMENT * (1 + 1 / ranks) if ranks > 1 and rules.gathered_logits else 0.0
    return tokens * model.vocab_size * max(rules.prompt_logit_bytes, gathered)


def _whole_prompts(model: ModelSpec, tokens: int, logits: float, resident: float) -> Term:
    value = logits + 2 * tokens * model.hidden_size * _ELEMENT + resident
    why = f"warm-up: logits of all {tokens:,} prompt tokens, {model.vocab_size:,} each, unsplit"
    return Term(Interval(round(value * 0.9), round(value), round(value * 1.15 + 150 * MIB)), why)


def _sampler_bytes(model: ModelSpec, rows: int, tokens: int, rules: ProfileRules) -> float:
    each = rules.logit_bytes_small if rows < rules.small_rows else rules.logit_bytes
    return rows * model.vocab_size * each + tokens * model.hidden_size * _ELEMENT


def _layer_bytes(
    model: ModelSpec, widths: LayerWidths, tokens: int, settings: EngineSettings, rules: ProfileRules
) -> float:
    stream = (2 if rules.compiled and not settings.enforce_eager else 3) * widths.hidden
    stream += 3 * (widths.streams - 1) * widths.hidden  # old, new, and the buffer that drafts read
    attention = stream + 2 * widths.attention + widths.output
    begins, heads = rules.padded_heads
    if heads and model.architecture.startswith(begins):  # queries, the same padded, and outputs
        wide = heads * max(group.key_width for group in model.layer_groups)
        attention = max(attention, stream + widths.attention + 2 * wide)
    dense = stream + widths.inner * 1.5
    state = stream + 2 * widths.state
    widest = tokens * max(attention, dense, state)
    if widths.expert:
        at_once = min(tokens, rules.moe_chunk_tokens) * (model.experts_per_token or 1)
        spaces = at_once * (max(widths.expert, widths.hidden) + widths.expert_product)
        widest = max(widest, tokens * (stream + widths.hidden + 2 * model.num_experts) + spaces)
    if widths.index and rules.index_workspace_rows:
        rows = rules.index_workspace_rows * (settings.max_model_len or 1)
        return _ELEMENT * widest + rows * widths.index + rules.index_logit_bytes
    return _ELEMENT * (widest + _latent_elements(widths, settings, rules))


def _latent_elements(widths: LayerWidths, settings: EngineSettings, rules: ProfileRules) -> float:
    """MLA's prefill over cached context: the profile run allocates the up-projected workspace at its largest
    (v1/attention/backends/mla/common.py)."""
    if not widths.latent_up or not rules.latent_workspace_tokens:
        return 0.0
    length, seqs, block = settings.max_model_len or 1, settings.max_num_seqs or 1, settings.block_size or 64
    tokens = max(min(max(8 * length, 4 * seqs * block), rules.latent_workspace_tokens), seqs * block)
    return tokens * widths.latent_up


def _doubts(model: ModelSpec, least: float, peak: float, sampled: bool) -> tuple[float, float]:
    """The ends of the 90 % interval. What is counted tensor by tensor is known to about a tenth; experts and
    recurrent mixers keep workspaces that vary by kernel."""
    if not sampled and (model.num_experts or _has_state(model)):
        return least / 2, peak * 2 + 300 * MIB
    return least * 0.85, peak * 1.15 + 150 * MIB


def _has_state(model: ModelSpec) -> bool:
    return any(group.kind is AttentionKind.RECURRENT for group in model.layer_groups)


def _widths(model: ModelSpec, ranks: int) -> LayerWidths:
    inner = _widest(model, Role.MLP, ranks, ("gate_proj", "up_proj", "fc1"))
    expert = _widest(model, Role.EXPERT, ranks, ("gate_proj", "up_proj"))
    down = _widest(model, Role.EXPERT, ranks, ("down_proj",), inputs=True)
    return LayerWidths(
        hidden=model.hidden_size,
        attention=_widest(model, Role.ATTENTION, ranks, ("q_proj", "k_proj", "v_proj", "q_b_proj")),
        output=_widest(model, Role.ATTENTION, ranks, ("o_proj",), inputs=True),
        inner=inner or (2 * model.intermediate_size / ranks if not expert else 0),
        expert=expert,
        expert_product=down,
        state=_widest(model, Role.STATE, ranks, ()),
        latent_up=_widest(model, Role.ATTENTION, ranks, ("kv_b_proj",)),
        index=max((group.index_width for group in model.layer_groups), default=0),
        streams=_streams(model),
    )


def _streams(model: ModelSpec) -> int:
    wide = (part.shape[-1] for part in model.parameters if part.name.endswith("hc.fn") and not part.draft)
    return max(1, max(wide, default=0) // model.hidden_size)


def _widest(model: ModelSpec, role: Role, ranks: int, names: tuple[str, ...], *, inputs: bool = False) -> float:
    """The largest sum of a rank's outputs (or inputs) over tensors of those names that share layers."""
    sums: dict[tuple[int, ...], float] = {}
    for group in model.parameters:
        last = group.name.rpartition(".")[2]
        if group.role is not role or len(group.shape) < 2 or group.draft or (names and last not in names):
            continue
        if not names and last in ("out_proj", "o_proj", "conv1d"):
            continue
        width = group.shape[-1] if inputs else group.shape[-2]
        sums[group.layers] = sums.get(group.layers, 0.0) + width * _share(group, ranks)
    return max(sums.values(), default=0.0)


def _share(group: ParameterGroup, ranks: int) -> float:
    if group.split is Split.NONE:
        return 1.0
    if group.split is Split.KV and group.kv_heads:
        return max(1, group.kv_heads // ranks) / group.kv_heads
    return 1 / ranks
