"""What a format's name leaves open: recurrent mixers, and prediction layers."""

from __future__ import annotations

import pytest

from cotenant.catalogue.gpus import find_gpu
from cotenant.catalogue.models import find_entry
from cotenant.catalogue.quantization import find_format
from cotenant.domain.engine import EngineSettings, Speculation, Version
from cotenant.domain.model import ModelSpec
from cotenant.engines.held import Loaded
from cotenant.engines.speculative import refuse_elsewhere
from cotenant.engines.vllm import VLLM
from cotenant.errors import InputError, UnsupportedError
from cotenant.estimation.speculation import served_model
from cotenant.estimation.weights import rotary_bytes, weights_per_rank
from cotenant.readers.model_config import read_model_config
from cotenant.units import GIB

DENSE, EXPERTS = "Qwen/Qwen3.5-27B", "Qwen/Qwen3.5-35B-A3B"


def spec(name: str, **more: object) -> ModelSpec:
    entry = find_entry(name)
    assert entry is not None
    return read_model_config({**entry.config, **more}, name=name, source="test")


def with_prediction(model: ModelSpec) -> ModelSpec:
    return served_model(model, EngineSettings(speculation=Speculation("mtp", 3)))


@pytest.mark.parametrize(
    ("name", "format_name", "printed"),
    [
        (DENSE, "w4a16", 18.5),  # RedHatAI/Qwen3.8-27B-INT4
        (DENSE, "nvfp4", 22.13),  # unsloth/Qwen3.8-27B-NVFP4
        (EXPERTS, "nvfp4", 23.45),  # RedHatAI/Qwen3.6-35B-A3B-NVFP4
    ],
)
def test_printed_weights_lie_between_mixers_taken_and_left_out(name, format_name, printed):
    """vLLM 0.25.1 with the checkpoint's own prediction layer, three tokens a step."""
    size = weights_per_rank(with_prediction(spec(name)), find_format(format_name))[0].bytes
    assert size.low <= printed * GIB <= size.high


def test_a_mixture_is_taken_to_keep_its_mixers_and_prediction_layers():
    """RedHatAI/Qwen3.6-35B-A3B-NVFP4 loads 23.45 GiB: mixers and the prediction layer in 16 bits."""
    size = weights_per_rank(with_prediction(spec(EXPERTS)), find_format("nvfp4"))[0].bytes
    assert size.value == pytest.approx(23.45 * GIB, rel=0.02)


def test_publishers_fp8_takes_the_mixers_and_says_what_it_may_be_otherwise():
    """Qwen3.6-27B-FP8 loads 27.64 GiB without its 0.86 of vision tower."""
    size = weights_per_rank(spec(DENSE), find_format("fp8"))[0].bytes
    assert size.value == pytest.approx((27.64 + 0.86) * GIB, rel=0.02)
    assert size.high > 33 * GIB


def test_models_without_mixers_are_as_they_were():
    size = weights_per_rank(spec("Qwen/Qwen3-8B"), find_format("fp8"))[0].bytes
    assert size.high - size.low < 0.05 * size.value


@pytest.mark.parametrize("pattern", ["re:.*mtp.*", "re:^mtp.*", "mtp*", "mtp.layers.0*", "re:mtp[.]layers.*"])
def test_a_recipe_that_leaves_prediction_layers_out_is_read_in_every_spelling(pattern):
    weights = {"num_bits": 4, "type": "float", "group_size": 16}
    recipe = {
        "quant_method": "compressed-tensors",
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}},
        "ignore": ["lm_head", pattern],
    }
    model = spec(EXPERTS, quantization_config=recipe)
    experts = [group for group in model.parameters if group.draft and ".experts." in group.name]
    assert experts
    assert all(group.own_storage == () for group in experts)
    others = [group for group in model.parameters if not group.draft and ".experts." in group.name]
    assert all(group.own_storage for group in others)


@pytest.mark.parametrize(
    ("name", "positions", "expected"),
    [
        ("Qwen/Qwen2.5-VL-7B-Instruct", 4, 4 * 128000 * 128 * 2),  # positions count the time of a video
        ("Qwen/Qwen2.5-VL-7B-Instruct", 1, 128000 * 128 * 2),
        ("Qwen/Qwen3-VL-2B-Instruct", 4, 4 * 262144 * 128 * 2),
        ("Qwen/Qwen2.5-7B-Instruct", 4, 32768 * 128 * 2),
        ("google/gemma-3-27b-it", 4, 2 * 131072 * 128 * 2),  # two bases
        ("google/gemma-4-26B-A4B-it", 4, 262144 * (256 + 512) * 2),
        ("google/gemma-2-9b-it", 4, 8192 * 256 * 2),
        ("moonshotai/Kimi-Linear-48B-A3B-Instruct", 1, 0),  # rotates nothing: mla_use_nope
        ("zai-org/GLM-5.3-Flash", 1, 0),
    ],
)
def test_rotary_tables_are_those_that_are_registered(name, positions, expected):
    """vLLM 0.22 prints 15.67 GiB for Qwen2.5-VL-7B: 15.45 of tensors, and 0.24 of this and rounding."""
    assert rotary_bytes(spec(name), positions) == expected


@pytest.mark.parametrize(
    ("name", "unsplit", "printed"),
    [
        ("Qwen/Qwen3-14B", False, 9.37),  # vLLM 0.16
        ("Qwen/Qwen3-14B", True, 9.44),  # vLLM 0.23
    ],
)
def test_codes_and_scales_are_tensors_of_their_own_to_the_allocator(name, unsplit, printed):
    """Qwen's own AWQ checkpoints: rounding up starts from the codes alone."""
    size = weights_per_rank(spec(name), find_format("awq-int4"), loaded=Loaded(unsplit=unsplit))[0].bytes
    assert size.value == pytest.approx(printed * GIB, rel=0.0025)


def test_text_alone_leaves_the_towers_out():
    """Qwen3.6-35B-A3B with --language-model-only: vLLM 0.19.2 prints 64.69 GiB, its text model."""
    model = spec(EXPERTS)
    text = served_model(model, EngineSettings(language_model_only=True))
    assert weights_per_rank(text, find_format("bf16"))[0].bytes.value == pytest.approx(64.69 * GIB, rel=0.004)
    assert text.modalities == ("text",)
    assert text.layer_groups == model.layer_groups


@pytest.mark.parametrize(
    ("version", "flag"), [("0.11.0", "--limit-mm-per-prompt"), ("0.25.1", "--language-model-only")]
)
def test_text_alone_is_said_as_the_release_knows_it(version, flag):
    found = VLLM.arguments(
        EngineSettings(language_model_only=True), version=Version.parse(version), model_path="x/y"
    )
    assert flag in found


def test_text_alone_is_refused_where_no_release_or_engine_knows_it():
    asked = EngineSettings(language_model_only=True)
    with pytest.raises(UnsupportedError):
        VLLM.resolve(spec(EXPERTS), find_gpu("H100-80GB-SXM"), asked, Version.parse("0.9.2"))
    with pytest.raises(InputError):
        refuse_elsewhere("sglang", "SGLang", None, asked)


@pytest.mark.parametrize(
    ("name", "ranks", "printed"),
    [("Qwen/Qwen3-VL-30B-A3B-Instruct", 2, 29.3114), ("google/gemma-4-E4B-it", 1, 15.16)],
)
def test_models_that_see_hold_buffers_beside_their_tensors(name, ranks, printed):
    size = weights_per_rank(
        spec(name), find_format("bf16"), tensor_parallel_size=ranks, loaded=Loaded(video_positions=4)
    )[0].bytes
    assert size.low <= printed * GIB <= size.high
