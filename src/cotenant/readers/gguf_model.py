"""From a GGUF header to a model's structure: parameters from the tensors themselves, caches from the keys."""

from __future__ import annotations

from collections import Counter
from difflib import get_close_matches

from cotenant.domain.model import ModelSpec, Role
from cotenant.errors import FormatError, UnknownArchitectureError
from cotenant.readers.gguf import GgufHeader, Omitted
from cotenant.readers.gguf_keys import GgufKeys
from cotenant.readers.gguf_layers import (
    ENCODERS,
    KNOWN,
    LATENT,
    is_latent,
    layer_groups,
    num_layers,
    recurrent_layers,
)
from cotenant.readers.gguf_tensors import parameter_groups

_PLAIN = {"F32": "fp32", "F16": "fp16", "BF16": "bf16"}


def gguf_model(header: GgufHeader, name: str, *, source: str = "") -> ModelSpec:
    """The structure of the model in a GGUF file (all of its parts joined).

    `stored_bytes` is the exact size of the tensors; `num_parameters` counts every learnt tensor, rotary tables
    apart. Raises UnknownArchitectureError for an architecture without rules, FormatError for a file without a
    model in it or without the keys that the rules need.
    """
    _check_complete(header)
    _check_known(header.architecture)
    keys = GgufKeys(header.architecture, header.metadata)
    dtype, quantization = _stored_as(header)
    layers = num_layers(keys)
    parameters = parameter_groups(
        header.tensors,
        num_layers=layers,
        kv_heads=keys.per_layer("attention.head_count_kv", keys.size("attention.head_count")),
        recurrent=recurrent_layers(keys),
        dtype=dtype,
    )
    embedding = next((group.shape for group in parameters if group.role is Role.EMBEDDING), (0,))
    return ModelSpec(
        name=name,
        architecture=header.architecture,
        family=header.architecture,
        layer_groups=layer_groups(keys),
        parameters=parameters,
        num_layers=layers,
        hidden_size=keys.required("embedding_length"),
        intermediate_size=keys.size("feed_forward_length") or keys.size("expert_feed_forward_length"),
        vocab_size=embedding[0],
        max_model_len=keys.required("context_length"),
        dtype=dtype,
        quantization=quantization,
        num_experts=keys.size("expert_count"),
        experts_per_token=keys.size("expert_used_count"),
        encoder_only=header.architecture in ENCODERS,
        stored_bytes=header.total_bytes,
        source=source,
        notes=_notes(keys),
        merges=_merges(header),
    )


def _check_complete(header: GgufHeader) -> None:
    if header.split_count > 1:
        raise FormatError(f"GGUF file in {header.split_count} parts: join their headers first")
    kind = header.metadata.get("general.type", "model")
    if kind in ("mmproj", "adapter") or header.architecture == "clip":
        what = "a vision projector" if kind == "mmproj" or header.architecture == "clip" else "a LoRA adapter"
        raise FormatError(f"this GGUF file holds {what}, not a model", hint="name the model's own .gguf file")
    if not header.tensors:
        raise FormatError("this GGUF file holds no tensors", hint="is it a vocabulary only?")


def _check_known(architecture: str) -> None:
    if architecture in KNOWN:
        return
    if not architecture:
        raise FormatError("GGUF header has no general.architecture")
    near = get_close_matches(architecture, KNOWN, 1, 0.5)
    nearest = f" (nearest that we know: {near[0]})" if near else ""
    raise UnknownArchitectureError(
        f"GGUF architecture {architecture[:60]!r} has no rules here{nearest}",
        hint="plan it from raw figures: {weights: 14GB, kv_per_token: 128KiB}",
    )


def _merges(header: GgufHeader) -> int | None:
    """How many pairs its vocabulary merges; 0 for a kind without pairs, None for a file without a vocabulary."""
    kind, pairs = header.metadata.get("tokenizer.ggml.model"), header.metadata.get("tokenizer.ggml.merges")
    if isinstance(pairs, tuple):
        return len(pairs)
    if isinstance(pairs, Omitted):
        return pairs.length
    return None if not isinstance(kind, str) or kind == "gpt2" else 0


def _stored_as(header: GgufHeader) -> tuple[str, str]:
    """(dtype, format). A quantised file computes and caches in fp16 (llama.cpp's default). One of 16 or 32 bits is
    a GGUF file all the same: an engine that opens no such files cannot load it as the plain format."""
    matrices: Counter[str] = Counter()
    for tensor in header.tensors:
        if len(tensor.shape) > 1:
            matrices[tensor.dtype] += tensor.bytes
    main = matrices.most_common(1)[0][0] if matrices else "F32"
    declared = header.file_type or main
    return _PLAIN.get(declared, "fp16"), f"gguf-{declared.lower()}"


def _notes(keys: GgufKeys) -> tuple[str, ...]:
    if keys.architecture in LATENT and not is_latent(keys):
        return ("converted before llama.cpp knew MLA: it caches full heads; a new conversion caches far less",)
    if keys.architecture == "phi3" and keys.size("attention.sliding_window"):
        return ("llama.cpp ignores the sliding window of Phi-3: every layer caches the whole context",)
    return ()
