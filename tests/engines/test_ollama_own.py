"""Ollama's own engine (Go): its "compute graph" lines, as public logs print them, and its caches."""

import pytest

from cotenant import load_model
from cotenant.catalogue.gpus import find_gpu
from cotenant.domain.engine import EngineSettings, Version
from cotenant.domain.interval import Interval
from cotenant.domain.model import ModelSpec
from cotenant.engines.llama_cpp.buffers import placed
from cotenant.engines.llama_cpp.builds import build_rules
from cotenant.engines.llama_cpp.cache import cells
from cotenant.engines.ollama import OLLAMA, options_from
from cotenant.engines.ollama_own import own_compute, own_host
from cotenant.engines.ollama_releases import build_number, own_build
from cotenant.units import MIB

CARD = find_gpu("RTX-4090")


def model(name: str) -> ModelSpec:
    return load_model(name).spec


def launch(spec: ModelSpec, version: str, **words: object):
    """(settings, build, placement) of a launch."""
    release = Version.parse(version).parts
    settings = OLLAMA.resolve(spec, CARD, EngineSettings(llama_cpp=options_from(words)), Version.parse(version))
    build = own_build(build_rules(Version((build_number(release),))), release)
    return settings, build, placed(spec, settings, build)


def on_host(spec: ModelSpec, version: str, **words: object) -> Interval:
    settings, build, placement = launch(spec, version, num_gpu=0, **words)
    return own_host(spec, settings.llama_cpp, Version.parse(version).parts, build, placement)


def on_card(spec: ModelSpec, version: str, vendor: str, gfx: str | None = None, **words: object) -> Interval:
    settings, build, placement = launch(spec, version, **words)
    return own_compute(
        spec, settings.llama_cpp, Version.parse(version).parts, build, placement, 0,
        head_bytes=0, weight_bytes=0.56, vendor=vendor, gfx=gfx,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "version", "context", "printed"),
    [
        ("Qwen/Qwen3-30B-A3B", "0.16.3", 16384, 96.0),  # Q3_K_S of its coder on a Raspberry Pi, February 2026
        ("Qwen/Qwen3-30B-A3B", "0.16.3", 4096, 88.0),
        ("Qwen/Qwen3-1.7B", "0.12.6", 4096, 48.0),
    ],
)
def test_the_hosts_graph_is_what_it_prints(name, version, context, printed):
    found = on_host(model(name), version, num_ctx=context)
    assert found.value / MIB == pytest.approx(printed, abs=0.05)


def test_the_graph_and_hips_pool_are_what_it_prints():
    """89.8 MiB on an AMD APU: 52.0 of graph; q's matrix, rows and result and gate's matrix in f16 make 37.8."""
    found = on_card(model("Qwen/Qwen3-1.7B"), "0.12.6", "amd", "gfx1103", num_ctx=4096)
    assert found.value / MIB == pytest.approx(89.8, abs=0.05)


def test_cards_without_a_pool_hold_the_graph_alone():
    graph = on_card(model("Qwen/Qwen3-1.7B"), "0.12.6", "apple", num_ctx=4096)
    assert graph.value / MIB == pytest.approx(52.0, abs=0.05)


def test_nvidias_pool_is_an_interval_over_cards():
    """80.0 MiB for Gemma 3 1B on a card of 6 GB: 62 of graph and 18 of pool."""
    found = on_card(model("google/gemma-3-1b-it"), "0.13.0", "nvidia", num_ctx=4096)
    assert found.low <= 80.0 * MIB <= found.high
    assert found.value % (2 * MIB) == pytest.approx(0, abs=0.1 * MIB)


def test_a_quantised_cache_is_converted_in_the_pool():
    spec = model("Qwen/Qwen3-1.7B")
    plain = on_card(spec, "0.12.6", "nvidia", num_ctx=32768)
    packed = on_card(spec, "0.12.6", "nvidia", num_ctx=32768, OLLAMA_KV_CACHE_TYPE="q8_0")
    # K and V of 8 heads of 128 in f16
    assert packed.value - plain.value == pytest.approx(32768 * 8 * 256 * 2, abs=2 * MIB)


def test_gpt_oss_joins_its_matrices():
    """121.8 MiB for gpt-oss-120b over 8,192 tokens on a Radeon of a year whose release joins gate and up."""
    found = on_card(model("openai/gpt-oss-120b"), "0.11.10", "amd", "gfx1151", num_ctx=8192)
    assert found.low <= 121.8 * MIB <= found.high
    assert found.value / MIB == pytest.approx(121.8, rel=0.08)


def test_the_encoder_decides_for_models_that_see():
    """1.1 GiB for Gemma 3 4B: 16 heads of 4,096 x 4,096 scores; fused later."""
    spec = model("google/gemma-3-4b-it")
    plain = on_card(spec, "0.9.0", "nvidia", num_ctx=4096)
    fused = on_card(spec, "0.13.3", "nvidia", num_ctx=4096)
    assert plain.value / 2**30 == pytest.approx(1.1, abs=0.1)
    assert fused.value < plain.value / 3


@pytest.mark.parametrize(("slots", "window_cells"), [(1, 512 + 512), (4, 4 * 513 + 512)])
def test_windows_keep_a_token_more_where_slots_share(slots, window_cells):
    spec = model("google/gemma-3-1b-it")
    settings, build, _ = launch(spec, "0.12.7", num_ctx=8192, OLLAMA_NUM_PARALLEL=slots)
    assert cells(spec, settings.llama_cpp, build).window == -(-window_cells // 256) * 256


def test_its_rules_charge_what_the_rules_here_say():
    spec = model("Qwen/Qwen3-1.7B")
    settings, _, _ = launch(spec, "0.12.6", num_ctx=4096)
    found = OLLAMA.rules(Version.parse("0.12.6")).allocate(spec, CARD, settings, ())
    assert "pool" in found.devices[0].compute.why
    assert any("own engine" in note for note in found.notes)
    assert found.devices[0].compute.bytes == on_card(spec, "0.12.6", "nvidia", num_ctx=4096)
