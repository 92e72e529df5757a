"""Models that are another family's under a name of their own, but for a norm, a projector or a loop."""

from __future__ import annotations

from dataclasses import replace

from cotenant.domain.model import Role, Split
from cotenant.readers.blocks import Structure, linear, norm
from cotenant.readers.config_view import ConfigView
from cotenant.readers.decoder import Builder, dense
from cotenant.readers.families.deepseek import latent_model
from cotenant.readers.families.multimodal import _internvl, _mistral3, text_structure
from cotenant.readers.families.shared_experts import _bailing
from cotenant.readers.vision import layer_norm, matrix, siglip_layers, whole

_PACKED_POSITIONS = 32768  # Keye's tower has two tables (vLLM, models/keye.py)


def _axk1(config: ConfigView) -> Structure:
    """SKT's A.X K1: DeepSeek-V3 with a norm behind the feed-forward (vLLM, models/AXK1.py)."""
    built = latent_model(config)
    layers = tuple(range(built.num_layers))
    return built.extended(*norm("post_mlp_layernorm", built.hidden_size, layers=layers))


def _sarvam_mla(config: ConfigView) -> Structure:
    """Sarvam 105B: latent attention beside Ling's words for experts (vLLM, models/sarvam.py)."""
    return latent_model(
        config.replaced(
            n_routed_experts=config.raw("num_experts"), n_shared_experts=config.raw("num_shared_experts"),
        )
    )  # fmt: skip


def _ouro(config: ConfigView) -> Structure:
    """ByteDance's Ouro: its layers run `total_ut_steps` times, each with a cache (models/ouro.py, 0.26)."""
    steps = config.integer("total_ut_steps", default=4, most=64)
    built = dense(config, norms=4)
    caches = tuple(replace(group, layers=group.layers * steps) for group in built.layer_groups)
    gate = linear("early_exit_gate", 1, built.hidden_size, role=Role.OTHER, split=Split.NONE, bias=True)
    return replace(built.extended(*gate), layer_groups=caches)


def _lighton_ocr(config: ConfigView) -> Structure:
    """Mistral 3's tower before Qwen3, tied as its text section says."""
    text = dict(config.section("text_config").items())
    text.setdefault("model_type", "qwen3")
    return _mistral3(config.replaced(text_config=text))


def _nvlm(config: ConfigView) -> Structure:
    """NVLM-D: InternViT, a projector through the decoder's inner width without biases (models/nvlm_d.py)."""
    built = _internvl(config)
    kept = tuple(group for group in built.parameters if not group.name.startswith("projector.linear"))
    width = 4 * config.section("vision_config").integer("hidden_size", default=3200)
    inner = built.intermediate_size
    groups = matrix("projector.linear_1", inner, width, bias=False)
    groups += matrix("projector.linear_2", built.hidden_size, inner, bias=False, row=True)
    return replace(built, parameters=kept + groups)


def _keye(config: ConfigView, *, after: bool = False) -> Structure:
    """Kwai's Keye: Qwen3 behind SigLIP with rotary positions and a second table of them, patches merged 2 x 2.

    The projector's norm stands before the merger, or `after` it.
    """
    text = text_structure(config.replaced(text_config=_flat(config)), default="qwen3")
    vision = config.section("vision_config")
    width = vision.integer("hidden_size", default=1152, most=2**20)
    merged = width * vision.integer("spatial_merge_size", default=2, most=16) ** 2
    tower = siglip_layers(
        vision, image=384, hidden_size=1152, intermediate_size=4304, num_hidden_layers=27, patch_size=14
    )
    tower += whole("vision.packed_positions", _PACKED_POSITIONS, width) + layer_norm(
        "projector.norm", merged if after else width
    )
    tower += matrix("projector.linear_1", merged, merged) + matrix(
        "projector.linear_2", text.hidden_size, merged, row=True
    )
    return text.extended(*tower, modalities=("text", "image", "video"))


def _keye15(config: ConfigView) -> Structure:
    """Keye 1.5 (vLLM, models/keye_vl1_5.py)."""
    return _keye(config, after=True)


def _flat(config: ConfigView) -> dict[str, object]:
    """The decoder's keys where they stand beside the tower's."""
    if "text_config" in config:
        return dict(config.section("text_config").items())
    return {**dict(config.items()), "model_type": "qwen3", "architectures": None}


BUILDERS: dict[str, Builder] = {
    "AXK1ForCausalLM": _axk1,
    "SarvamMoEForCausalLM": _bailing,
    "SarvamMLAForCausalLM": _sarvam_mla,
    "OuroForCausalLM": _ouro,
    "LightOnOCRForConditionalGeneration": _lighton_ocr,
    "SkyworkR1VChatModel": _internvl,
    "H2OVLChatModel": _internvl,
    "NVLM_D": _nvlm,
    "KeyeForConditionalGeneration": _keye,
    "KeyeVL1_5ForConditionalGeneration": _keye15,
    "KeyeVL1_5": _keye15,
}
