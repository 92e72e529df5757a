"""Models that see and are another family's but for a projector, and one whose layers loop behind windows.

Sources: vLLM 0.33, models/{bee,rvl,eagle2_5_vl,qianfan_ocr,iquest_loopcoder}.py.
"""

from __future__ import annotations

from dataclasses import replace

from cotenant.domain.model import AttentionKind, Role
from cotenant.readers.blocks import Structure, linear
from cotenant.readers.config_view import ConfigView
from cotenant.readers.decoder import Builder, read_sizes
from cotenant.readers.families.llama import BUILDERS as LLAMA
from cotenant.readers.families.multimodal import _internvl, text_structure
from cotenant.readers.vision import layer_norm, matrix, siglip_layers, two_layer_projector, whole

_SIGLIP = {"hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27, "patch_size": 14}


def _with_siglip(config: ConfigView, text: Structure, *, inner: int) -> Structure:
    """SigLIP, a norm and two layers whose middle is `inner` wide, a mark at the ends of image rows."""
    vision = config.section("vision_config")
    width = vision.integer("hidden_size", default=1152, most=2**20)
    groups = siglip_layers(vision, image=384, **_SIGLIP) + layer_norm("projector.norm", width)
    groups += matrix("projector.linear_1", inner, width) + matrix(
        "projector.linear_2", text.hidden_size, inner, row=True
    )
    return text.extended(*groups, *whole("image_newline", text.hidden_size), modalities=("text", "image", "video"))


def _bee(config: ConfigView) -> Structure:
    """Bee: LLaVA-OneVision around Qwen3, the projector four times as wide inside."""
    text = text_structure(config, default="qwen3")
    return _with_siglip(config, text, inner=4 * text.hidden_size)


def _r_vl(config: ConfigView) -> Structure:
    """R-4B: the same, the projector as wide as the decoder."""
    text = text_structure(config, default="qwen3")
    return _with_siglip(config, text, inner=text.hidden_size)


def _eagle25(config: ConfigView) -> Structure:
    """Eagle 2.5: SigLIP before Qwen 2.5, patches shuffled 2 x 2."""
    text = text_structure(config, default="qwen2")
    vision = config.section("vision_config")
    merged = 4 * vision.integer("hidden_size", default=1152, most=2**20)
    groups = siglip_layers(vision, image=448, **_SIGLIP) + layer_norm("projector.norm", merged)
    groups += two_layer_projector(text.hidden_size, merged)
    return text.extended(*groups, modalities=("text", "image", "video"))


def _iquest_loop(config: ConfigView) -> Structure:
    """IQuest's LoopCoder: the layers run `loop_num` times; every run after the first caches behind a window."""
    built = LLAMA["LlamaForCausalLM"](config)
    loops = config.integer("loop_num", default=2, most=64)
    window = config.integer("loop_window_size", default=64)
    caches = list(built.layer_groups)
    if loops > 1:
        caches += [
            replace(group, kind=AttentionKind.SLIDING, window=window, layers=group.layers * (loops - 1))
            for group in built.layer_groups
        ]
    sizes = read_sizes(config)
    gate = linear("gate_proj", sizes.heads, sizes.head_dim, role=Role.OTHER, layers=sizes.layers, bias=True)
    return replace(built.extended(*gate), layer_groups=tuple(caches))


BUILDERS: dict[str, Builder] = {
    "BeeForConditionalGeneration": _bee,
    "RForConditionalGeneration": _r_vl,
    "Eagle2_5_VLForConditionalGeneration": _eagle25,
    "QianfanOCRForConditionalGeneration": _internvl,
    "IQuestLoopCoderForCausalLM": _iquest_loop,
}
