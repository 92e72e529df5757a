"""Models from raw figures: exact where figures are given, said where they are assumed, refused where absurd."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotenant.catalogue.quantization import find_format
from cotenant.domain.model import AttentionKind
from cotenant.errors import CotenantError, InputErrors
from cotenant.estimation.weights import checkpoint_bytes
from cotenant.readers.raw_model import OPTIONAL, SIZES, STRUCTURE, raw_model

SEVEN = {"parameters": "7B", "layers": 32, "kv_heads": 8, "head_dim": 128}


def test_structure_gives_weights_and_cache() -> None:
    model = raw_model(SEVEN)
    assert model.num_parameters == 7_000_000_000
    assert checkpoint_bytes(model, find_format("bf16")) == 14_000_000_000
    (group,) = model.layer_groups
    assert group.elements_per_token * 2 == 2 * 32 * 8 * 128 * 2 == 131_072
    assert group.query_heads % group.kv_heads == 0
    assert "assumed" in model.notes[0]


def test_nothing_is_assumed_where_everything_is_given() -> None:
    full = {
        **SEVEN, "name": "ours", "hidden_size": 4096, "intermediate_size": 14336, "vocab_size": 32_000,
        "query_heads": 32, "max_model_len": 8192,
    }  # fmt: skip
    model = raw_model(full)
    assert model.notes == ()
    assert (model.name, model.hidden_size, model.max_model_len) == ("ours", 4096, 8192)


@settings(max_examples=200, deadline=None)
@given(
    weights=st.integers(10**6, 10**13),
    per_token=st.integers(1, 2**26),
    layers=st.one_of(st.none(), st.integers(1, 200)),
)
def test_sizes_are_kept_to_the_byte(weights: int, per_token: int, layers: int | None) -> None:
    figures: dict[str, Any] = {"weights": f"{weights}B", "kv_per_token": f"{per_token}B"}
    model = raw_model(figures if layers is None else {**figures, "layers": layers})
    assert checkpoint_bytes(model, find_format("bf16")) == weights
    (group,) = model.layer_groups
    assert 0 <= group.elements_per_token * 2 - per_token <= 1  # a cached element has two bytes


@settings(max_examples=200, deadline=None)
@given(parameters=st.integers(10**5, 10**13), layers=st.integers(1, 300), hidden=st.integers(16, 32_768))
def test_parameters_add_up_exactly(parameters: int, layers: int, hidden: int) -> None:
    model = raw_model({**SEVEN, "parameters": parameters, "layers": layers, "hidden_size": hidden})
    assert model.num_parameters == parameters


def test_quantised_formats_take_what_their_bits_say() -> None:
    model = raw_model(SEVEN)
    tables = 2 * 128_256 * model.hidden_size
    expected = (7e9 - tables) * 4.25 / 8 + tables * 2  # AWQ, groups of 128: 4 bits, a scale of 16 and a zero of 4
    assert checkpoint_bytes(model, find_format("awq-int4")) == pytest.approx(expected, rel=0.02)


def test_a_model_without_cache() -> None:
    model = raw_model({"weights": "1GB", "kv_per_token": "0B"})
    assert model.encoder_only
    assert [group.kind for group in model.layer_groups] == [AttentionKind.NONE]


def test_a_stored_format_is_kept() -> None:
    model = raw_model({"weights": "5GB", "kv_per_token": "128KiB", "quantization": "AWQ"})
    assert model.quantization == "awq-int4"
    assert checkpoint_bytes(model, find_format("awq-int4")) == 5_000_000_000


@pytest.mark.parametrize(
    ("figures", "path"),
    [
        ({}, "$"),
        ({"parameters": "7B"}, "$"),
        ({**SEVEN, "weights": "14GB"}, "$"),
        ({"weights": "14GB", "kv_per_token": 131072}, "$.kv_per_token"),
        ({"weights": 14, "kv_per_token": "128KiB"}, "$.weights"),
        ({"weights": "0B", "kv_per_token": "128KiB"}, "$.weights"),
        ({**SEVEN, "layers": 0}, "$.layers"),
        ({**SEVEN, "layers": True}, "$.layers"),
        ({**SEVEN, "layers": 10**9}, "$.layers"),
        ({**SEVEN, "kv_heads": -8}, "$.kv_heads"),
        ({**SEVEN, "head_dim": "128"}, "$.head_dim"),
        ({**SEVEN, "parameters": "-7B"}, "$.parameters"),
        ({**SEVEN, "dtype": "int3"}, "$.dtype"),
        ({**SEVEN, "quantization": "zip"}, "$.quantization"),
        ({**SEVEN, "name": 7}, "$.name"),
        ({**SEVEN, "heads": 32}, "$.heads"),
    ],
)
def test_faults_are_named_by_path(figures: dict[str, Any], path: str) -> None:
    with pytest.raises(InputErrors) as refused:
        raw_model(figures)
    assert path in [fault.path for fault in refused.value.faults()]


_JUNK = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=12),
    st.lists(st.integers(), max_size=2), st.sampled_from(["7B", "14GB", "128KiB", 8, 32]),
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(st.sampled_from([*STRUCTURE, *SIZES, *OPTIONAL, "other"]), _JUNK))
def test_any_mapping_is_read_or_refused(figures: dict[str, Any]) -> None:
    try:
        model = raw_model(figures)
    except CotenantError:
        return
    assert model.num_parameters > 0
