"""Experts with the host, cards that are no cards, splits by shares: each has a rule or a refusal that says why."""

from __future__ import annotations

import pytest

from cotenant import estimate
from cotenant.catalogue.gpus import find_gpu
from cotenant.domain.llama_cpp import ALL_LAYERS
from cotenant.engines.llama_cpp.options import options_from
from cotenant.errors import InputErrors, UnknownGpuError
from cotenant.units import GIB, MIB

MODEL = "Qwen/Qwen3-30B-A3B"
LAYERS, EXPERTS = 48, 48 * 128 * 3 * 2048 * 768


def on_card(model: str = MODEL, gpu: str = "RTX-4090", **options: object):
    words = {"ctx_size": 8192, **options}
    return estimate(model, gpu=gpu, engine="llama.cpp", quantization="Q8_0", options=words)


@pytest.mark.parametrize(
    "words",
    [
        {"cpu_moe": True}, {"cmoe": "on"}, {"ot": "exps=CPU"}, {"override_tensor": r"\.ffn_.*_exps\.=CPU"},
        {"-ot": "ffn_(up|down|gate)_exps=cpu"},
    ],
)  # fmt: skip
def test_all_experts_with_the_host_under_every_name(words: dict[str, object]) -> None:
    assert options_from(words).n_cpu_moe == ALL_LAYERS


@pytest.mark.parametrize(
    "pattern", ["blk.1=CUDA0", "exps=CUDA1", "blk.[0-9].ffn_up_exps=CPU", "exps", "(a+)+$=CPU"]
)
def test_other_overrides_are_refused_with_what_is_known(pattern: str) -> None:
    with pytest.raises(InputErrors) as caught:
        options_from({"ot": pattern})
    assert "exps=CPU" in caught.value.faults()[0].message


def test_experts_leave_the_card_layer_by_layer() -> None:
    """Q8_0: 34 bytes for 32 weights; half of the layers' experts are half of their bytes."""
    taken = {
        layers: on_card(gpu="H100-80GB-SXM", n_cpu_moe=layers).per_gpu[0].weights.bytes.value
        for layers in (0, LAYERS // 2, LAYERS)
    }
    all_experts = EXPERTS * 34 // 32
    assert taken[0] - taken[LAYERS] == pytest.approx(all_experts, rel=0.001)
    assert taken[0] - taken[LAYERS // 2] == pytest.approx(all_experts / 2, rel=0.001)
    every = on_card(cpu_moe=True)
    assert every.per_gpu[0].weights.bytes.value == taken[LAYERS]
    assert "--cpu-moe" in every.arguments
    assert "--n-cpu-moe" not in every.arguments
    assert every.host is not None
    assert every.host.weights >= all_experts


def test_the_first_gpu_computes_the_experts_that_the_host_keeps() -> None:
    """Qwen3-235B-A22B Q6_K, experts of 80 layers on the host, build 5280 on two RTX 3090 printed 774.00 and
    304.75 MiB: matrices of one layer's experts are copied to the first card, the second has none of them."""
    words = {"n_cpu_moe": 80, "ctx_size": 16384, "flash_attn": "on", "ctk": "q8_0", "ctv": "q8_0", "np": 1}
    found = estimate(
        "Qwen/Qwen3-235B-A22B", gpu="RTX-3090", engine="llama.cpp@b5280", quantization="Q6_K",
        pipeline_parallel_size=2, options=words,
    )  # fmt: skip
    first, second = (device.activations.bytes for device in found.per_gpu)
    assert first.value / MIB == pytest.approx(774.00, rel=0.01)
    assert second.value / MIB == pytest.approx(304.75, abs=0.02)
    assert first.high - first.low > second.high - second.low  # the mix is known, the file's own types are not


def test_a_dense_model_has_no_experts_to_move() -> None:
    plain, moved = on_card("Qwen/Qwen3-8B"), on_card("Qwen/Qwen3-8B", n_cpu_moe=10)
    assert plain.per_gpu[0].weights == moved.per_gpu[0].weights
    assert any("has no experts" in warning for warning in moved.warnings)


def test_unified_memory_is_one_card_and_no_layer_on_the_card_leaves_its_context() -> None:
    spark = on_card(gpu="DGX-Spark")
    assert spark.gpu.name == "GB10"
    assert spark.fits
    assert spark.per_gpu[0].capacity.value > 119 * GIB
    host = on_card(n_gpu_layers=0)
    assert host.per_gpu[0].weights.bytes.value == 0
    assert host.per_gpu[0].kv_cache.bytes.value == 0
    assert host.host is not None
    assert host.host.weights > 30 * GIB


def test_shares_divide_the_layers() -> None:
    """36 layers and the output layer by 3:1: layer i goes where i/37 falls, 28 to the first, 8 to the second."""
    first, second = on_card("Qwen/Qwen3-8B", tensor_split="3,1").per_gpu
    assert first.kv_cache.bytes.value * 8 == second.kv_cache.bytes.value * 28


@pytest.mark.parametrize(("name", "hint"), [("M4-Max", "Metal"), ("apple m3 ultra", "Metal"), ("cpu", "-ngl 0")])
def test_what_is_no_card_of_the_catalogue_is_refused_with_what_to_do(name: str, hint: str) -> None:
    with pytest.raises(UnknownGpuError) as caught:
        find_gpu(name)
    assert hint in (caught.value.hint or "")
