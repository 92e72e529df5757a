"""Which format a record's weights are in: as its flag and the checkpoint's name say, with the recipe where one is
known. What both leave open widens the interval (`*-by-name`, `*-dynamic`) or is refused."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from cotenant.catalogue.quantization import find_format
from cotenant.catalogue.recipes import find_recipe
from cotenant.domain.model import ModelSpec, Role
from cotenant.domain.quantization import QuantizationFormat
from cotenant.errors import UnsupportedError

Row = Mapping[str, Any]

# What a flag may mean: the start of our formats' names. compressed-tensors and modelopt hold many.
_MEANS = {
    "fp8": ("fp8",), "mxfp4": ("mxfp4",), "nvfp4": ("nvfp4", "mixed-nvfp4"), "modelopt": ("",),
    "awq": ("awq", "w4a16"), "gptq": ("gptq",), "compressed": ("",), "bitsandbytes": ("bnb",), "w4a16": ("w4a16",),
    "auto": ("gptq",), "quark": ("",), "mxfp8": ("fp8",),
}  # fmt: skip
_GGUF = re.compile(r"(i?q\d_[a-z0-9_]*|f16|bf16)")
# (mark in a flag, format), then (mark in a name, format): the first that stands there.
_FLAGS = (
    ("nvfp4", "nvfp4"), ("modelopt_fp4", "nvfp4"), ("mxfp4", "mxfp4"), ("awq", "awq-int4"),
    ("gptq-int8", "gptq-int8"), ("gptq_int8", "gptq-int8"), ("gptq", "gptq-int4"), ("bitsandbytes", "bnb-nf4"),
    ("bnb", "bnb-nf4"), ("nf4", "bnb-nf4"), ("w4a16", "w4a16"), ("w4a8", "w4a16"), ("w4afp8", "w4a16"),
    ("fp8", "fp8"), ("w8a8", "int8"), ("smoothquant", "int8"), ("blockwise_int8", "int8"), ("w8a16", "gptq-int8"),
    ("eetq", "gptq-int8"), ("experts_int8", "gptq-int8"), ("int8", "int8"), ("int4", "w4a16"), ("fp4", "nvfp4"),
)  # fmt: skip
# What a flag that names a method, not a format, may stand for: the usual first, the others its ends.
_OPEN = {
    "compressed": ("fp8", "w4a16", "bf16"), "modelopt": ("nvfp4", "fp8"), "quark": ("fp8", "mxfp4"),
    "torchao": ("int8", "w4a16"), "marlin": ("gptq-int4",), "moe_wna16": ("gptq-int4", "gptq-int8"),
    "inc": ("gptq-int4",), "hqq": ("w4a16", "gptq-int8"), "rtn": ("w4a16", "gptq-int8"),
    "bitblas": ("gptq-int4",), "squeezellm": ("gptq-int4",), "qoq": ("w4a16",), "4bit": ("w4a16",),
    "4-bit": ("w4a16",), "8bit": ("gptq-int8",), "8-bit": ("gptq-int8",), "exl": ("w4a16", "gptq-int8"),
    "gguf": ("gguf-q4_k_m", "gguf-q8_0", "gguf-q2_k"), "humming": ("fp8", "w4a16"),
}  # fmt: skip
_ANY = ("fp8", "w4a16", "bf16")
_PLAIN_WORDS = {"none", "auto", "bf16", "bfloat16", "fp16", "float16", "half", "unquantized", "no", "-"}
_NAMES = (
    ("nvfp4", "nvfp4"), ("mxfp4", "mxfp4"), ("fp4", "nvfp4"), ("bnb-4bit", "bnb-nf4"), ("gptq-int8", "gptq-int8"),
    ("gptq", "gptq-int4"), ("awq", "awq-int4"), ("int4", "w4a16"), ("w4a16", "w4a16"), ("fp8", "fp8"),
    ("w8a8", "int8"), ("4bit", "w4a16"), ("4-bit", "w4a16"),
)  # fmt: skip
_PACKED_NAMES = {"awq-int4": "w4a16", "gptq-int4": "w4a16"}  # what a name means of compressed-tensors


_MADE = re.compile(
    r"[-_. ](nvfp4|mxfp4|fp8|fp4|int4|int8|awq|gptq|w4a16|w8a8|w8a16|4bit|8bit|bnb|unsloth|dynamic|autoround|"
    r"auto-round|block|qat|marlin|instruct-hf|hf)\b.*$",
    re.IGNORECASE,
)


def base_names(name: str) -> tuple[str, ...]:
    """The name as posted, without its owner, and without what says how it was quantised."""
    short = name.rpartition("/")[2].strip()
    return tuple(dict.fromkeys(part for part in (name, short, _MADE.sub("", short)) if part))


def with_recipe(config: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """The config, with the published recipe of the checkpoint of that name where it has none of its own."""
    recipe = find_recipe(name)
    if recipe is None or config.get("quantization_config"):
        return config
    return {**config, "quantization_config": recipe.quantization_config}


def formats_of(row: Row, model: ModelSpec) -> tuple[QuantizationFormat, ...]:
    """The format that the record names, or the usual one of the method that it names with the others behind it."""
    try:
        return (format_of(row, model),)
    except UnsupportedError:
        text = (row["quantization"] or "").lower()
        names = next((found for mark, found in _OPEN.items() if mark in text), _ANY)
        return tuple(find_format(name) for name in names)


def format_of(row: Row, model: ModelSpec) -> QuantizationFormat:
    """The format that the record names, else the checkpoint's own, else plain."""
    text = (row["quantization"] or "").lower()
    text = "" if text.strip() in _PLAIN_WORDS else text
    name = (row["model"] or "").lower()
    own = model.quantization
    if own and not own.startswith("unknown:") and _means_own(text, name, own):
        return find_format(own)
    if "8bit" in name or "int8" in name:
        return _eight_bits(text, model)
    if "bitsandbytes" in text and "unsloth-bnb" in name:  # some layers stay in 16 bits
        return replace(find_format("bnb-nf4"), name="bnb-nf4-dynamic")
    if "auto_round" in text or "auto-round" in text or "autoround" in text:
        return _every_linear(find_format("gptq-int4"), model)
    if "gguf" in text or _GGUF.fullmatch(text):
        return _gguf(f"{name} {text}")
    flagged = _first(_FLAGS, text)
    if flagged:
        return find_format(flagged)
    named = _first(_NAMES, name)
    if named and "compressed" in text:
        named = _PACKED_NAMES.get(named, named)
    if named:
        return find_format(named)
    if not text:
        return find_format("bf16")
    raise UnsupportedError(f"nothing says which format {text!r} means")


def _means_own(text: str, name: str, own: str) -> bool:
    """Whether the config's own format is what was served: nothing says otherwise, or what is said agrees."""
    if text:
        return any(own.startswith(starts) for mark, starts in _MEANS.items() if mark in text) and _agrees(
            name, own
        )
    return _agrees(name, own)


def _agrees(name: str, own: str) -> bool:
    """Whether the name says the same family of formats, or none."""
    if "8bit" in name or "int8" in name:
        return own in ("int8", "gptq-int8", "bnb-int8")
    named = _first(_NAMES, name)
    if not named:
        return "autoround" not in name
    kin = {"w4a16": ("w4a16", "awq", "gptq", "mixed-fp8-int4"), "nvfp4": ("nvfp4", "mixed-nvfp4", "fp8-fp4")}
    return own.startswith(kin.get(named, (named.partition("-")[0],)))


def _first(marks: tuple[tuple[str, str], ...], text: str) -> str:
    return next((chosen for mark, chosen in marks if mark in text), "")


def _eight_bits(text: str, model: ModelSpec) -> QuantizationFormat:
    if not text:  # zero points and drafts: unsaid; quantisers take every linear layer of a block by themselves
        return replace(_every_linear(find_format("gptq-int8"), model), name="int8-by-name")
    return find_format("gptq-int8" if text != "compressed-tensors" else "int8")


def _gguf(name: str) -> QuantizationFormat:
    found = _GGUF.search(name)
    if found is None:
        raise UnsupportedError("nothing says which type of GGUF")
    return find_format(f"gguf-{found.group(1).rstrip('_')}")


def _every_linear(chosen: QuantizationFormat, model: ModelSpec) -> QuantizationFormat:
    """AutoRound quantises every linear layer of the blocks, those of recurrent mixers too; for mixtures of
    experts its recipes leave some in 16 bits."""
    storage = {**chosen.storage, Role.STATE: chosen.storage[Role.ATTENTION]}
    return replace(chosen, name="auto-round-int4" if model.num_experts else chosen.name, storage=storage)
