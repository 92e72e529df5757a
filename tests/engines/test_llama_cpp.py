"""llama.cpp: what its builds cache, reserve, place and are told, on figures that it printed."""

import contextlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.catalogue.models import find_entry
from cotenant.domain.engine import EngineSettings, Version
from cotenant.domain.llama_cpp import LlamaCppOptions
from cotenant.domain.model import AttentionKind, LayerGroup, ModelSpec, RecurrentState
from cotenant.engines import find_engine, own_options
from cotenant.engines.llama_cpp.builds import build_rules
from cotenant.engines.llama_cpp.cache import cells, layer_bytes, row_bytes, state_bytes, token_bytes
from cotenant.engines.llama_cpp.engine import LLAMA_CPP, resolved
from cotenant.engines.llama_cpp.options import options_from
from cotenant.engines.llama_cpp.placement import HOST, place
from cotenant.engines.llama_cpp.reserve import gpu_compute, host_compute
from cotenant.engines.vllm import VLLM
from cotenant.errors import InputError, InputErrors, UnknownEngineError, UnsupportedError
from cotenant.readers.model_config import read_model_config
from cotenant.units import MIB


def model(*groups: LayerGroup, layers: int, hidden: int = 4096, vocab: int = 128256) -> ModelSpec:
    return ModelSpec("m", "m", "m", groups, (), layers, hidden, 0, vocab, 131072)


def known(name: str) -> ModelSpec:
    entry = find_entry(name)
    assert entry is not None
    return read_model_config(entry.config, name=name)


def full(count: int, heads: int, kv_heads: int, width: int) -> LayerGroup:
    return LayerGroup(AttentionKind.FULL, tuple(range(count)), heads, kv_heads, width, width)


LLAMA_3B = model(full(28, 24, 8, 128), layers=28, hidden=3072)
GPT_OSS = model(
    LayerGroup(AttentionKind.SLIDING, tuple(range(0, 24, 2)), 64, 8, 64, 64, window=128),
    LayerGroup(AttentionKind.FULL, tuple(range(1, 24, 2)), 64, 8, 64, 64),
    layers=24, hidden=2880, vocab=201088,
)  # fmt: skip
LATENT = model(LayerGroup(AttentionKind.LATENT, tuple(range(61)), 128, 1, 576, 0), layers=61, hidden=7168)
# 24 gated delta nets: (4 - 1) x (2 x 16 x 128 + 4096) of convolution, 4096 x 128 of state.
DELTA = model(
    LayerGroup(AttentionKind.RECURRENT, tuple(range(24)), state=RecurrentState(24576, 524288, "fp32")), layers=24
)


def options(spec: ModelSpec, build: int, **given) -> LlamaCppOptions:
    asked = EngineSettings(llama_cpp=LlamaCppOptions(**given))
    found = resolved(spec, asked, build_rules(Version((build,)))).llama_cpp
    assert found is not None
    return found


def cache_mib(spec: ModelSpec, build: int, **given) -> float:
    rules = build_rules(Version((build,)))
    return sum(layer_bytes(spec, options(spec, build, **given), rules)) / MIB


# Printed: Ollama and llama.cpp logs of public issues.
@pytest.mark.parametrize(
    ("spec", "build", "asked", "printed"),
    [
        (LLAMA_3B, 7200, {"n_ctx": 131072}, 14336.0),
        (GPT_OSS, 9000, {"n_ctx": 131072, "n_parallel": 1}, 3090.0),
        (GPT_OSS, 7200, {"n_ctx": 131072, "n_parallel": 1, "n_ubatch": 2048}, 3126.0),
        (model(full(36, 32, 8, 128), layers=36), 7200, {"n_ctx": 16384, "n_parallel": 16}, 2304.0),
        (
            model(full(32, 32, 32, 128), layers=32),
            7200,
            {"n_ctx": 5120, "type_k": "q8_0", "type_v": "q8_0"},
            1360.0,
        ),
    ],
)
def test_caches_are_what_the_engine_printed(spec, build, asked, printed):
    assert cache_mib(spec, build, **asked) == printed


def test_recurrent_state_is_kept_a_slot_and_a_rollback():
    rules = options(DELTA, 9849, n_ctx=8192, n_parallel=4)
    assert sum(state_bytes(DELTA, rules)) / MIB == 201.0
    drafted = options(DELTA, 9849, n_ctx=8192, n_parallel=1, n_rs_seq=6)
    assert sum(state_bytes(DELTA, drafted)) / MIB == 351.75


def test_latent_caches_by_build():
    heads, both, keys = (cache_mib(LATENT, build, n_ctx=4096, n_parallel=1) for build in (4500, 6000, 9000))
    assert heads == 61 * 4096 * 128 * (192 + 128) * 2 / MIB
    assert both == 61 * 4096 * (576 + 512) * 2 / MIB
    assert keys == 61 * 4096 * 576 * 2 / MIB


def test_windows_by_build_and_flag():
    def window(build: int, **given) -> int:
        asked = options(GPT_OSS, build, n_ctx=32768, **given)
        return cells(GPT_OSS, asked, build_rules(Version((build,)))).window

    assert window(5000, n_parallel=1) == 32768  # no cache of their own yet
    assert window(9000, n_parallel=1) == 768
    assert window(9000, n_parallel=4) == 768  # each slot its own
    assert window(9000, n_parallel=4, kv_unified=True) == 1024
    assert window(9000, n_parallel=1, swa_full=True) == 32768


def test_slots_share_or_split_the_context():
    def size(**given):
        return cells(LLAMA_3B, options(LLAMA_3B, 9849, **given), build_rules(Version((9849,))))

    assert (size(n_ctx=8192, n_parallel=4).full, size(n_ctx=8192, n_parallel=4).streams) == (2048, 4)
    assert size(n_ctx=8192).streams == 1  # -np auto: four slots, one cache
    assert size(n_ctx=8192).full == 8192
    assert size(n_ctx=1000, n_parallel=3).full == 512  # rounded up to 256 cells a slot


def test_layers_go_to_gpus_from_the_back():
    some = place(32, 20, 1)
    assert some.on(HOST) == tuple(range(13))
    assert some.output == 0
    older = place(64, 29, 1, output_first=False)
    assert older.on(0) == tuple(range(35, 64))
    assert older.output == HOST
    assert place(32, 0, 1).layers == (HOST,) * 32
    shares = place(32, 99, 2, (3, 1))
    assert (len(shares.on(0)), len(shares.on(1)), shares.output) == (25, 7, 1)


@given(st.integers(1, 200), st.integers(0, 300), st.integers(1, 8), st.booleans())
def test_every_layer_has_one_place(layers, offloaded, gpus, first):
    found = place(layers, offloaded, gpus, output_first=first)
    assert len(found.layers) == layers
    on_gpus = sum(where != HOST for where in (*found.layers, found.output))
    assert on_gpus == min(offloaded, layers + 1)
    placed = [where for where in found.layers if where != HOST]
    assert placed == sorted(placed)


@given(
    st.sampled_from([5000, 7079, 9294, 9849, 11549]), st.integers(256, 65536), st.integers(1, 16),
    st.sampled_from(["f16", "q8_0", "q4_0"]), st.sampled_from([128, 512, 2048]),
)  # fmt: skip
def test_more_context_takes_no_smaller_cache_nor_a_much_smaller_graph(build, context, slots, kind, micro):
    rules = build_rules(Version((build,)))
    whole = place(28, 99, 1)

    def sizes(n_ctx: int) -> tuple[int, int]:
        asked = options(LLAMA_3B, build, n_ctx=n_ctx, n_parallel=slots, type_k=kind, type_v=kind, n_ubatch=micro,
                        flash_attn=True)  # fmt: skip
        compute = gpu_compute(LLAMA_3B, asked, rules, whole, 0, head_bytes=0)
        return sum(layer_bytes(LLAMA_3B, asked, rules)), compute

    less, more = sizes(context), sizes(2 * context)
    assert less[0] <= more[0]
    assert less[1] <= more[1] * 1.1  # holes that no longer context fills can differ by a few rows


def test_logits_outweigh_all_until_outputs_are_capped():
    small = model(full(24, 14, 2, 64), layers=24, hidden=896, vocab=151936)
    whole = place(24, 99, 1)

    def compute(build: int) -> float:
        asked = options(small, build, n_ctx=512, n_parallel=1)
        return gpu_compute(small, asked, build_rules(Version((build,))), whole, 0, head_bytes=0) / MIB

    assert compute(9000) == pytest.approx(300.25, rel=0.01)  # 512 rows x 151,936 logits
    assert compute(10229) < 10


def test_several_gpus_hold_inputs_four_times():
    spec = model(full(64, 24, 4, 256), layers=64, hidden=5120, vocab=248320)
    asked = options(spec, 9000, n_ctx=262144, n_parallel=1, n_ubatch=2048)
    rules, both = build_rules(Version((9000,))), place(64, 99, 2)
    first = gpu_compute(spec, asked, rules, both, 0, head_bytes=0)
    assert first > 4 * 262144 * 2048 * 4
    alone = gpu_compute(spec, asked, rules, place(64, 99, 2, pipeline=False), 0, head_bytes=0)
    assert first - alone > 2 * 262144 * 2048 * 4
    assert host_compute(spec, asked, rules, both) > 4 * 262144 * 2048 * 4


QWEN3_30B = known("Qwen/Qwen3-30B-A3B")


def test_no_pipeline_where_experts_or_the_cache_stay_with_the_host():
    """Printed for two cards, experts on the host, 16,384 cells: 1080.00 MiB each, 36.01 MiB on the host."""
    rules, both = build_rules(Version((5700,))), place(48, 99, 2)
    asked = options(QWEN3_30B, 5700, n_ctx=16384, n_parallel=1, n_cpu_moe=48)
    for gpu in (0, 1):
        assert gpu_compute(QWEN3_30B, asked, rules, both, gpu, head_bytes=0) / MIB == pytest.approx(1080, abs=0.02)
    assert host_compute(QWEN3_30B, asked, rules, both) / MIB == pytest.approx(36.01, abs=0.02)
    for offload in (True, False):
        other = options(QWEN3_30B, 5700, n_ctx=16384, n_parallel=1, kv_offload=offload)
        host = host_compute(QWEN3_30B, other, rules, both) / MIB
        assert (host > 100) == offload


@pytest.mark.parametrize(
    ("build", "vulkan", "pipelines"),
    [(2321, False, False), (2500, False, True), (7400, True, False), (7522, True, True)],
)
def test_cards_make_a_pipeline_since_the_scheduler_and_the_backend_can(build, vulkan, pipelines):
    assert replace(build_rules(Version((build,))), vulkan=vulkan).pipelines == pipelines


def test_two_cards_of_an_old_build():
    """Printed by b2321 for Yi 34B with 512 cells: 113.00 and 139.00 MiB."""
    yi = model(full(60, 56, 8, 128), layers=60, hidden=7168, vocab=64000)
    yi = replace(yi, intermediate_size=20480)
    asked, rules = options(yi, 2321, n_ctx=512, n_parallel=1), build_rules(Version((2321,)))
    both = place(60, 99, 2, output_first=False)
    found = [gpu_compute(yi, asked, rules, both, gpu, head_bytes=0) / MIB for gpu in (0, 1)]
    assert found == pytest.approx([113, 139], abs=0.02)


def test_an_indexer_scores_every_cell_and_has_a_mask_of_its_own():
    """Printed for GLM-5.2's cards without host experts: 2284.07 and 3236.07 MiB at 524,288 and 768,000 cells, and
    1048.07 and 1524.07 on the host."""
    glm = known("zai-org/GLM-5.2")
    rules, apart = build_rules(Version((10500,))), place(78, 99, 4)
    for cells_asked, card, host in ((524288, 2284.07, 1048.07), (768000, 3236.07, 1524.07)):
        asked = options(glm, 10500, n_ctx=cells_asked, n_parallel=1, n_cpu_moe=54)
        assert gpu_compute(glm, asked, rules, apart, 3, head_bytes=0) / MIB == pytest.approx(card, rel=0.015)
        assert host_compute(glm, asked, rules, apart) / MIB == pytest.approx(host, abs=0.02)


def test_token_bytes_follow_each_type():
    asked = options(LLAMA_3B, 9849, n_ctx=8192, type_k="q8_0", type_v="q4_0")
    assert token_bytes(LLAMA_3B, asked, build_rules(Version((9849,)))) == 28 * 1024 * (34 + 18) / 32
    assert row_bytes("q8_0", 1024) == 1088
    with pytest.raises(InputError, match="does not divide"):
        row_bytes("q4_0", 100)


def test_defaults_by_build():
    now, then = options(LLAMA_3B, 11549), options(LLAMA_3B, 5000)
    assert (now.n_parallel, now.kv_unified, now.flash_attn, now.n_ubatch) == (4, True, True, 512)
    assert (then.n_parallel, then.flash_attn) == (1, False)
    assert now.n_ctx == 131072


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (EngineSettings(gpu_memory_utilization=0.9), "takes no share of the card"),
        (EngineSettings(kv_cache_memory_bytes=2**30), "takes no share of the card"),
        (EngineSettings(block_size=16), "not paged"),
        (EngineSettings(kv_cache_dtype="fp8"), "no cache type fp8"),
        (EngineSettings(llama_cpp=LlamaCppOptions(flash_attn=False, type_v="q8_0")), "without flash attention"),
    ],
)
def test_what_it_refuses(settings, said):
    with pytest.raises(UnsupportedError, match=said):
        resolved(LLAMA_3B, settings, build_rules(Version((9849,))))


def test_common_settings_become_its_own():
    asked = EngineSettings(max_model_len=8192, max_num_seqs=4, kv_cache_dtype="q8_0", max_num_batched_tokens=1024)
    found = resolved(LLAMA_3B, asked, build_rules(Version((9849,))))
    assert found.llama_cpp.n_ctx == 32768
    assert (found.llama_cpp.type_k, found.llama_cpp.n_ubatch) == ("q8_0", 1024)
    assert (found.max_model_len, found.max_num_seqs) == (8192, 4)
    assert resolved(LLAMA_3B, found, build_rules(Version((9849,)))) == found


def test_arguments_are_its_flags():
    engine, version = find_engine("llama-server@b9849")
    assert engine is LLAMA_CPP
    asked = EngineSettings(llama_cpp=options_from({"ngl": 40, "c": 8192, "np": 2, "ctk": "q8_0", "ctv": "q8_0"}))
    settings = engine.resolve(LLAMA_3B, None, asked, version)
    argv = engine.arguments(settings, version=version, model_path="m.gguf", port=8080)
    assert argv[:5] == ("llama-server", "-m", "m.gguf", "--port", "8080")
    assert " ".join(argv).endswith("-ngl 40 -c 8192 -np 2 -ctk q8_0 -ctv q8_0 -fa on -fit off")
    assert "-hf" in engine.arguments(settings, version=version, model_path="owner/name:Q4_K_M")


def test_options_in_its_words():
    found = options_from({"ctx-size": "4096", "-fa": "off", "tensor_split": "3,1", "no_kv_offload": True})
    assert found == LlamaCppOptions(n_ctx=4096, flash_attn=False, tensor_split=(3.0, 1.0), kv_offload=False)
    with pytest.raises(InputErrors) as caught:
        options_from({"ctx_sise": 1, "np": 0, "ctk": "q9", "ts": "x"})
    assert len(caught.value.faults()) == 4
    assert "ctx_size" in caught.value.faults()[0].hint


@given(st.dictionaries(st.text(max_size=12), st.one_of(st.text(max_size=8), st.integers(), st.none()), max_size=4))
def test_any_words_give_options_or_a_named_fault(words):
    with contextlib.suppress(InputErrors):
        assert isinstance(options_from(words), LlamaCppOptions)


def test_words_of_one_engine_are_refused_by_another():
    with pytest.raises(InputError, match="not options of vLLM"):
        own_options(VLLM, {"ctx_size": 4096})
    assert own_options(VLLM, {}) is None


def test_a_build_before_the_rules_is_refused():
    with pytest.raises(UnknownEngineError, match="older than any rule"):
        find_engine("llama.cpp@b100")
