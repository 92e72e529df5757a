from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotenant.catalogue.models import find_entry
from cotenant.catalogue.quantization import find_format
from cotenant.domain.engine import AdapterSlots, EngineSettings
from cotenant.domain.estimate import Verdict
from cotenant.domain.interval import Interval
from cotenant.domain.model import AttentionKind, LayerGroup, ParameterGroup, Role, Split
from cotenant.engines import find_engine
from cotenant.errors import UnsupportedError
from cotenant.estimation.inverse import settings_for_pool
from cotenant.estimation.memory import estimate_memory
from cotenant.estimation.vision import encoder_run
from cotenant.readers.model_config import read_model_config
from cotenant.units import GIB


@dataclass(frozen=True)
class Need:
    kv_needed_bytes: int
    kv_worst_case_bytes: int = 2**40
    max_num_seqs: int = 16
    max_model_len: int = 4096


def estimated(model, gpu, fmt, engine="vllm@0.17.1", used=0, demand=None, **options):
    rules, version = find_engine(engine)
    return estimate_memory(
        model,
        gpu,
        EngineSettings(**options),
        engine=rules,
        version=version,
        format=fmt,
        used_bytes=used,
        demand=demand,
    )


def test_llama_8b_on_an_a100_as_vllm_prints_it(llama_8b, a100, bf16):
    """vLLM 0.17.1, A100, 32,768 tokens, defaults: 14.99 GiB of weights, 55.79 GiB and 457,024 tokens of cache."""
    found = estimated(llama_8b, a100, bf16, max_model_len=32768)
    rank = found.per_gpu[0]
    assert found.settings.max_num_seqs == 256
    assert found.settings.max_num_batched_tokens == 2048
    assert rank.weights.bytes.value / GIB == pytest.approx(14.99, abs=0.005)
    assert rank.kv_cache.bytes.value / GIB == pytest.approx(55.79, abs=0.1)
    assert found.kv_cache.tokens_as_printed == pytest.approx(457_024, rel=0.002)
    assert found.kv_cache.minimum_bytes == 4 * GIB
    assert found.verdict is Verdict.FITS


def test_an_embedder_on_an_h100_as_vllm_prints_it(h100, bf16):
    """Qwen3-Embedding-8B, vLLM 0.12.0, 8,192 tokens, defaults: 14.1062 GiB and 56.24 GiB of cache: nothing is
    sampled, so the profile run ends with the layers."""
    entry = find_entry("Qwen/Qwen3-Embedding-8B")
    assert entry is not None
    model = read_model_config(entry.config, name=entry.id, task=entry.task)
    rank = estimated(model, h100, bf16, "vllm@0.12.0", max_model_len=8192).per_gpu[0]
    assert rank.weights.bytes.value / GIB == pytest.approx(14.1062, abs=0.005)
    assert rank.kv_cache.bytes.value / GIB == pytest.approx(56.24, abs=0.3)
    assert "logits" not in rank.activations.why


def test_v4_keeps_queries_and_outputs_of_64_heads_on_every_rank(h100):
    """However few heads a rank has, its kernels take 64 of 512: 8,192 tokens x 64 KiB, twice."""
    entry = find_entry("deepseek-ai/DeepSeek-V4-Flash")
    assert entry is not None
    model = read_model_config(entry.config, name=entry.id, task=entry.task)
    found = estimated(
        model, h100, find_format(model.quantization), "vllm@0.26.0", max_model_len=32768,
        tensor_parallel_size=8, max_num_batched_tokens=8192, max_num_seqs=32,
    )  # fmt: skip
    assert found.per_gpu[0].activations.bytes.value > 8192 * 2 * 64 * 512 * 2


def test_llama_8b_on_an_l4_as_vllm_prints_it(llama_8b, l4, bf16):
    """vLLM 0.11.0, L4 at 0.92 with 128 sequences: 4.75 GiB and 38,944 tokens."""
    found = estimated(
        llama_8b, l4, bf16, "vllm@0.11.0", max_model_len=32000, max_num_seqs=128, gpu_memory_utilization=0.92
    )
    assert found.per_gpu[0].kv_cache.bytes.value / GIB == pytest.approx(4.75, abs=0.15)


def test_too_large_is_said_with_the_shortfall(llama_70b, a100, bf16):
    found = estimated(llama_70b, a100, bf16, max_model_len=8192)
    assert found.verdict is Verdict.DOES_NOT_FIT
    assert not found.fits
    assert "short" in found.reason
    assert "GiB" in found.reason


def test_four_cards_hold_it(llama_70b, a100, bf16):
    found = estimated(llama_70b, a100, bf16, max_model_len=8192, tensor_parallel_size=4)
    assert found.verdict is Verdict.FITS
    assert [rank.rank for rank in found.per_gpu] == [0, 1, 2, 3]
    assert found.kv_cache.bytes_per_token == 327_680 // 4


def test_terms_add_up_to_the_footprint_and_the_budget(llama_8b, a100, bf16):
    rank = estimated(llama_8b, a100, bf16, max_model_len=8192).per_gpu[0]
    assert rank.footprint_bytes == sum(term.bytes.value for term in rank.terms.values())
    claimed = max(rank.footprint_bytes, rank.budget.value)
    assert rank.headroom.value == rank.capacity.value - claimed


def test_the_budget_must_be_free_at_start(llama_8b, a100, bf16):
    """0.9 of the card beside 20 GiB of others is refused; 0.5 is not."""
    refused = estimated(llama_8b, a100, bf16, used=20 * GIB, max_model_len=8192)
    assert refused.verdict is Verdict.DOES_NOT_FIT
    assert "free at start" in refused.reason
    assert estimated(llama_8b, a100, bf16, used=20 * GIB, max_model_len=8192, gpu_memory_utilization=0.5).fits


def test_0_8_charges_its_neighbour_to_the_newcomer(llama_8b, a100, bf16):
    options = {"max_model_len": 8192, "gpu_memory_utilization": 0.5}
    alone = estimated(llama_8b, a100, bf16, "vllm@0.8.5", **options)
    beside = estimated(llama_8b, a100, bf16, "vllm@0.8.5", used=10 * GIB, **options)
    lost = alone.kv_cache.reserved_bytes - beside.kv_cache.reserved_bytes
    assert lost == pytest.approx(10 * GIB, rel=0.001)
    newer = estimated(llama_8b, a100, bf16, "vllm@0.17.1", used=10 * GIB, **options)
    assert newer.kv_cache.reserved_bytes == estimated(llama_8b, a100, bf16, **options).kv_cache.reserved_bytes


def test_the_sampler_follows_max_num_seqs(llama_8b, h100, bf16):
    many = estimated(llama_8b, h100, bf16, "vllm@0.10.2", max_model_len=8192)
    few = estimated(llama_8b, h100, bf16, "vllm@0.10.2", max_model_len=8192, max_num_seqs=16)
    assert many.settings.max_num_seqs == 1024
    saved = few.kv_cache.reserved_bytes - many.kv_cache.reserved_bytes
    assert saved > 3 * GIB


def test_demand_fills_limits_and_must_be_held(llama_8b, a100, bf16):
    small = estimated(llama_8b, a100, bf16, demand=Need(2 * GIB))
    assert (small.settings.max_model_len, small.settings.max_num_seqs) == (4096, 16)
    assert small.fits
    assert small.kv_cache.needed_bytes == 2 * GIB
    huge = estimated(llama_8b, a100, bf16, demand=Need(70 * GIB))
    assert huge.verdict is Verdict.DOES_NOT_FIT
    assert "traffic" in huge.reason


def test_a_pool_in_bytes_is_exact(llama_8b, a100, bf16):
    found = estimated(
        llama_8b, a100, bf16, max_model_len=8192, kv_cache_memory_bytes=3 * GIB, gpu_memory_utilization=0.3
    )
    assert found.kv_cache.reserved_bytes == 3 * GIB
    assert found.per_gpu[0].kv_cache.bytes.is_exact
    short = estimated(
        llama_8b, a100, bf16, max_model_len=8192, kv_cache_memory_bytes=GIB - 1, gpu_memory_utilization=0.3
    )
    assert short.verdict is Verdict.DOES_NOT_FIT


def test_doubt_about_the_card_makes_it_uncertain(llama_8b, a100, bf16):
    vague = replace(a100, cuda_bytes=Interval(16 * GIB, 20 * GIB, 24 * GIB), cuda_measured=False)
    found = estimated(llama_8b, vague, bf16, max_model_len=8192)
    assert found.verdict is Verdict.UNCERTAIN
    assert "between" in found.reason


def test_newer_versions_pay_graphs_from_the_budget(llama_8b, a100, bf16):
    older = estimated(llama_8b, a100, bf16, "vllm@0.19.0", max_model_len=8192, gpu_memory_utilization=0.9)
    newer = estimated(llama_8b, a100, bf16, "vllm@0.20.0", max_model_len=8192, gpu_memory_utilization=0.9)
    assert newer.kv_cache.reserved_bytes < older.kv_cache.reserved_bytes
    assert "on top" in older.per_gpu[0].runtime.why


@pytest.mark.parametrize("in_bytes", [True, False])
@given(need=st.integers(0, 40 * GIB))
@settings(deadline=None, max_examples=40)
def test_sized_settings_hold_the_need(llama_8b, a100, bf16, in_bytes, need):
    rules, version = find_engine("vllm@0.17.1")
    options = {"engine": rules, "version": version, "format": bf16}
    asked = EngineSettings(max_model_len=8192, max_num_seqs=16)
    sized = settings_for_pool(llama_8b, a100, asked, kv_bytes=need, in_bytes=in_bytes, **options)
    found = estimate_memory(llama_8b, a100, sized.settings, **options)
    assert found.per_gpu[0].kv_cache.bytes.low >= max(need, GIB)
    assert found.kv_cache.reserved_bytes >= sized.pool_bytes >= need
    assert found.fits
    assert (sized.settings.kv_cache_memory_bytes is not None) == in_bytes


def test_a_need_beyond_the_card_is_refused(llama_8b, a100, bf16):
    rules, version = find_engine("vllm@0.9.2")
    with pytest.raises(UnsupportedError, match="the card has"):
        settings_for_pool(
            llama_8b, a100, EngineSettings(max_model_len=8192), engine=rules, version=version, format=bf16,
            kv_bytes=80 * GIB,
        )  # fmt: skip


@given(st.integers(10, 200), st.integers(0, 40), st.sampled_from(["0.3.3", "0.7.3", "0.8.5", "0.12.0", "0.28.0"]))
@settings(deadline=None, max_examples=60)
def test_more_memory_never_fits_less(llama_8b, a100, bf16, gib, more, version):
    order = [Verdict.DOES_NOT_FIT, Verdict.UNCERTAIN, Verdict.FITS]
    small, large = (
        replace(a100, cuda_bytes=Interval.exact(size * GIB), driver_bytes=Interval.exact(60 * GIB))
        for size in (gib, gib + more)
    )
    first = estimated(llama_8b, small, bf16, f"vllm@{version}", max_model_len=8192)
    second = estimated(llama_8b, large, bf16, f"vllm@{version}", max_model_len=8192)
    assert order.index(second.verdict) >= order.index(first.verdict)
    assert second.kv_cache.reserved_bytes >= first.kv_cache.reserved_bytes


def test_images_are_profiled_too(llama_8b, a100, bf16):
    """Qwen3-VL's tower (1,152 wide, 4,304 inside): 65,536 patches of the largest image, 2.17 GB at once."""
    tower = (
        ParameterGroup("vision.patch_embed", Role.VISION, (1152, 1536)),
        ParameterGroup("vision.qkv_proj", Role.VISION, (3456, 1152), Split.EVEN, layers=(0,)),
        ParameterGroup("vision.fc1", Role.VISION, (4304, 1152), Split.EVEN, layers=(0,)),
    )
    model = replace(
        llama_8b, parameters=llama_8b.parameters + tower, modalities=("text", "image"), family="qwen_vl"
    )
    run = encoder_run(model, 2048, 1)
    assert run is not None
    assert run.peak == 65_536 * 2 * (2 * 4304 + 2 * 3456 + 4 * 1152)
    assert run.kept == 16_384 * 4096 * 2
    seen = estimated(model, a100, bf16, max_model_len=8192).per_gpu[0].activations
    assert seen.bytes.value == run.peak
    assert seen.bytes.high > 2 * run.peak
    assert encoder_run(llama_8b, 2048, 1) is None


def test_a_merger_sees_tokens_and_a_film_fills_the_context(llama_8b, a100, bf16):
    """Qwen2.5-VL (1,280 wide, 3,420 inside twice): a 32B prints 3.3 GiB beside its weights and pool with 15,000
    tokens on vLLM 0.11, where one image is all that fits; with 128,000 a film of 14 frames is seven of them."""
    tower = (
        ParameterGroup("vision.patch_embed", Role.VISION, (1280, 1176)),
        ParameterGroup("vision.qkv_proj", Role.VISION, (3840, 1280), Split.EVEN, layers=(0,)),
        ParameterGroup("vision.gate_proj", Role.VISION, (3420, 1280), Split.EVEN, layers=(0,)),
        ParameterGroup("vision.fc1", Role.VISION, (3420, 1280), Split.EVEN, layers=(0,)),
        ParameterGroup("merger.fc1", Role.VISION, (5120, 5120), Split.EVEN),
    )
    model = replace(
        llama_8b, parameters=llama_8b.parameters + tower, modalities=("text", "image", "video"), family="qwen_vl",
        architecture="Qwen2_5_VLForConditionalGeneration",
    )  # fmt: skip
    image = encoder_run(model, 2048, 1, frames=14, length=15_000)
    film = encoder_run(model, 2048, 1, frames=14, length=128_000)
    assert image is not None
    assert film is not None
    assert image.peak / GIB == pytest.approx(3.23, abs=0.01)
    assert film.peak == 7 * image.peak
    older = encoder_run(model, 2048, 1, frames=16, length=200_000)
    assert older is not None
    assert older.peak == 8 * image.peak


def test_times_between_frames_keep_more_outputs(llama_8b):
    """Qwen3-VL on vLLM 0.11 to 0.13 keeps 12.5 times 12,288 rows of four outputs: 2.34 GiB of a width of 2,048."""
    tower = (
        ParameterGroup("vision.patch_embed", Role.VISION, (1152, 1536)),
        ParameterGroup("merger.fc1", Role.VISION, (4608, 4608), Split.EVEN),
        ParameterGroup("merger.fc1", Role.VISION, (4608, 4608), Split.EVEN, copies=3),
    )
    model = replace(
        llama_8b, parameters=llama_8b.parameters + tower, modalities=("text", "image", "video"), family="qwen_vl",
        hidden_size=2048, architecture="Qwen3VLMoeForConditionalGeneration",
    )  # fmt: skip
    run = encoder_run(model, 8192, 2, length=65_536, stamped=12.5)
    assert run is not None
    assert run.kept / GIB == pytest.approx(2.34, abs=0.01)
    later = encoder_run(model, 8192, 2, length=65_536)
    assert later is not None
    assert later.kept == 16_384 * 2048 * 2 * 4


def test_models_without_a_cache_get_a_budget_and_no_pool(llama_8b, a100, bf16):
    rules, version = find_engine("vllm")
    encoder = replace(
        llama_8b, layer_groups=(LayerGroup(AttentionKind.NONE, tuple(range(32))),), encoder_only=True
    )
    options = {"engine": rules, "version": version, "format": bf16}
    sized = settings_for_pool(encoder, a100, EngineSettings(max_model_len=512), kv_bytes=0, **options)
    assert sized.settings.kv_cache_memory_bytes is None
    found = estimate_memory(encoder, a100, sized.settings, **options)
    assert found.fits
    assert found.per_gpu[0].kv_cache.bytes.value == found.kv_cache.minimum_bytes == 0
    assert "--kv-cache-memory-bytes" not in found.arguments
    assert "--block-size" not in found.arguments


def test_lora_slots_stand_where_each_version_counts_them(llama_8b, a100, bf16):
    """vLLM made them after it read off the weights until 0.7: in the budget until 0.6, in no sum in 0.7 (whose
    pool takes their room, so that they come on top), among the weights since 0.8."""
    shapes = [(4096, 4096)] * 2 + [(1024, 4096)] * 2 + [(14336, 4096)] * 2 + [(4096, 14336)]
    slots = 2 * 64 * 2 * (32 * sum(map(sum, shapes)) + 2 * (128256 + 4096))  # two of rank 64, 2 bytes an element
    moved = {}
    for version in ("0.6.6", "0.7.0", "0.7.3", "0.8.5"):
        plain, with_slots = (
            estimated(
                llama_8b, a100, bf16, f"vllm@{version}", max_model_len=8192, max_num_seqs=64, adapters=adapters
            )
            for adapters in (None, AdapterSlots(2, 64))
        )
        one, other = plain.per_gpu[0], with_slots.per_gpu[0]
        moved[version] = tuple(
            term(other).bytes.value - term(one).bytes.value
            for term in (lambda r: r.weights, lambda r: r.kv_cache, lambda r: r.runtime)
        )
    page = 2 * 2**20  # a block of 16 tokens
    for version, (weights, pool, runtime) in moved.items():
        assert weights == (slots if version == "0.8.5" else 0)
        assert runtime == (0 if version == "0.8.5" else slots)
        assert abs(pool + (0 if version.startswith("0.7") else slots)) <= page


@pytest.mark.parametrize(("version", "asked"), [("0.13", GIB // 2), ("0.15", GIB), ("0.17", GIB // 2)])
def test_what_a_sequence_takes_is_told_apart_from_what_the_start_asks_for(llama_8b, l4, bf16, version, asked):
    """8,192 tokens of Llama-3.1-8B take 1 GiB, half of it on each of two stages; 0.14 to 0.16 ask for it all."""
    cache = estimated(
        llama_8b, l4, bf16, f"vllm@{version}", max_model_len=8192, pipeline_parallel_size=2
    ).kv_cache  # fmt: skip
    assert cache.minimum_bytes == asked
    assert cache.sequence_bytes == (GIB // 2 if asked == GIB else None)
