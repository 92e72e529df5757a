"""Mistral's own params.json in the words of a config.json: what stands beside ``consolidated.safetensors``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Source of the names: vLLM, transformers_utils/configs/mistral.py.
_NAMES = {
    "dim": "hidden_size", "n_layers": "num_hidden_layers", "n_heads": "num_attention_heads",
    "n_kv_heads": "num_key_value_heads", "hidden_dim": "intermediate_size", "norm_eps": "rms_norm_eps",
    "tied_embeddings": "tie_word_embeddings",
}  # fmt: skip
_LONGEST = 128_000  # where no key says
_NOT_COVERED = ("moe", "q_lora_rank", "quantization")


def is_mistral_params(config: Mapping[str, Any]) -> bool:
    """Whether it is a params.json: no architecture, widths under Mistral's own names."""
    return "architectures" not in config and "dim" in config and "n_layers" in config


def from_mistral_params(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The config.json that says the same of a dense model, with or without a tower for images.

    Experts, latent attention, a tower for audio and weights of 8 bits keep their names, so that the caller's
    architecture is one that no rule covers.
    """
    text = {_NAMES.get(key, key): value for key, value in config.items()}
    window = text.get("sliding_window")
    if isinstance(window, list):
        count = text.get("num_hidden_layers")
        repeats = count // len(window) if isinstance(count, int) and window else 0
        kinds = ["full_attention" if each is None else "sliding_attention" for each in window] * repeats
        text["layer_types"] = kinds
        text["sliding_window"] = next((each for each in window if each), None)
    text.setdefault("max_position_embeddings", text.get("max_seq_len") or _LONGEST)
    text["model_type"], text["architectures"] = "mistral", ["MistralForCausalLM"]
    other = next((key for key in _NOT_COVERED if config.get(key)), "")
    multimodal = config.get("multimodal") or {}
    if other or (isinstance(multimodal, Mapping) and multimodal.get("whisper_model_args")):
        return {**text, "architectures": [f"params.json with {other or 'whisper_model_args'}"]}
    vision = config.get("vision_encoder")
    if vision is None and isinstance(multimodal, Mapping):
        vision = multimodal.get("vision_encoder_args")
    if vision is None:
        return text
    return {
        "architectures": ["PixtralForConditionalGeneration"], "model_type": "pixtral", "text_config": text,
        "vision_config": vision,
    }  # fmt: skip
