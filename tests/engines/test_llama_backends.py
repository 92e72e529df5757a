"""What a backend changes in a graph's buffer: Vulkan's order, CUDA's room to convert, caches on the host."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant import load_model
from cotenant.domain.engine import EngineSettings, Version
from cotenant.domain.llama_cpp import LlamaCppOptions
from cotenant.engines.llama_cpp.builds import build_rules
from cotenant.engines.llama_cpp.cache import layer_bytes
from cotenant.engines.llama_cpp.engine import resolved
from cotenant.engines.llama_cpp.ggml import Graph
from cotenant.engines.llama_cpp.placement import place
from cotenant.engines.llama_cpp.reorder import vulkan_order
from cotenant.engines.llama_cpp.reserve import gpu_compute, host_compute
from cotenant.units import MIB


def on_gpu(name: str, number: int, *, layers: int = 999, each: float = 0.0, **given: object) -> float:
    """MiB of the first GPU's buffer; `given` are options, and vulkan or cuda."""
    flags = {name: bool(given.pop(name, False)) for name in ("vulkan", "cuda")}
    spec, build = load_model(name).spec, replace(build_rules(Version((number,))), **flags)
    options = resolved(spec, EngineSettings(llama_cpp=LlamaCppOptions(**given)), build).llama_cpp
    placement = place(spec.num_layers, layers, 1, output_first=build.output_first)
    return gpu_compute(spec, options, build, placement, 0, head_bytes=0, weight_bytes=each) / MIB


@pytest.mark.parametrize(
    ("name", "build", "given", "printed"),
    [
        ("google/gemma-4-E2B-it", 9849, {"n_ctx": 8192, "n_parallel": 4, "n_ubatch": 2048}, 560.07),
        ("Qwen/Qwen3.5-9B", 9849, {"n_ctx": 8192, "n_parallel": 4, "n_ubatch": 2048}, 392.44),
        ("Qwen/Qwen3.5-27B", 8250, {"n_ctx": 177152, "n_parallel": 1}, 579.02),
    ],
)
def test_vulkans_order_gives_what_it_prints(name, build, given, printed):
    """Public logs: an RTX 3060 Laptop, an RTX 3080 Ti, a Radeon."""
    unified = given["n_parallel"] == 4 and "gemma" in name
    found = on_gpu(name, build, vulkan=True, flash_attn=True, kv_unified=unified, **given)
    assert found == pytest.approx(printed, rel=0.002)
    assert on_gpu(name, build, flash_attn=True, kv_unified=unified, **given) < found


def test_before_it_sorted_its_order_was_that_of_the_graph():
    given = {"n_ctx": 8192, "n_parallel": 1, "flash_attn": True}
    assert on_gpu("Qwen/Qwen3-8B", 6400, vulkan=True, **given) == on_gpu("Qwen/Qwen3-8B", 6400, **given)


def test_cuda_keeps_room_for_a_quantised_cache_in_f16():
    """Since June 2026 the result of fused attention is as much larger as keys and values of one layer in f16."""
    given = {"n_ctx": 262144, "n_parallel": 1, "flash_attn": True}
    packed = {**given, "type_k": "q8_0", "type_v": "q8_0"}
    layer = 262144 * 8 * 256 * 2 / MIB
    assert on_gpu("Qwen/Qwen3-8B", 10000, cuda=True, **packed) > layer
    assert on_gpu("Qwen/Qwen3-8B", 9400, cuda=True, **packed) == on_gpu("Qwen/Qwen3-8B", 9400, **packed)
    assert on_gpu("Qwen/Qwen3-8B", 10000, cuda=True, **given) == on_gpu("Qwen/Qwen3-8B", 10000, **given)
    assert on_gpu("Qwen/Qwen3-8B", 10000, **packed) < layer


def test_attention_of_a_layer_on_the_host_copies_its_cache_over():
    """1401.75 MiB for Qwen3.5-27B with 39 of 64 layers on the host: logits, and keys and values of one of them."""
    given = {"n_ctx": 131072, "n_parallel": 1, "n_ubatch": 1024, "flash_attn": True}
    found = on_gpu("Qwen/Qwen3.5-27B", 8400, cuda=True, layers=26, each=0.56, **given)
    assert found == pytest.approx(1401.75, rel=0.001)


@pytest.mark.parametrize(
    ("name", "layers"), [("microsoft/Phi-3-mini-4k-instruct", 32), ("bigcode/starcoder2-3b", 30)]
)
def test_windows_that_llama_cpp_does_not_know_cache_everything(name, layers):
    spec, build = load_model(name).spec, build_rules(Version((9000,)))
    options = LlamaCppOptions(n_ctx=8192, n_parallel=1, flash_attn=True)
    group = spec.layer_groups[0]
    each = 8192 * group.kv_heads * (group.key_width + group.value_width) * 2
    assert sum(layer_bytes(spec, options, build)) == layers * each


@pytest.mark.parametrize(
    ("build", "where", "tokens", "printed"),
    [
        (6300, "host", 512, 288.01),  # Phi-3-mini's joined matrix, read where it lies
        (5700, "gpu", 256, 150.00),  # its parts copied out
    ],
)
def test_joined_matrices_by_build(build, where, tokens, printed):
    spec, rules = load_model("microsoft/Phi-3-mini-4k-instruct").spec, build_rules(Version((build,)))
    options = LlamaCppOptions(n_ctx=4096, n_parallel=1, n_ubatch=tokens, flash_attn=False)
    if where == "host":
        found = host_compute(spec, options, rules, place(32, 0, 1))
    else:
        found = gpu_compute(spec, options, rules, place(32, 99, 1), 0, head_bytes=0)
    assert found / MIB == pytest.approx(printed, abs=0.02)


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["new", "inplace", "view"])), max_size=60))
def test_an_order_keeps_every_node_once_and_sources_first(steps):
    g = Graph()
    made = [g.input(8)]
    for back, kind in steps:
        source = made[-1 - min(back, len(made) - 1)]
        made.append(g.new((8,), source) if kind == "new" else getattr(g, kind)(source))
        g.expand(made[-1])
    found = vulkan_order(g.nodes)
    assert {id(node) for node in found} == {id(node) for node in g.nodes}
    assert len(found) == len(g.nodes)
    place_of = {id(node): number for number, node in enumerate(found)}
    for node in found:
        assert all(place_of[id(source)] < place_of[id(node)] for source in node.sources if not source.is_input)
