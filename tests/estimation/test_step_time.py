"""The roofline against arithmetic by hand and against published fits."""

from dataclasses import replace
from math import sqrt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotenant.api import load_model
from cotenant.catalogue.gpus import find_gpu
from cotenant.catalogue.models import find_entry
from cotenant.catalogue.quantization import find_format
from cotenant.domain.engine import Version
from cotenant.domain.gpu import GpuSpec
from cotenant.domain.interval import Interval
from cotenant.domain.model import AttentionKind, LayerGroup, ModelSpec, ParameterGroup, Role
from cotenant.domain.quantization import KernelSupport, QuantizationFormat, Speed
from cotenant.domain.storage import Storage
from cotenant.errors import UnsupportedError
from cotenant.estimation import step_constants as constants
from cotenant.estimation.step_time import decode_step_s, linear, roofline, step_times
from cotenant.readers.model_config import read_model_config
from cotenant.simulation.costs import FS_PER_S, StepCosts

A100 = GpuSpec(
    "A100-80GB-SXM", "NVIDIA", "Ampere", Interval.exact(80 << 30), Interval.exact(79 << 30), True, 2.039e12,
    {"fp16": 312e12, "bf16": 312e12, "int8": 624e12}, (8, 0), None, 600e9, 31.5e9,
)  # fmt: skip
H100 = replace(
    A100,
    name="H100-SXM",
    architecture="Hopper",
    memory_bandwidth=3.35e12,
    peak_flops={"fp16": 989e12, "bf16": 989e12, "fp8": 1979e12},
)
MATRICES = (Role.ATTENTION, Role.MLP, Role.EXPERT)
FP8 = QuantizationFormat("fp8", "FP8", {role: Storage(8) for role in MATRICES}, "fp8")
AWQ = QuantizationFormat("awq-int4", "AWQ", {role: Storage(4, 128, 16, 4) for role in MATRICES}, "bf16")


def dense(
    layers: int,
    hidden: int,
    mlp: int,
    heads: int,
    kv_heads: int,
    vocab: int,
    *,
    width: int = 128,
    matrices: int = 3,
) -> ModelSpec:
    every = tuple(range(layers))
    return ModelSpec(
        "test", "Test", "test",
        (LayerGroup(AttentionKind.FULL, every, heads, kv_heads, width, width),),
        (
            ParameterGroup("embed", Role.EMBEDDING, (vocab, hidden)),
            ParameterGroup("head", Role.HEAD, (vocab, hidden)),
            ParameterGroup("q, o", Role.ATTENTION, (heads * width, hidden), copies=2, layers=every),
            ParameterGroup("k, v", Role.ATTENTION, (kv_heads * width, hidden), copies=2, layers=every),
            ParameterGroup("mlp", Role.MLP, (mlp, hidden), copies=matrices, layers=every),
            ParameterGroup("norm", Role.NORM, (hidden,), copies=2, layers=every),
        ),
        layers, hidden, mlp, vocab, 131_072,
    )  # fmt: skip


LLAMA_70B = dense(80, 8192, 28672, 64, 8, 128256)
OPT_13B = dense(40, 5120, 20480, 40, 40, 50272, matrices=2)


def mixture(experts: int = 8, chosen: int = 2) -> ModelSpec:
    base = dense(32, 4096, 1, 32, 8, 32000)
    expert = ParameterGroup("experts", Role.EXPERT, (experts, 14336, 4096), copies=3, layers=tuple(range(32)))
    rest = tuple(group for group in base.parameters if group.role is not Role.MLP)
    return replace(base, parameters=(*rest, expert), num_experts=experts, experts_per_token=chosen)


def test_one_token_by_hand() -> None:
    """Llama-3.1-70B AWQ on an A100: 4.15625 bits a matrix element, head in bf16, no embedding row to speak of."""
    exact = roofline(LLAMA_70B, A100, engine="vllm", format=AWQ)
    matrices = 80 * (2 * 8192 * 8192 + 2 * 1024 * 8192 + 3 * 28672 * 8192)
    read = matrices * 4.15625 / 8 + 128256 * 8192 * 2 + 80 * 2 * 8192 * 2
    fitted = constants.FITTED
    reading = read / (2.039e12 * fitted.dense_bandwidth) + 1000 * 327_680 / (2.039e12 * fitted.kv_bandwidth)
    flops = 2 * (matrices + 128256 * 8192) + 4 * 64 * 128 * 80 * 1000
    step = (
        (reading**2 + (flops / (312e12 * fitted.compute_16)) ** 2) ** 0.5
        + 80 * fitted.vllm_layer_s
        + fitted.sequence_s
    )
    assert exact.decode_step_s(1, 1000) == pytest.approx(step, rel=1e-9)
    assert step == pytest.approx(0.0236, rel=0.03)


def test_distserves_published_fit_lies_within_the_interval() -> None:
    """OPT-13B on an A100-80GB (DistServe, OSDI'24, its simulator's coefficients in ms)."""
    lines = step_times(OPT_13B, A100, engine="vllm", most_sequences=64)
    for batch, context in ((1, 512), (32, 32 * 512), (64, 64 * 700)):
        published = (19.9347 + 6.2694e-4 * context + 0.038507 * batch) / 1e3
        ours = lines.decode_step_s(batch, context)
        assert lines.low * ours < published < lines.high * ours
    for tokens in (512, 1024, 2048):
        published = (18.1025 + 0.101912 * tokens + 7.1223e-6 * tokens**2) / 1e3
        assert lines.prefill_s(tokens) == pytest.approx(published, rel=0.3)


def test_active_experts() -> None:
    exact = roofline(mixture(), H100, engine="vllm")
    assert exact.active_experts(1) == pytest.approx(2)
    assert exact.active_experts(2) == pytest.approx(8 * (1 - 0.75**2))
    assert exact.active_experts(64) == pytest.approx(8, rel=1e-6)
    assert roofline(LLAMA_70B, H100, engine="vllm").active_experts(5) == 0
    # twice the tokens read more experts, but never more than all
    assert exact.decode_step_s(1, 0) < exact.decode_step_s(2, 0) < exact.decode_step_s(1, 0) * 4


def test_precision_at_work_sets_the_peak() -> None:
    native = roofline(LLAMA_70B, H100, engine="vllm", format=FP8)
    widened = roofline(LLAMA_70B, A100, engine="vllm", format=FP8)
    assert native.compute_rate == pytest.approx(1979e12 * constants.FITTED.compute_8)
    assert widened.compute_rate == pytest.approx(312e12 * constants.FITTED.compute_16)
    assert widened.weights_bytes == native.weights_bytes
    assert native.prefill_s(4096) < 0.75 * roofline(LLAMA_70B, H100, engine="vllm").prefill_s(4096)


def test_a_slow_kernel_costs_ten_times_and_widens_the_interval() -> None:
    slow = KernelSupport("vllm", "awq-int4", "AWQ GEMM (plain)", Speed.SLOW, (7, 5), None, ())
    plain = roofline(LLAMA_70B, A100, engine="vllm", format=AWQ)
    found = roofline(LLAMA_70B, A100, engine="vllm", format=AWQ, kernel=slow)
    assert found._weights_s(1) / plain._weights_s(1) == pytest.approx(741 / 67)
    assert found.low < plain.low < 1 < plain.high < found.high
    other = roofline(LLAMA_70B, A100, engine="vllm", format=AWQ, kernel=replace(slow, kernel="bitsandbytes"))
    assert 1 < other.matmul_factor < 3
    works = roofline(LLAMA_70B, A100, engine="vllm", format=FP8, kernel=replace(slow, speed=Speed.WORKS))
    assert works.matmul_factor == 1
    assert works.high > plain.high


def test_tensor_parallel_divides_work_and_adds_all_reduces() -> None:
    one = roofline(LLAMA_70B, A100, engine="vllm")
    four = roofline(LLAMA_70B, A100, engine="vllm", tensor_parallel_size=4)
    assert four.weights_bytes == one.weights_bytes / 4
    assert four.cache[0].bytes_per_token == one.cache[0].bytes_per_token / 4
    sixteen = roofline(LLAMA_70B, A100, engine="vllm", tensor_parallel_size=16)
    assert sixteen.cache[0].bytes_per_token == one.cache[0].bytes_per_token / 8  # one head a rank at least
    assert four.overhead_s - one.overhead_s == pytest.approx(80 * 2 * constants.FITTED.all_reduce_s * 2**0.5)
    assert one.decode_step_s(8, 8000) / 4 < four.decode_step_s(8, 8000) < one.decode_step_s(8, 8000)


def test_an_older_vllm_has_more_overhead_up_to_where_it_was_measured() -> None:
    def overhead(version: str, engine: str = "vllm") -> float:
        return roofline(LLAMA_70B, A100, engine=engine, version=Version.parse(version)).overhead_s

    gain = constants.FITTED.vllm_release
    assert overhead("0.18") / overhead("0.19") == pytest.approx(gain)
    assert overhead("0.12.0") / overhead("0.19") == pytest.approx(gain**7)
    assert overhead("0.19") == overhead("0.33") == overhead("1.0") == overhead("7")
    assert overhead("0.3") == overhead("0.11")
    assert overhead("0.4", "sglang") == overhead("0.5", "sglang")


def test_a_short_prompt_takes_as_long_as_its_launches() -> None:
    """However few tokens and however many ranks: a prefill is launched kernel by kernel."""
    eight = roofline(LLAMA_70B, H100, engine="vllm", tensor_parallel_size=8)
    launches = 80 * constants.FITTED.eager_layer_s
    assert launches < eight.prefill_s(16) < 3 * launches
    assert eight.prefill_s(16384) > 20 * launches


def test_cdna_keeps_a_pace_of_its_own() -> None:
    card = find_gpu("MI300X")
    found = roofline(LLAMA_70B, card, engine="vllm")
    plain = replace(found, decode_factor=1.0, prefill_factor=1.0)
    pace = constants.FITTED.cdna_pace
    assert found.decode_step_s(8, 8000) == pytest.approx(pace * plain.decode_step_s(8, 8000))
    assert found.prefill_s(2000) == pytest.approx(pace * plain.prefill_s(2000))
    lines = linear(found, (1, 64), (256, 2048), (256, 4096))
    assert lines.prefill_s(4096) == pytest.approx(found.prefill_s(4096), rel=1e-6)


def test_sequences_cost_the_same_on_any_number_of_ranks() -> None:
    one, eight = (roofline(LLAMA_70B, H100, engine="vllm", tensor_parallel_size=ranks) for ranks in (1, 8))
    assert one.sequence_s == eight.sequence_s == constants.FITTED.sequence_s


def test_mla_reads_a_prompt_by_heads_and_decodes_by_the_latent_row() -> None:
    group = LayerGroup(AttentionKind.LATENT, tuple(range(61)), 128, 1, 576, 0)
    latent = roofline(replace(LLAMA_70B, layer_groups=(group,)), H100, engine="vllm", tensor_parallel_size=8)
    assert latent.cache[0].bytes_per_token == 61 * 576 * 2  # whole on every rank: 70,272 B a token
    assert latent.attention_flops == 2 * 61 * 128 * 1152 / 8
    assert latent.prefill_attention_flops == 2 * 61 * 128 * 320 / 8


def test_a_window_bounds_what_is_read() -> None:
    group = replace(LLAMA_70B.layer_groups[0], kind=AttentionKind.SLIDING, window=1024)
    windowed = roofline(replace(LLAMA_70B, layer_groups=(group,)), A100, engine="vllm")
    full = roofline(LLAMA_70B, A100, engine="vllm")
    assert windowed.decode_step_s(4, 4 * 8000) == windowed.decode_step_s(4, 4 * 1024)
    assert windowed.prefill_s(100_000) < full.prefill_s(100_000)


def test_checkpoints_of_32_bits_are_served_in_16() -> None:
    wide = roofline(replace(LLAMA_70B, dtype="fp32"), A100, engine="vllm")
    assert wide.weights_bytes == roofline(LLAMA_70B, A100, engine="vllm").weights_bytes
    assert wide.cache == roofline(LLAMA_70B, A100, engine="vllm").cache


def test_fp8_cache_halves_what_is_read() -> None:
    half = roofline(LLAMA_70B, H100, engine="vllm", kv_cache_dtype="fp8")
    assert 2 * half.cache[0].bytes_per_token == 327_680


def test_ranges_must_widen() -> None:
    exact = roofline(mixture(), H100, engine="vllm")
    for ranges in (
        ((4, 3), (1, 2), (1, 2)),
        ((0, 3), (1, 2), (1, 2)),
        ((1, 1), (2, 2), (1, 2)),
        ((1, 1), (1, 2), (0, 2)),
    ):
        with pytest.raises(ValueError, match="widen"):
            linear(exact, *ranges)


@given(st.integers(1, 500), st.integers(0, 8000), st.integers(1, 4000))
def test_more_work_never_takes_less_time(batch: int, context: int, more: int) -> None:
    for exact in (roofline(LLAMA_70B, A100, engine="sglang"), roofline(mixture(), H100, engine="vllm")):
        base = exact.decode_step_s(batch, batch * context)
        assert exact.decode_step_s(batch + more, (batch + more) * context) >= base
        assert exact.decode_step_s(batch, batch * (context + more)) >= base
        assert exact.prefill_s(batch + more) > exact.prefill_s(batch)


def _catalogued(name: str) -> ModelSpec:
    entry = find_entry(name)
    assert entry is not None
    return read_model_config(entry.config, name=name, source=entry.config_source)


def test_norms_over_all_heads_cost_an_all_reduce_a_layer() -> None:
    minimax = _catalogued("MiniMaxAI/MiniMax-M2.5")
    kept = tuple(group for group in minimax.parameters if group.name != "self_attn.q_norm")
    without = replace(minimax, parameters=kept)
    card = find_gpu("H200-SXM")
    for ranks, wait in ((1, 0.0), (4, sqrt(2)), (8, sqrt(3))):
        one, other = (
            roofline(each, card, engine="vllm", tensor_parallel_size=ranks).overhead_s
            for each in (minimax, without)
        )
        assert one - other == pytest.approx(62 * constants.FITTED.all_reduce_s * wait)
    # One norm a head, as Qwen3 has it, asks nobody.
    qwen = _catalogued("Qwen/Qwen3-32B")
    assert any(group.name == "self_attn.q_norm" for group in qwen.parameters)
    layer = (roofline(qwen, card, engine="vllm", tensor_parallel_size=2).overhead_s) / qwen.num_layers
    assert layer == pytest.approx(constants.FITTED.vllm_layer_s + 2 * constants.FITTED.all_reduce_s)


def test_vllm_runs_8_bit_experts_in_one_call_on_data_centre_blackwell_alone() -> None:
    model, fp8 = _catalogued("MiniMaxAI/MiniMax-M2.5"), find_format("fp8-block")

    def layer_s(gpu: str, engine: str = "vllm", fused: bool | None = None) -> float:
        found = roofline(model, find_gpu(gpu), engine=engine, format=fp8, fused_experts=fused)
        return found.overhead_s / model.num_layers

    routed = constants.FITTED.vllm_layer_s + constants.FITTED.moe_layer_s
    assert layer_s("B200") == pytest.approx(constants.FITTED.vllm_layer_s + constants.FITTED.fused_moe_layer_s)
    assert layer_s("B200", fused=False) == pytest.approx(routed)
    assert layer_s("H200-SXM") == pytest.approx(routed)
    assert layer_s("RTX-PRO-6000-Blackwell-SE") == pytest.approx(routed)
    assert layer_s("B200", "sglang") == pytest.approx(
        constants.FITTED.sglang_layer_s + constants.FITTED.moe_layer_s
    )


def test_widened_experts_gain_nothing_from_blackwells_own_products() -> None:
    model, int4 = _catalogued("moonshotai/Kimi-K2.5"), find_format("awq-int4")
    hopper, blackwell = (
        roofline(model, find_gpu(name), engine="vllm", format=int4).compute_rate for name in ("H200-SXM", "B200")
    )
    assert blackwell == pytest.approx(hopper, rel=1e-3)
    wide = roofline(model, find_gpu("B200"), engine="vllm", format=find_format("bf16")).compute_rate
    assert wide > 2 * blackwell


def test_unknown_precision_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="16-bit peak"):
        roofline(LLAMA_70B, replace(A100, peak_flops={"int8": 1e12}), engine="vllm")


def test_intervals_are_around_the_value() -> None:
    lines = step_times(LLAMA_70B, H100, engine="vllm")
    low, value, high = decode_step_s(lines, 4, 1000)
    assert (low / value, high / value) == pytest.approx(constants.INTERVAL)
    assert step_times(LLAMA_70B, A100, engine="vllm").high > lines.high  # few rows ran on Ampere
    assert step_times(LLAMA_70B, H100, engine="ollama").high > lines.high


@given(tokens=st.integers(1, 30_000), step=st.sampled_from([512, 2048, 8192]))
@settings(deadline=None)
def test_a_prompt_longer_than_a_step_takes_several_as_the_simulator_counts_them(tokens: int, step: int) -> None:
    exact = roofline(load_model("meta-llama/Llama-3.1-8B-Instruct").spec, A100, engine="vllm")
    split = replace(exact, chunk_tokens=step)
    costs = StepCosts.of(linear(exact, (1, 4), (1, 32_768), (1, step)))
    assert split.prefill_s(tokens) == pytest.approx(costs.read(tokens, step) / FS_PER_S, rel=0.006)
    if tokens <= step:
        assert split.prefill_s(tokens) == exact.prefill_s(tokens)
    else:
        assert split.prefill_s(tokens) > exact.prefill_s(tokens)
        finer = replace(exact, chunk_tokens=step // 4)
        assert finer.prefill_s(tokens) > split.prefill_s(tokens)
