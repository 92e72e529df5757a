"""Speech in, text out, with another family's decoder behind Whisper's encoder: Voxtral, Ultravox, ..."""

from __future__ import annotations

from cotenant.catalogue.models import find_entry
from cotenant.readers.blocks import Structure
from cotenant.readers.config_view import ConfigView
from cotenant.readers.decoder import Builder
from cotenant.readers.families.multimodal import text_structure
from cotenant.readers.families.qwen import _qwen2
from cotenant.readers.families.whisper import whisper_encoder
from cotenant.readers.vision import layer_norm, matrix, two_layer_projector, whole


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


def _audio_flamingo(config: ConfigView) -> Structure:
    """Qwen2-Audio's encoder behind two linear layers (vLLM, models/audioflamingo3.py)."""
    text = text_structure(config, default="qwen2")
    audio = config.section("audio_config").with_defaults(
        hidden_size=1280, num_hidden_layers=32, intermediate_size=5120, num_mel_bins=128
    )
    width = audio.integer("hidden_size", "d_model", most=2**20)
    bias = config.flag("projector_bias", default=True)
    groups = whisper_encoder(audio) + two_layer_projector(text.hidden_size, width, bias=bias)
    return text.extended(*groups, modalities=("text", "audio"))


def _named(config: ConfigView, section: str, key: str) -> ConfigView:
    """The section itself, or what the catalogue knows of the model that `key` names by its id."""
    if section in config or key not in config:
        return config
    entry = find_entry(config.text(key))
    if entry is None:
        config.fault(
            key, f"names {config.text(key)[:80]!r}, which is not in the catalogue", hint=f"add its {section}"
        )
    return config.replaced(**{section: {} if entry is None else dict(entry.config)})


def _ultravox(config: ConfigView) -> Structure:
    """Whisper's encoder, `stack_factor` frames to a token, a gated projector (vLLM, models/ultravox.py)."""
    config = _named(_named(config, "text_config", "text_model_id"), "audio_config", "audio_model_id")
    text = text_structure(config, default="llama")
    audio = config.section("audio_config").with_defaults(
        d_model=1280, encoder_layers=32, encoder_ffn_dim=5120, num_mel_bins=128
    )
    if config.integer("num_projector_layers", default=0, least=0, most=1000):
        config.fault("num_projector_layers", "asks for a transformer between the towers, which no rule covers")
    inputs = audio.integer("d_model", most=2**20) * config.integer("stack_factor", default=8, most=1024)
    wide = config.integer("hidden_size", default=4096, most=2**20)
    narrow = max(1, wide // 2) if config.text("projector_act", default="swiglu") == "swiglu" else wide
    groups = whisper_encoder(audio) + layer_norm("projector.norm", inputs, bias=False)
    groups += whole("projector.linear_1", wide, inputs) + whole("projector.linear_2", text.hidden_size, narrow)
    inside = config.flag("projector_ln_mid")
    groups += layer_norm("projector.second_norm", narrow if inside else text.hidden_size, bias=False)
    return text.extended(*groups, modalities=("text", "audio"))


def _kimi_audio(config: ConfigView) -> Structure:
    """Qwen2 behind Whisper large v3, whose config lies in a folder of its own; the audio decoder that the
    checkpoint also holds is not loaded (vLLM, models/kimi_audio.py)."""
    text = _qwen2(config)
    whisper = ConfigView({"d_model": 1280, "encoder_layers": 32, "encoder_ffn_dim": 5120, "num_mel_bins": 128})
    inputs = config.integer("kimia_adaptor_input_dim", default=5120, most=2**20)
    groups = whisper_encoder(whisper) + two_layer_projector(text.hidden_size, inputs)
    return text.extended(*groups, *layer_norm("projector.norm", text.hidden_size), modalities=("text", "audio"))


BUILDERS: dict[str, Builder] = {
    "VoxtralForConditionalGeneration": _voxtral,
    "voxtral": _voxtral,
    "Qwen2AudioForConditionalGeneration": _qwen2_audio,
    "qwen2_audio": _qwen2_audio,
    "AudioFlamingo3ForConditionalGeneration": _audio_flamingo,
    "audioflamingo3": _audio_flamingo,
    "MusicFlamingoForConditionalGeneration": _audio_flamingo,
    "musicflamingo": _audio_flamingo,
    "UltravoxModel": _ultravox,
    "ultravox": _ultravox,
    "MoonshotKimiaForCausalLM": _kimi_audio,
}
