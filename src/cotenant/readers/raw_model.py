"""A model that nobody knows, from a handful of figures: what is not given is assumed, and said.

    {parameters: 7B, layers: 32, kv_heads: 8, head_dim: 128}      weights and cache follow from the structure
    {weights: 14GB, kv_per_token: 128KiB}                         weights and cache as they are

Both take name, quantization, dtype, hidden_size, intermediate_size, vocab_size, query_heads, max_model_len and
layers.

An unknown hidden size follows from 12 x layers x hidden^2 = parameters, the count of a plain transformer layer
(4 hidden^2 of attention, 8 hidden^2 of feed-forward; Kaplan et al. 2020, arXiv:2001.08361, table 1), rounded to
64; it sizes activations and step times alone, never weights or cache. The shape of the matrices is unknown too:
squares of the hidden size stand for them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import gcd, isqrt
from typing import Any

from cotenant.catalogue.quantization import find_format
from cotenant.catalogue.strict import Row, nearest, raise_faults
from cotenant.domain.model import AttentionKind, LayerGroup, ModelSpec, ParameterGroup, Role, Split, Stage
from cotenant.errors import CotenantError, InputError
from cotenant.units import format_count, parse_bytes, parse_count

STRUCTURE = ("parameters", "layers", "kv_heads", "head_dim")
SIZES = ("weights", "kv_per_token")
OPTIONAL = (
    "name", "quantization", "dtype", "hidden_size", "intermediate_size", "vocab_size", "query_heads",
    "max_model_len", "layers",
)  # fmt: skip
_DTYPES = ("bf16", "fp16", "fp32")
_VOCABULARY, _LENGTH, _LAYERS = 128_256, 131_072, 32  # of models that are usual today
_MOST_LAYERS, _MOST_HEADS, _WIDEST = 1_000, 1_024, 2**20
_ELEMENT_BYTES = 2  # of a cached element unless the engine is told otherwise


def raw_model(value: Mapping[str, Any]) -> ModelSpec:
    """The spec of a model described by figures. Raises InputErrors with every fault and its path."""
    faults: list[CotenantError] = []
    _check_keys(value, faults)
    raise_faults(faults)
    figures = _Figures(value, faults)
    built = _from_structure(figures) if "parameters" in value else _from_sizes(figures)
    raise_faults(faults)
    return built


def _check_keys(value: Mapping[str, Any], faults: list[CotenantError]) -> None:
    """One of the two ways, complete, without keys of the other."""
    way = SIZES if any(key in value for key in SIZES) else STRUCTURE
    known = (*way, *(key for key in OPTIONAL if key not in way))
    faults += [
        InputError(f"unknown key {str(key)[:60]!r}", hint=nearest(str(key), known), path=f"$.{key}")
        for key in value
        if key not in known
    ]
    missing = [key for key in way if value.get(key) is None]
    if missing:
        hint = "{parameters: 7B, layers: 32, kv_heads: 8, head_dim: 128} or {weights: 14GB, kv_per_token: 128KiB}"
        faults.append(InputError(f"raw figures need {', '.join(missing)}", hint=hint, path="$"))


class _Figures(Row):
    """The mapping, read strictly; what is assumed is noted."""

    def __init__(self, value: Mapping[str, Any], faults: list[CotenantError]) -> None:
        super().__init__(value, "$", faults, (*STRUCTURE, *SIZES, *OPTIONAL))
        self.assumed: list[str] = []

    def whole(self, key: str, most: int, assumed: int | None = None, what: str = "") -> int:
        """A whole number from 1; one that is missing is `assumed`, and said to be."""
        value = self.values.get(key)
        if value is None and assumed is not None:
            self.assumed.append(f"{what or key} {assumed:,}")
            return assumed
        if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most:
            return value
        self.note(f"must be a whole number from 1 to {most:,}", value, key)
        return 1

    def sized(self, key: str, parse: Callable[[object], int]) -> int:
        """A size or a count with its unit, at least 0."""
        try:
            return parse(self.values.get(key))
        except InputError as error:
            self.faults.append(InputError(error.message, hint=error.hint, path=f"{self.path}.{key}"))
            return 0

    def one_of(self, key: str, words: tuple[str, ...]) -> str:
        """One of a few words; the first where it is missing."""
        word = self.values.get(key, words[0])
        if word in words:
            return str(word)
        self.note(f"must be one of {', '.join(words)}", word, key)
        return words[0]

    def format(self) -> str:
        """The format that the checkpoint is stored in; "" where none is given or it is a plain dtype."""
        if not self.has("quantization"):
            return ""
        try:
            found = find_format(self.text("quantization"))
        except InputError as error:
            self.faults.append(InputError(error.message, hint=error.hint, path="$.quantization"))
            return ""
        return found.name if found.storage else ""


def _from_structure(figures: _Figures) -> ModelSpec:
    parameters = figures.sized("parameters", parse_count)
    if parameters <= 0:
        figures.note("must be above zero", figures.values.get("parameters"), "parameters")
    layers = figures.whole("layers", _MOST_LAYERS)
    kv_heads, width = figures.whole("kv_heads", _MOST_HEADS), figures.whole("head_dim", 65_536)
    hidden = _hidden(figures, parameters, layers)
    heads = figures.whole("query_heads", 65_536, max(1, hidden // width // kv_heads) * kv_heads, "query heads")
    group = LayerGroup(AttentionKind.FULL, tuple(range(layers)), heads, kv_heads, width, width)
    return _spec(figures, parameters, layers, hidden, group, stored_bytes=None)


def _from_sizes(figures: _Figures) -> ModelSpec:
    weights, per_token = figures.sized("weights", parse_bytes), figures.sized("kv_per_token", parse_bytes)
    if weights <= 0:
        figures.note("must be above zero", figures.values.get("weights"), "weights")
    layers = figures.whole("layers", _MOST_LAYERS, _LAYERS)
    parameters = max(1, weights // _ELEMENT_BYTES)
    hidden = _hidden(figures, parameters, layers)
    return _spec(figures, parameters, layers, hidden, _cache_group(per_token, layers), stored_bytes=weights)


def _cache_group(per_token: int, layers: int) -> LayerGroup:
    """Layers and heads that cache exactly `per_token` bytes (rounded up to an element) of a token.

    Eight key-value heads where the bytes divide so, fewer otherwise; one layer stands for all where they do not.
    """
    elements = -(-per_token // _ELEMENT_BYTES)
    if elements == 0:
        return LayerGroup(AttentionKind.NONE, tuple(range(layers)))
    spread = layers if elements % (2 * layers) == 0 else 1
    heads = gcd(elements // spread, 8) if spread > 1 or elements % 2 == 0 else 1
    width = elements // spread // heads
    return LayerGroup(AttentionKind.FULL, tuple(range(spread)), 64, heads, width - width // 2, width // 2)


def _hidden(figures: _Figures, parameters: int, layers: int) -> int:
    guess = max(64, round(isqrt(max(1, parameters // (12 * layers))) / 64) * 64)
    return figures.whole("hidden_size", _WIDEST, guess, "a hidden size of")


def _spec(
    figures: _Figures, parameters: int, layers: int, hidden: int, group: LayerGroup, *, stored_bytes: int | None
) -> ModelSpec:
    inner = figures.whole("intermediate_size", _WIDEST, 4 * hidden, "an inner size of")
    vocabulary = figures.whole("vocab_size", 2**24, _VOCABULARY, "a vocabulary of")
    length = figures.whole("max_model_len", 2**31, _LENGTH, "sequences up to")
    name = figures.text("name", f"unnamed-{format_count(parameters)}")
    return ModelSpec(
        name=name,
        architecture="raw figures",
        family="raw",
        layer_groups=(group,),
        parameters=_parameters(parameters, layers, hidden, vocabulary),
        num_layers=layers,
        hidden_size=hidden,
        intermediate_size=inner,
        vocab_size=vocabulary,
        max_model_len=length,
        dtype=figures.one_of("dtype", _DTYPES),
        quantization=figures.format(),
        encoder_only=group.kind is AttentionKind.NONE,
        stored_bytes=stored_bytes,
        source="raw figures",
        notes=(f"from raw figures; assumed: {', '.join(figures.assumed)}",) if figures.assumed else (),
    )


def _parameters(whole: int, layers: int, hidden: int, vocabulary: int) -> tuple[ParameterGroup, ...]:
    """Matrices that add up to `whole` exactly. A vocabulary's two tables are kept apart where they are less than
    half of the model, since formats leave them alone; what does not divide is a vector."""
    tables = vocabulary * hidden if 4 * vocabulary * hidden < whole else 0
    numbered = tuple(range(layers))
    each, left = divmod(whole - 2 * tables, layers)
    squares, strip = divmod(each, hidden * hidden)
    rows, row = divmod(strip, hidden)
    groups = (
        ParameterGroup("embed_tokens", Role.EMBEDDING, (vocabulary, hidden), Split.VOCAB, copies=int(tables > 0)),
        ParameterGroup("squares", Role.MLP, (hidden, hidden), Split.EVEN, copies=squares, layers=numbered),
        ParameterGroup("strip", Role.MLP, (rows, hidden), Split.EVEN, layers=numbered),
        ParameterGroup("vectors", Role.NORM, (row,), layers=numbered),
        ParameterGroup("rest", Role.NORM, (left,)),
        ParameterGroup(
            "lm_head", Role.HEAD, (vocabulary, hidden), Split.VOCAB, copies=int(tables > 0), stage=Stage.LAST
        ),
    )
    return tuple(group for group in groups if group.elements)
