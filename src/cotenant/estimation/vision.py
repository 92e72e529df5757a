"""The vision encoder's part of the profile run: one batch of the largest images that the budget admits.

    patches = tokens at once x patches a token;  tokens at once = max(max_num_batched_tokens, largest image)
    peak    = patches x 2 B x (2 x feed-forward + 2 x query-key-value, of a rank, + 4 x hidden)
    kept    = tokens at once x the text model's width x 2 B x outputs (Qwen3-VL: 4), until the text model has run

The encoder runs uncompiled. How large an image may be stands in the model's processor and not in its config:
the interval is wide (videos may ask for several times as much), but for processors that cap both.
"""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.domain.model import ModelSpec, ParameterGroup, Role, Split
from cotenant.estimation.memo import IdentityCache

_ELEMENT = 2
# Tokens of the largest image, by family: Qwen's processors admit 16,777,216 pixels, 32 x 32 a token.
_LARGEST_IMAGE = {"qwen_vl": 16384, "qwen_next": 16384}
# Families and architectures whose videos are capped below the largest image (Qwen3-VL's processor: 25,165,824
# pixels over two frames a patch; vLLM, models/qwen3_vl.py, get_max_video_tokens).
_STAMPED = frozenset({"Qwen3VLForConditionalGeneration", "Qwen3VLMoeForConditionalGeneration"})
_DOUBT = {"qwen_next": 0.5, **dict.fromkeys(_STAMPED, 1.0)}
_FILM = 12288  # tokens of such a video
# Those whose videos are not: every frame may be as large as an image, two of them a patch (models/qwen2_vl.py,
# get_num_frames_with_most_features).
_FILMED = frozenset({"Qwen2VLForConditionalGeneration", "Qwen2_5_VLForConditionalGeneration"})
_FRAMES_A_PATCH = 2
# Patches merged into one token: 2 x 2 unless the family pools otherwise (Gemma 3: 4 x 4, Gemma 4: 3 x 3).
_PATCHES_PER_TOKEN = {"gemma": 16, "gemma4": 9}
_FEED_FORWARD = ("fc1", "gate_proj", "up_proj")
_AFTER = ("merger", "projector")  # they see tokens, not patches
_ATTENTION = ("qkv_proj", "q_proj", "k_proj", "v_proj")


@dataclass(frozen=True, slots=True)
class EncoderRun:
    """Bytes of one rank while the encoder runs, and of its outputs that stay for the text model. `doubt`: how many
    times the peak more it may be."""

    peak: int
    kept: int
    doubt: float


@dataclass(frozen=True, slots=True)
class _Widths:
    hidden: int
    feed_forward: float
    attention: float
    outputs: int  # of the text model's width: one, and one for every layer that sees the encoder's middle


_CACHE: IdentityCache[_Widths] = IdentityCache()


def encoder_run(
    model: ModelSpec, tokens: int, ranks: int, *, frames: int = 0, length: int = 0, stamped: float = 0.0
) -> EncoderRun | None:
    """The encoder's run in a batch budget of `tokens`; None for models without a vision tower. `frames`: the most
    of a video that the engine profiles, each as large as an image, as far as its tokens fit in `length`.
    `stamped`: how many times a video's tokens the outputs are kept for, where times stand between its frames."""
    if not set(model.modalities) - {"text"}:
        return None
    widths = _CACHE.get((model,), ranks, lambda: _widths(model, ranks))
    if not widths.hidden:
        return None
    at_once = max(tokens, _LARGEST_IMAGE.get(model.family, 0))
    filmed = bool(frames) and model.architecture in _FILMED
    if filmed:
        at_once = max(at_once, min(frames // _FRAMES_A_PATCH, length // at_once) * at_once)
    patches = at_once * _PATCHES_PER_TOKEN.get(model.family, 4)
    peak = patches * _ELEMENT * (2 * widths.feed_forward + 2 * widths.attention + 4 * widths.hidden)
    doubt = 0.3 if filmed else _DOUBT.get(model.architecture, _DOUBT.get(model.family, 2.0))
    outputs = at_once if not stamped or model.architecture not in _STAMPED else stamped * min(_FILM, length)
    kept = outputs * model.hidden_size * _ELEMENT * widths.outputs
    return EncoderRun(round(peak), round(kept), doubt)


def _widths(model: ModelSpec, ranks: int) -> _Widths:
    towers = [
        group
        for group in model.parameters
        if group.role is Role.VISION and len(group.shape) > 1 and not group.name.startswith(_AFTER)
    ]
    hidden = max((g.shape[0] for g in towers if g.name.endswith("patch_embed")), default=0)
    outputs = sum(g.copies for g in model.parameters if g.name == "merger.fc1")
    return _Widths(hidden, _sum(towers, _FEED_FORWARD, ranks), _sum(towers, _ATTENTION, ranks), max(1, outputs))


def _sum(towers: list[ParameterGroup], names: tuple[str, ...], ranks: int) -> float:
    found = [group for group in towers if group.name.rpartition(".")[2] in names]
    return sum(group.shape[-2] / (1 if group.split is Split.NONE else ranks) for group in found)
