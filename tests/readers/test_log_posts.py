"""Tables that people post of what engines printed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.domain.measurement import Outcome
from cotenant.errors import CotenantError
from cotenant.readers.logs import read_log
from cotenant.readers.logs.posts import Table
from tests.readers.logs import one, read, values

SIDE_BY_SIDE = """\
| precision | KV tokens | weights/GPU | MTP acceptance |
|---|---:|---:|---:|
| NVFP4 | 445,875 | 12.02 GiB | 0.897 |
"""
TWO_MODELS = """\
| start order | ASR KV | aligner KV |
| sequential | 4.72 GiB | 2.82 GiB |
| both at once | **1.84 GiB** | **\u22123.21 GiB \u2192 `ValueError: No available memory for the cache blocks`** |
"""


def test_figures_side_by_side_are_one_run() -> None:
    found = one(SIDE_BY_SIDE)
    assert values(found, "kv_cache_tokens", "weights_gib") == [445875, 12.02]
    assert found.source == "NVFP4"
    assert "names no engine" in found.notes[0]


def test_columns_of_two_models_are_two_runs() -> None:
    runs = read(TWO_MODELS).measurements
    assert [(run.model, run.value("available_kv_gib")) for run in runs] == [
        ("ASR", 4.72), ("aligner", 2.82), ("ASR", 1.84), ("aligner", -3.21),
    ]  # fmt: skip
    assert runs[3].outcome is Outcome.OOM
    assert read(TWO_MODELS).foremost == runs[3]


def test_sentences_of_posts() -> None:
    assert values(one("measured 2 x 4.99 = 9.98 GiB pool"), "available_kv_gib") == [4.99]
    assert values(one("KV cache holds only 150K tokens in 7.7 GiB"), "available_kv_gib") == [7.7]


@pytest.mark.parametrize(
    "text",
    [
        "| model | size | params | backend | t/s |\n| llama 7B | 3.56 GiB | 6.74 B | CUDA | 130 |\n",
        "| a | KV |\n| b |\n",
    ],
)
def test_other_tables_are_none(text: str) -> None:
    with pytest.raises(CotenantError):
        read_log([text.encode()])


@given(st.lists(st.text("|KV tokens12.GiB*-,\u2212 ", max_size=60), max_size=8))
def test_any_table_is_read_or_left(lines: list[str]) -> None:
    table = Table()
    for line in lines:
        rows = table.read(line)
        assert rows is None or all(row.figures for row in rows)
