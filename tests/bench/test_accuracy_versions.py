"""Which versions a record without one may come from, and one answer over all of them."""

from dataclasses import replace

import pytest

from bench.accuracy_page import WrongRow, is_wrong, page
from bench.accuracy_versions import candidates, merged
from cotenant.catalogue.quantization import find_format
from cotenant.domain.engine import EngineSettings, Version
from cotenant.domain.estimate import Verdict
from cotenant.engines.vllm import VLLM
from cotenant.estimation.memory import estimate_memory
from cotenant.readers.model_config import read_model_config
from tests.estimation.conftest import LLAMA_8B, card


@pytest.mark.parametrize(
    ("row", "first", "low", "high"),
    [
        ({"cudagraph_estimated_gib": 0.5, "available_kv_gib": 3.0}, "0.23.0", "0.20.2", "0.33.0"),
        ({"gpu_blocks": 5691, "available_kv_gib": 3.0}, "0.7.3", "0.6.4", "0.7.3"),
        ({"kv_cache_tokens": 178880, "config_file": "Qwen__Qwen3-235B.json"}, "0.12.0", "0.9.2", "0.19.1"),
        ({"kv_cache_tokens": 1, "config_file": "google__gemma-4-26B.json"}, "0.19.0", "0.19.0", "0.19.1"),
        ({"available_kv_gib": 1.0, "config_file": "deepseek-ai__DeepSeek-V4.json"}, "0.20.0", "0.20.0", "0.20.0"),
        ({"outcome": "fits"}, "0.33.0", "0.5.4", "0.33.0"),
    ],
)  # fmt: skip
def test_the_range_follows_from_which_fields_are_there(row, first, low, high):
    found = candidates(row)
    assert found[0] == first
    versions = [Version.parse(one) for one in found]
    assert Version.parse(low) <= min(versions)
    assert max(versions) <= Version.parse(high)
    assert len(set(found)) == len(found)


def test_no_figure_changes_the_range():
    rows = ({"available_kv_gib": size, "kv_cache_tokens": 10, "weights_gib": size} for size in (0.01, 1.0, 900.0))
    assert len({candidates(row) for row in rows}) == 1


def test_merged_holds_every_interval_and_the_usual_verdict():
    model, a100 = read_model_config(LLAMA_8B, name="8B", source="test"), card("A100", 79.25, 80.0, (8, 0))
    settings = EngineSettings(max_model_len=8192)
    found = [
        estimate_memory(
            model, a100, settings, engine=VLLM, version=Version.parse(text), format=find_format("bf16")
        )
        for text in ("0.12.0", "0.7.3", "0.17.1")
    ]
    one = merged(found)
    pools = [each.per_gpu[0].kv_cache.bytes for each in found]
    assert one.per_gpu[0].kv_cache.bytes.value == pools[0].value
    assert one.per_gpu[0].kv_cache.bytes.low == min(pool.low for pool in pools)
    assert one.per_gpu[0].kv_cache.bytes.high == max(pool.high for pool in pools)
    assert one.verdict is Verdict.FITS
    divided = merged([*found, replace(found[0], verdict=Verdict.DOES_NOT_FIT)])
    assert divided.verdict is Verdict.UNCERTAIN


def test_the_page_shows_figures_and_every_wrong_row():
    entry = {"id": "kv_pool_median", "value": 0.0162, "unit": "share of capacity", "reach": 0.015, "holds": False,
             "eligible": 32, "answered": 31}  # fmt: skip
    rows = [
        WrongRow("a-row", "vllm 0.12.0", "some/model", "pool", 0.12, held_out=False),
        WrongRow("apart", "vllm", "other", "outcome", 0.5, held_out=True),
        WrongRow("none", "vllm", "third", "weights", None, held_out=False, why="no | config"),
    ]
    text = page({"vLLM": [entry]}, rows)
    assert "| kv_pool_median | 1.6% | 1.5% | no | 32 | 31 |" in text
    assert "| a-row | vllm 0.12.0 | some/model | pool | +12.0% | not explained yet |" in text
    assert "| apart | vllm | other | outcome | uncertain | kept apart: not looked into |" in text
    assert "| none | vllm | third | weights | refused | no / config |" in text


@pytest.mark.parametrize(
    ("metric", "error", "wrong"),
    [("kv", 0.009, False), ("kv", -0.011, True), ("pool", 0.04, False), ("outcome", 0.5, True),
     ("weights", None, True)],
)  # fmt: skip
def test_wrong_is_beyond_the_reach(metric, error, wrong):
    assert is_wrong(metric, error) is wrong
