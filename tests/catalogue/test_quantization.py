"""The catalogue of formats: published bits a weight, kernels by card and version, figures with their source."""

from __future__ import annotations

import json
from contextlib import suppress
from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.catalogue import quantization as catalogue
from cotenant.catalogue.gpus import all_gpus, find_gpu
from cotenant.catalogue.quantization import (
    all_formats,
    find_format,
    kernel,
    largest_of_mix,
    quality,
    speed_figures,
)
from cotenant.domain.engine import Version
from cotenant.domain.model import Role
from cotenant.domain.quantization import Speed
from cotenant.errors import InputError

ENGINES = ("vllm", "sglang", "tgi", "tensorrt-llm", "llama.cpp", "ollama")


def test_every_family_of_the_question_is_there() -> None:
    names = {item.name for item in all_formats()}
    assert {
        "bf16", "fp16", "fp8", "int8", "awq-int4", "gptq-int4", "nvfp4", "mxfp4", "bnb-nf4", "mixed-fp8-int4",
        "gguf-q4_k_m", "gguf-q8_0",
    } <= names  # fmt: skip


def test_names_and_aliases_lead_to_one_format_each() -> None:
    seen: dict[str, str] = {}
    for item in all_formats():
        assert find_format(item.name) is item
        assert item.source
        for alias in item.aliases:
            assert find_format(alias) is item, alias
            assert seen.setdefault(alias.lower(), item.name) == item.name


@pytest.mark.parametrize(
    ("written", "name"),
    [("AWQ", "awq-int4"), ("awq_int4", "awq-int4"), ("FP8", "fp8"), ("Q4_K_M", "gguf-q4_k_m"), ("nf4", "bnb-nf4")],
)
def test_formats_as_people_write_them(written: str, name: str) -> None:
    assert find_format(written).name == name


def test_an_unknown_format_hints_at_the_nearest() -> None:
    with pytest.raises(InputError) as caught:
        find_format("awq-int5")
    assert "awq-int4" in caught.value.hint


def test_sixteen_bits_store_the_models_own_tensors() -> None:
    assert find_format("bf16").storage == {}
    assert find_format("fp16").storage == {}


def test_awq_stores_a_scale_and_a_zero_for_each_128_inputs() -> None:
    """4 + (16 + 4) / 128 = 4.15625 bits; embeddings, head, norms and routers stay."""
    storage = find_format("awq-int4").storage
    linear = storage[Role.MLP]
    assert (linear.bits, linear.group_size, linear.scale_bits, linear.zero_bits) == (4, 128, 16, 4)
    assert set(storage) == {Role.ATTENTION, Role.MLP, Role.EXPERT}


def test_gptq_adds_the_order_of_inputs_and_fp8_a_scale_a_row() -> None:
    assert find_format("gptq-int4").storage[Role.MLP].input_bits == 32
    assert find_format("fp8").storage[Role.ATTENTION].group_size == 0
    assert find_format("fp8-block").storage[Role.MLP].block == (128, 128)


def test_mixed_precision_keeps_attention_in_fp8() -> None:
    storage = find_format("mixed-fp8-int4").storage
    assert storage[Role.ATTENTION].bits == 8
    assert storage[Role.MLP].bits == storage[Role.EXPERT].bits == 4


def test_mxfp4_leaves_attention_alone() -> None:
    assert Role.ATTENTION not in find_format("mxfp4").storage


@pytest.mark.parametrize(
    ("name", "published"),
    [
        ("gguf-q8_0", 8.5008), ("gguf-q6_k", 6.5633), ("gguf-q5_k_m", 5.7036), ("gguf-q4_k_m", 4.8944),
        ("gguf-iq4_xs", 4.4597), ("gguf-q2_k", 3.1593),
    ],
)  # fmt: skip
def test_gguf_mixes_average_to_the_published_bits_a_weight(name: str, published: float) -> None:
    """Llama-3.1-8B, llama.cpp tools/quantize/README.md @311c2c9f; within 0.1 %."""
    hidden, inner, vocabulary, layers = 4096, 14336, 128256, 32
    elements = {
        Role.ATTENTION: layers * (2 * hidden * hidden + 2 * hidden * 1024),
        Role.MLP: layers * 3 * hidden * inner,
        Role.EMBEDDING: vocabulary * hidden,
        Role.HEAD: vocabulary * hidden,
    }
    storage = find_format(name).storage
    bits = sum(count * storage[role].bits for role, count in elements.items()) / sum(elements.values())
    assert bits == pytest.approx(published, rel=1e-3)


def test_the_largest_type_that_a_mix_gives_a_tensor() -> None:
    """src/llama-quant.cpp: Q4_K_M leads back with Q6_K in half of the layers, Q6_K with Q6_K."""
    assert largest_of_mix("Q4_K_M", "ffn_down") == largest_of_mix("q6_k", "ffn_down") == 210 / 256
    assert largest_of_mix("Q4_K_M", "ffn_up") == 144 / 256
    assert largest_of_mix("Q5_K_XL", "ffn_down") is None


@pytest.mark.parametrize(
    ("engine", "name", "gpu", "version", "expected"),
    [
        ("vllm", "fp8", "H100-80GB-SXM", "0.21", ("W8A8", Speed.FAST)),
        ("vllm", "fp8", "A100-80GB-SXM", "0.21", ("Marlin", Speed.WORKS)),
        ("vllm", "fp8", "MI300X", "0.21", ("AITER", Speed.FAST)),
        ("vllm", "awq-int4", "A100-80GB-SXM", "0.21", ("Marlin", Speed.FAST)),
        ("vllm", "awq-int4", "T4", "0.13.2", ("AWQ", Speed.SLOW)),
        ("vllm", "nvfp4", "B200", "0.21", ("FP4", Speed.FAST)),
        ("tgi", "gptq-int4", "T4", "1.1.0", ("Triton", Speed.SLOW)),
        ("llama.cpp", "gguf-q4_k_m", "RTX 4090", None, ("MM", Speed.FAST)),
    ],
)
def test_the_kernel_that_runs(
    engine: str, name: str, gpu: str, version: str | None, expected: tuple[str, Speed]
) -> None:
    found = kernel(engine, name, find_gpu(gpu), Version.parse(version) if version else None)
    assert found is not None
    assert expected[0] in found.kernel
    assert found.speed is expected[1]
    assert found.source


@pytest.mark.parametrize(
    ("engine", "name", "gpu", "version"),
    [
        ("vllm", "awq-int4", "V100-16GB-SXM", "0.21"),  # no AWQ kernel below 7.5
        ("vllm", "gguf-q4_k_m", "L4", "0.24"),  # GGUF left the tree after 0.23
        ("tensorrt-llm", "fp8", "A100-80GB-SXM", None),
        ("ollama", "awq-int4", "RTX 4090", None),
        ("tgi", "awq-int4", "T4", "2.0"),  # its image builds AWQ and ExLlama for 8.0 and up
        ("tgi", "gptq-int4", "T4", "1.0.3"),
    ],
)
def test_no_kernel_is_no_kernel(engine: str, name: str, gpu: str, version: str | None) -> None:
    assert kernel(engine, name, find_gpu(gpu), Version.parse(version) if version else None) is None


@given(st.sampled_from(ENGINES), st.sampled_from(range(25)), st.sampled_from(range(35)))
def test_the_kernel_is_the_fastest_of_those_that_run(engine: str, number: int, card: int) -> None:
    gpu, name = all_gpus()[card], all_formats()[number].name
    best = kernel(engine, name, gpu, Version.parse("0.21"))
    if best is not None and best.min_compute_capability is not None and gpu.compute_capability is not None:
        assert best.min_compute_capability <= gpu.compute_capability


def test_every_figure_names_a_known_format_a_metric_and_a_source() -> None:
    names = {item.name for item in all_formats()}
    figures = [figure for item in all_formats() for figure in quality(item.name)]
    rows = json.loads(files("cotenant.catalogue").joinpath("quantization.json").read_text(encoding="utf-8"))
    assert len(figures) == len(rows["quality"]) >= 100
    for figure in figures:
        assert figure.format in names
        assert figure.metric
        assert figure.source
        assert figure.model
    for row in rows["support"]:
        assert row["format"] in names
        assert row["engine"] in ENGINES


def test_losses_follow_from_baseline_and_value_where_both_are_given() -> None:
    for item in all_formats():
        for figure in quality(item.name):
            if figure.baseline and figure.value is not None and figure.loss_percent is not None:
                sign = -1 if "perplexity" in figure.metric.lower() else 1
                loss = sign * (figure.baseline - figure.value) / figure.baseline * 100
                assert figure.loss_percent == pytest.approx(loss, abs=0.06), figure


def test_code_loses_as_the_second_article_says() -> None:
    """HumanEval 56.1 -> 51.8 (AWQ, 7.66 %) and 46.3 (GPTQ, 17.47 %)."""
    losses = {name: max(f.loss_percent or 0 for f in quality(name, "code")) for name in ("awq-int4", "gptq-int4")}
    assert losses == {"awq-int4": 7.66, "gptq-int4": 17.47}


def test_the_right_kernel_is_worth_ten_times() -> None:
    awq = {figure.kernel: figure.value for figure in speed_figures() if figure.format == "awq-int4" and figure.gpu}
    assert awq["Marlin"] / awq["AWQ GEMM (plain)"] > 10


@given(st.text(max_size=30))
def test_no_name_breaks_the_search(name: str) -> None:
    with suppress(InputError):
        assert find_format(name) in all_formats()


def test_the_file_has_every_key_written_out() -> None:
    rows = json.loads(files("cotenant.catalogue").joinpath("quantization.json").read_text(encoding="utf-8"))
    for part, keys in (
        ("formats", catalogue.FORMAT_KEYS), ("support", catalogue.SUPPORT_KEYS),
        ("quality", catalogue.QUALITY_KEYS), ("speed", catalogue.SPEED_KEYS),
    ):  # fmt: skip
        assert all(set(row) == set(keys) for row in rows[part]), part


def test_gguf_files_of_every_mix_have_a_format():
    """Bits a matrix element: the mix's own rules, its one block type, or what llama.cpp's help prints."""
    from cotenant.readers.ggml_types import FILE_TYPES

    for name in FILE_TYPES.values():
        assert find_format(f"gguf-{name.lower()}").title.startswith("GGUF ")
    bits = {
        name: find_format(f"gguf-{name}").storage[Role.MLP].bits for name in ("q4_1", "q4_k_s", "iq2_m", "f32")
    }
    assert (bits["q4_1"], bits["iq2_m"], bits["f32"]) == (5.0, 2.7, 32)
    assert 4.5 < bits["q4_k_s"] < find_format("gguf-q4_k_m").storage[Role.MLP].bits
