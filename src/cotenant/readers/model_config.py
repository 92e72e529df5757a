"""config.json to ModelSpec: checks, dispatch to the model's family, and what all families share."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from cotenant.domain.model import ModelSpec, Role
from cotenant.errors import CotenantError, FormatError, UnknownArchitectureError
from cotenant.readers.config_quantization import stored_cache_dtype, stored_format
from cotenant.readers.config_recipe import stored_as
from cotenant.readers.config_view import ConfigView
from cotenant.readers.families import find_builder, find_family, known_names
from cotenant.readers.mistral_params import from_mistral_params, is_mistral_params

_DTYPES = {
    "bfloat16": "bf16", "float16": "fp16", "half": "fp16", "float32": "fp32", "float": "fp32",
    "float8_e4m3fn": "fp8",
}  # fmt: skip
_LENGTH_KEYS = (
    "max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "model_max_length",
    "max_target_positions", "max_sequence_length", "max_seq_length", "seq_len", "n_ctx",
)  # fmt: skip
_UNSCALED_ROPES = {"su", "longrope", "llama3", "yarn", "deepseek_yarn", "mrope", "default", "proportional", ""}
_POOLING = ("embed", "rerank")
_HEADLESS = re.compile(
    r"(?!InternVLChat|ChatGLM|Dream|QWenLMHead|GPT2LMHead|Qwen2_5Omni|Ultravox|BertSplade)\w+Model"
)  # embedding checkpoints
_DEFAULT_LENGTH = 2048  # what vLLM assumes where no key says
_RAW_HINT = (
    "give raw figures, model: {parameters: 7B, layers: 32, kv_heads: 8, head_dim: 128}, or a folder with its "
    "safetensors or GGUF files"
)


def read_model_config(config: Mapping[str, Any], *, name: str, source: str = "", task: str = "") -> ModelSpec:
    """The structure of a model from its parsed config.json.

    Raises FormatError or InputErrors (every fault with its path) when the values are missing or insane, and
    UnknownArchitectureError when no family knows the model. `source` says where the config stands. A decoder
    that is asked to "embed" or "rerank" has no output head: engines leave it out, and such checkpoints lack it.
    """
    if not isinstance(config, Mapping):
        raise FormatError(
            f"the config.json of {name!r} is {type(config).__name__}, not an object", path="$",
            hint="a web page in its place means that the download was refused: log in or check the name",
        )  # fmt: skip
    if is_mistral_params(config):
        config = from_mistral_params(config)
    view = ConfigView(config)
    architecture, key = _dispatch(view, name)
    builder = find_builder(key)
    if builder is None:  # _dispatch found it a moment ago
        raise UnknownArchitectureError(f"no rules for {key!r}", hint=_RAW_HINT)
    try:
        built = builder(view)
        dtype = _dtype(view)
        length = built.max_model_len or _max_model_len(view)
        rotary = _rotary(view)
    except CotenantError:
        raise
    except (ArithmeticError, LookupError, TypeError, ValueError, RecursionError) as error:
        # A value that passed each check alone but makes no model with the others.
        view.raise_faults()
        raise FormatError(
            f"the config.json of {name!r} contradicts itself for {key} ({type(error).__name__})", path="$"
        ) from error
    view.raise_faults()
    family = find_family(key)
    parameters = stored_as(built.parameters, config, family=family, layers=built.num_layers)
    built = replace(built, parameters=parameters)
    if task in _POOLING or _HEADLESS.fullmatch(architecture):
        built = replace(built, parameters=tuple(g for g in built.parameters if g.role is not Role.HEAD))
    return ModelSpec(
        name=name, architecture=architecture, family=family, layer_groups=built.layer_groups,
        parameters=built.parameters, num_layers=built.num_layers, hidden_size=built.hidden_size,
        intermediate_size=built.intermediate_size, vocab_size=built.vocab_size, max_model_len=length, dtype=dtype,
        quantization=stored_format(config), cache_dtype=stored_cache_dtype(config), num_experts=built.num_experts,
        experts_per_token=built.experts_per_token, modalities=built.modalities, encoder_only=built.encoder_only,
        source=source, notes=built.notes, rotary_share=rotary[0], positions_in_time=rotary[1],
    )  # fmt: skip


def _dispatch(view: ConfigView, name: str) -> tuple[str, str]:
    """(architecture to report, name that a family answers to); raises UnknownArchitectureError.

    `model_type` answers only where no architecture is stated: a class of another name may hold other tensors.
    """
    architectures = view.texts("architectures")
    model_type = view.text("model_type")
    view.raise_faults()
    architecture = architectures[0] if architectures else model_type
    if not architecture:
        raise FormatError(
            f"the config.json of {name!r} has neither architectures nor model_type", path="$.architectures",
            hint="is it the config.json of a model? an adapter's or a tokenizer's has neither",
        )  # fmt: skip
    if find_builder(architecture) is not None:
        return architecture, architecture
    near = difflib.get_close_matches(architecture[:100], known_names(), n=1, cutoff=0.5)
    nearest = f"; the nearest known is {near[0]}" if near else ""
    raise UnknownArchitectureError(
        f"{name!r} has the architecture {architecture[:100]!r}, which no rule covers{nearest}", hint=_RAW_HINT,
        path="$.architectures" if architectures else "$.model_type",
    )  # fmt: skip


def _text_config(view: ConfigView) -> ConfigView:
    """The section that describes the language model, or the config itself."""
    for key in ("text_config", "llm_config", "language_config", "thinker_config"):
        if key in view:
            return _text_config(view.section(key)) if key == "thinker_config" else view.section(key)
    return view


def _dtype(view: ConfigView) -> str:
    """The precision of the unquantised weights; bf16 where the config does not say (as most are)."""
    text = _text_config(view)
    for section in (view, text):
        for key in ("torch_dtype", "dtype"):
            value = section.text(key).removeprefix("torch.")
            if value in _DTYPES:
                return _DTYPES[value]
            if value not in ("", "auto"):
                known = ", ".join(_DTYPES)
                section.fault(key, f"is {value[:40]!r}, a type that no rule covers (known: {known})")
    return "bf16"


def _max_model_len(view: ConfigView) -> int:
    """The longest sequence, as vLLM derives it: the smallest length key, times a linear or dynamic RoPE factor.

    Source: vLLM 0.33, config/model.py `_get_and_verify_max_len` and model_arch_config_convertor. YaRN's factor
    is applied where the length is still the original one.
    """
    text = _text_config(view)
    lengths = [text.integer(key, most=2**40) for key in _LENGTH_KEYS if key in text and text.raw(key) != -1]
    if not lengths:
        return _DEFAULT_LENGTH
    length = min(lengths)
    rope = text.section("rope_parameters" if "rope_parameters" in text else "rope_scaling")
    kind = rope.text("rope_type") or rope.text("type")
    if kind == "longrope":
        return length
    if kind in _UNSCALED_ROPES or "gemma3" in text.text("model_type") or "factor" not in rope:
        return length
    return int(length * rope.number("factor", default=1.0))


def _rotary(view: ConfigView) -> tuple[float, bool]:
    """(the share of a head that is rotated, whether a video's time is a part of positions), where the config says
    so (vLLM, layers/rotary_embedding: get_rope)."""
    text = _text_config(view)
    rope = text.section("rope_parameters" if "rope_parameters" in text else "rope_scaling")
    if text.flag("mla_use_nope"):  # Kimi Linear, K3 and GLM-5.3-Flash rotate nothing (vLLM, models/kimi_k3)
        return 0.0, False
    share = 1.0
    for section in (rope, text):
        if "partial_rotary_factor" in section:
            share = section.number("partial_rotary_factor", default=1.0)
            break
    return (share if 0.0 < share <= 1.0 else 1.0), "mrope_section" in rope
