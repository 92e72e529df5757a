"""NVIDIA's small vision models: RADIO's tower before Nemotron-H (Nano VL 2) or Llama (Nemotron Nano VL)."""

from __future__ import annotations

from cotenant.readers.blocks import Groups, Structure
from cotenant.readers.config_view import ConfigView
from cotenant.readers.decoder import Builder
from cotenant.readers.families.multimodal import text_structure
from cotenant.readers.vision import MOST, layer_norm, matrix, vit_layers, whole

# (width, layers, inner width) by the tower's name (vLLM, transformers_utils/configs/radio.py).
_TOWERS = {
    "vit_small_patch16_224": (384, 12, 1536), "vit_base_patch16_224": (768, 12, 3072),
    "vit_large_patch16_224": (1024, 24, 4096), "vit_huge_patch16_224": (1280, 32, 5120),
    "vit_so400m_patch16_224": (1152, 27, 4304),
}  # fmt: skip


def _tower(config: ConfigView) -> tuple[int, Groups]:
    """(width, tensors): patches without a bias, positions up to `cpe_max_size` pixels, a class token a teacher."""
    args = config.section("args")
    name = args.text("model", default=config.text("model_name", default="vit_huge_patch16_224"))
    known = _TOWERS.get(name) or _TOWERS.get(f"{name}_patch16_224")
    if known is None:
        config.fault("args.model", f"is {name[:60]!r}; known are {', '.join(_TOWERS)}")
        known = _TOWERS["vit_huge_patch16_224"]
    width, depth, inner = known
    patch = config.integer("patch_size", default=16, most=1024)
    side = args.integer("cpe_max_size", default=config.integer("cpe_max_size", default=2048), most=2**16)
    groups = whole("vision.patch_embed", width, 3 * patch * patch)
    frames = config.integer("video_temporal_patch_size", default=1, most=64)
    groups += whole("vision.video_embed", width, 3 * frames * patch * patch) if frames > 1 else ()
    groups += whole("vision.positions", (side // patch) ** 2, width)
    groups += whole("vision.class_tokens", _class_tokens(config, args), width)
    return width, groups + vit_layers(width, inner, depth)


def _class_tokens(config: ConfigView, args: ConfigView) -> int:
    """One, or one a teacher, filled up with registers past the next multiple (vLLM, models/radio.py)."""
    holder = args if "teachers" in args else config
    teachers = holder.raw("teachers")
    listed = teachers if isinstance(teachers, list) else []
    names = {str(each.get("name")) for each in listed if isinstance(each, dict)}
    count = len(names) if names and args.flag("cls_token_per_teacher", default=True) else 1
    own = config.integer("register_multiple", default=0, least=0, most=2**16)
    multiple = args.integer("register_multiple", default=own, least=0, most=2**16)
    return (count // multiple + 1) * multiple if multiple else count


def _projector(config: ConfigView, text: int, width: int, *, rms: bool, bias: bool) -> Groups:
    """A norm over merged patches, two layers."""
    ratio = config.number("downsample_ratio", default=0.5)
    merged = round(width / ratio**2)
    middle = config.integer("projector_hidden_size", default=text, most=MOST)
    groups = layer_norm("projector.norm", merged, bias=not rms) + matrix(
        "projector.linear_1", middle, merged, bias=bias
    )
    return groups + matrix("projector.linear_2", text, middle, bias=bias, row=True)


def _nano_vl(config: ConfigView) -> Structure:
    """Nemotron-H behind RADIO (vLLM, nano_nemotron_vl.py); with an ear (`sound_config`) no rule covers it."""
    if "sound_config" in config:
        config.fault("sound_config", "adds a Parakeet encoder, which no rule covers")
    text = text_structure(
        config, default="nemotron_h", key="llm_config" if "llm_config" in config else "text_config"
    )
    width, tower = _tower(config.section("vision_config"))
    width = config.integer("vit_hidden_size", default=width, most=MOST)
    groups = tower + _projector(config, text.hidden_size, width, rms=True, bias=False)
    return text.extended(*groups, modalities=("text", "image", "video"))


def _llama_nano_vl(config: ConfigView) -> Structure:
    """Llama behind RADIO, merged patches normed with a bias (vLLM, models/nemotron_vl.py)."""
    text = text_structure(config, default="llama", key="llm_config" if "llm_config" in config else "text_config")
    width, tower = _tower(config.section("vision_config"))
    width = config.integer("vit_hidden_size", default=width, most=MOST)
    groups = tower + _projector(config, text.hidden_size, width, rms=False, bias=True)
    return text.extended(*groups, modalities=("text", "image"))


BUILDERS: dict[str, Builder] = {
    "Llama_Nemotron_Nano_VL": _llama_nano_vl,
    "Llama_Nemotron_Nano_VL_Config": _llama_nano_vl,
    "NemotronH_Nano_VL_V2": _nano_vl,
    "NemotronH_Nano_Omni_Reasoning_V3": _nano_vl,
    "NemotronH_Super_Omni_Reasoning_V3": _nano_vl,
    "NemotronH_Omni_Reasoning_V3": _nano_vl,
}
