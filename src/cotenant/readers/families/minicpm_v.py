"""MiniCPM-V and -o: SigLIP on 70 x 70 positions, a resampler of learned queries; the language model by version."""

from __future__ import annotations

from cotenant.readers.blocks import Structure
from cotenant.readers.config_view import ConfigView
from cotenant.readers.decoder import Builder
from cotenant.readers.families import find_builder
from cotenant.readers.families.whisper import whisper_encoder
from cotenant.readers.vision import MOST, layer_norm, matrix, siglip_layers, two_layer_projector, whole

# `version` in the config -> whose language model it is (vLLM, models/minicpmv.py, _SUPPORT_VERSION).
_TEXT = {"2.0": "minicpm", "2.5": "llama", "2.6": "qwen2", "4.0": "llama", "4.5": "qwen3"}
_SIGLIP = {
    "hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27, "patch_size": 14, "image_size": 980,
}  # fmt: skip


def _minicpm_v(config: ConfigView) -> Structure:
    """The sizes of the language model stand at the top of the config."""
    version = str(config.raw("version") or "2.6")
    name = _TEXT.get(version)
    builder = None if name is None else find_builder(name)
    if builder is None:
        config.fault("version", f"is {version[:20]!r}; known are {', '.join(_TEXT)}")
        builder = find_builder("qwen2")
    if builder is None:
        raise LookupError("qwen2")
    text = builder(config)
    hidden = text.hidden_size
    vision = config.section("vision_config").with_defaults(**_SIGLIP)
    layers = vision.integer("num_hidden_layers", least=2, most=10_000)
    if config.flag("drop_vision_last_layer"):
        vision = vision.replaced(num_hidden_layers=layers - 1)
    width = vision.integer("hidden_size", most=MOST)
    groups = siglip_layers(vision) + whole("resampler.query", config.integer("query_num", default=64), hidden)
    groups += matrix("resampler.kv_proj", hidden, width, bias=False) + matrix(
        "resampler.in_proj", 3 * hidden, hidden
    )
    groups += matrix("resampler.out_proj", hidden, hidden) + matrix("resampler.proj", hidden, hidden, bias=False)
    groups += layer_norm("resampler.norms", hidden, copies=3)
    return text.extended(*groups, modalities=("text", "image", "video"))


def _minicpm_o(config: ConfigView) -> Structure:
    """With Whisper's encoder and a projector; the speech decoder (`tts`) is not loaded (vLLM, minicpmo.py)."""
    text = _minicpm_v(config)
    audio = config.section("audio_config").with_defaults(
        d_model=1024, encoder_layers=24, encoder_ffn_dim=4096, num_mel_bins=80
    )
    inputs = max(1, audio.integer("encoder_ffn_dim", most=MOST) // 4)
    groups = whisper_encoder(audio) + two_layer_projector(text.hidden_size, inputs)
    return text.extended(*groups, modalities=("text", "image", "video", "audio"))


BUILDERS: dict[str, Builder] = {
    "MiniCPMV": _minicpm_v,
    "minicpmv": _minicpm_v,
    "MiniCPMO": _minicpm_o,
    "minicpmo": _minicpm_o,
}
