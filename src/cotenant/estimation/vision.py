"""The vision encoder's part of the profile run: one batch of the largest images that the budget admits.

    patches = tokens at once x patches a token;  tokens at once = max(max_num_batched_tokens, largest image)
    peak    = patches x 2 B x (2 x feed-forward + 2 x query-key-value, of a rank, + 4 x hidden)
    kept    = tokens at once x the text model's width x 2 B, until the text model has run

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
# Families whose videos are capped below the largest image (Qwen3-VL's processor: 25,165,824 pixels over two
# frames a patch; vLLM, models/qwen3_vl.py, get_max_video_tokens).
_CAPPED = frozenset({"qwen_next"})
# Patches merged into one token: 2 x 2 unless the family pools otherwise (Gemma 3: 4 x 4, Gemma 4: 3 x 3).
_PATCHES_PER_TOKEN = {"gemma": 16, "gemma4": 9}
_FEED_FORWARD = ("fc1", "gate_proj", "up_proj")
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


_CACHE: IdentityCache[_Widths] = IdentityCache()


def encoder_run(model: ModelSpec, tokens: int, ranks: int) -> EncoderRun | None:
    """The encoder's run in a batch budget of `tokens`; None for models without a vision tower."""
    if not set(model.modalities) - {"text"}:
        return None
    widths = _CACHE.get((model,), ranks, lambda: _widths(model, ranks))
    if not widths.hidden:
        return None
    at_once = max(tokens, _LARGEST_IMAGE.get(model.family, 0))
    patches = at_once * _PATCHES_PER_TOKEN.get(model.family, 4)
    peak = patches * _ELEMENT * (2 * widths.feed_forward + 2 * widths.attention + 4 * widths.hidden)
    doubt = 0.5 if model.family in _CAPPED else 2.0
    return EncoderRun(round(peak), at_once * model.hidden_size * _ELEMENT, doubt)


def _widths(model: ModelSpec, ranks: int) -> _Widths:
    towers = [group for group in model.parameters if group.role is Role.VISION and len(group.shape) > 1]
    hidden = max((g.shape[0] for g in towers if g.name.endswith("patch_embed")), default=0)
    return _Widths(hidden, _sum(towers, _FEED_FORWARD, ranks), _sum(towers, _ATTENTION, ranks))


def _sum(towers: list[ParameterGroup], names: tuple[str, ...], ranks: int) -> float:
    found = [group for group in towers if group.name.rpartition(".")[2] in names]
    return sum(group.shape[-2] / (1 if group.split is Split.NONE else ranks) for group in found)
