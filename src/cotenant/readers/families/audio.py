"""Speech in, text out, with another family's decoder: Voxtral and Qwen2-Audio behind Whisper's encoder."""

from __future__ import annotations

from cotenant.readers.blocks import Structure
from cotenant.readers.config_view import ConfigView
from cotenant.readers.decoder import Builder
from cotenant.readers.families.multimodal import text_structure
from cotenant.readers.families.whisper import whisper_encoder
from cotenant.readers.vision import matrix, two_layer_projector


def _voxtral(config: ConfigView) -> Structure:
    """Four frames of the encoder make one token of the decoder."""
    text = text_structure(config, default="llama")
    audio = config.section("audio_config").with_defaults(
        hidden_size=1280, num_hidden_layers=32, intermediate_size=5120, num_mel_bins=128
    )
    inputs = audio.integer("intermediate_size", "encoder_ffn_dim", most=2**20)
    groups = whisper_encoder(audio) + two_layer_projector(text.hidden_size, inputs, bias=False)
    return text.extended(*groups, modalities=("text", "audio"))


def _qwen2_audio(config: ConfigView) -> Structure:
    text = text_structure(config, default="qwen2")
    audio = config.section("audio_config").with_defaults(
        d_model=1280, encoder_layers=32, encoder_ffn_dim=5120, num_mel_bins=128
    )
    width = audio.integer("d_model", "hidden_size", most=2**20)
    groups = whisper_encoder(audio) + matrix("projector", text.hidden_size, width)
    return text.extended(*groups, modalities=("text", "audio"))


BUILDERS: dict[str, Builder] = {
    "VoxtralForConditionalGeneration": _voxtral,
    "voxtral": _voxtral,
    "Qwen2AudioForConditionalGeneration": _qwen2_audio,
    "qwen2_audio": _qwen2_audio,
}
