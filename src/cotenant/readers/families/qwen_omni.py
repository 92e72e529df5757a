"""Qwen2.5-Omni, Qwen3-Omni, Qwen3-ASR: the thinker alone, which is what engines serve; no talker is counted."""

from __future__ import annotations

from dataclasses import replace

from cotenant.readers.blocks import Groups, Structure
from cotenant.readers.config_view import ConfigView
from cotenant.readers.decoder import Builder
from cotenant.readers.families.multimodal import text_structure
from cotenant.readers.families.qwen_vl import qwen3_tower, qwen25_tower
from cotenant.readers.families.whisper import whisper_encoder
from cotenant.readers.vision import MOST, layer_norm, matrix, vit_layers, whole

_MODALITIES = ("text", "image", "video", "audio")
_NOTE = ("the thinker alone: the talker and its vocoder are not counted",)


def _thinker(config: ConfigView) -> ConfigView:
    return config.section("thinker_config") if "thinker_config" in config else config


def _built(text: Structure, groups: Groups) -> Structure:
    return replace(text.extended(*groups, modalities=_MODALITIES), notes=_NOTE)


def _qwen25_omni(config: ConfigView) -> Structure:
    """Whisper's encoder without learned positions, a projection, two marks."""
    config = _thinker(config)
    text = text_structure(config, default="qwen2")
    audio = config.section("audio_config").with_defaults(
        d_model=1280, encoder_layers=32, encoder_ffn_dim=5120, num_mel_bins=128
    )
    out = audio.integer("output_dim", default=text.hidden_size, most=MOST)
    groups = whisper_encoder(audio, positions=False) + whole("audio.marks", 2, out)
    groups += matrix("audio.proj", out, audio.integer("d_model", most=MOST))
    return _built(text, groups + qwen25_tower(config.section("vision_config"), text.hidden_size))


def _qwen3_omni(config: ConfigView) -> Structure:
    config = _thinker(config)
    text = text_structure(config, default="qwen3_moe")
    groups = _qwen3_audio(config, text.hidden_size)
    return _built(text, groups + qwen3_tower(config.section("vision_config"), text.hidden_size))


def _qwen3_asr(config: ConfigView) -> Structure:
    """Qwen3-ASR: the audio encoder alone before Qwen3 (vLLM, models/qwen3_asr.py)."""
    config = _thinker(config)
    text = text_structure(config, default="qwen3")
    return text.extended(*_qwen3_audio(config, text.hidden_size), modalities=("text", "audio"))


def _qwen3_audio(config: ConfigView, text_hidden: int) -> Groups:
    """Three strided convolutions over time and mel bands, layers with every bias, two projections."""
    audio = config.section("audio_config").with_defaults(
        d_model=1280, encoder_layers=32, encoder_ffn_dim=5120, num_mel_bins=128
    )
    hidden, inner = audio.integer("d_model", most=MOST), audio.integer("encoder_ffn_dim", most=MOST)
    channels = audio.integer("downsample_hidden_size", default=480, most=MOST)
    bands = audio.integer("num_mel_bins", most=2**14)
    out = audio.integer("output_dim", default=text_hidden, most=MOST)
    for _ in range(3):
        bands = (bands + 1) // 2
    groups = whole("audio.conv_1", channels, 9) + whole("audio.conv", channels, 9 * channels, copies=2)
    groups += whole("audio.conv.bias", channels, copies=3) + matrix(
        "audio.conv_out", hidden, channels * bands, bias=False
    )
    groups += vit_layers(hidden, inner, audio.integer("encoder_layers", most=10_000), name="audio")
    groups += layer_norm("audio.ln_post", hidden) + matrix("audio.proj1", hidden, hidden)
    return groups + matrix("audio.proj2", out, hidden)


BUILDERS: dict[str, Builder] = {
    "Qwen2_5OmniModel": _qwen25_omni,
    "Qwen2_5OmniForConditionalGeneration": _qwen25_omni,
    "Qwen2_5OmniThinkerForConditionalGeneration": _qwen25_omni,
    "qwen2_5_omni": _qwen25_omni,
    "qwen2_5_omni_thinker": _qwen25_omni,
    "Qwen3OmniMoeForConditionalGeneration": _qwen3_omni,
    "Qwen3OmniMoeThinkerForConditionalGeneration": _qwen3_omni,
    "qwen3_omni_moe": _qwen3_omni,
    "qwen3_omni_moe_thinker": _qwen3_omni,
    "Qwen3ASRForConditionalGeneration": _qwen3_asr,
    "Qwen3ASRRealtimeGeneration": _qwen3_asr,
    "qwen3_asr": _qwen3_asr,
}
