"""How each tensor of a quantised checkpoint is stored, from its quantization_config."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotenant import load_model
from cotenant.catalogue.models import find_entry
from cotenant.catalogue.quantization import find_format
from cotenant.catalogue.recipes import Recipe, all_recipes, find_recipe
from cotenant.domain.model import ModelSpec
from cotenant.domain.storage import Storage
from cotenant.estimation.weights import checkpoint_bytes
from cotenant.readers.model_config import read_model_config
from cotenant.readers.recipe_patterns import read_patterns

NVFP4 = {
    "targets": ["Linear"], "input_activations": {"num_bits": 4},
    "weights": {"num_bits": 4, "type": "float", "group_size": 16},
}  # fmt: skip
FP8 = {"weights": {"num_bits": 8, "type": "float"}, "input_activations": {"num_bits": 8}}


def config(**section: Any) -> dict[str, Any]:
    return {
        "architectures": ["Qwen3MoeForCausalLM"], "hidden_size": 64, "num_hidden_layers": 12,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 128,
        "moe_intermediate_size": 32, "num_experts": 8, "num_experts_per_tok": 2, "vocab_size": 256,
        "max_position_embeddings": 4096, "quantization_config": section,
    }  # fmt: skip


def stored(model: ModelSpec, name: str, layer: int) -> tuple[Storage, ...] | None:
    """What the recipe says of that tensor in that layer."""
    found = [g for g in model.parameters if g.name == name and layer in g.layers]
    assert len(found) == 1
    return found[0].own_storage


def read(**section: Any) -> ModelSpec:
    return read_model_config(config(**section), name="m")


def bits(found: tuple[Storage, ...] | None) -> float | None:
    return found[0].bits if found else None


@pytest.mark.parametrize(
    ("ignored", "name", "layers"),
    [
        ("re:.*self_attn.*", "self_attn.q_proj", range(12)),
        ("model.layers.1*", "self_attn.q_proj", (1, 10, 11)),  # a glob: 1, 10 and 11
        ("model.layers.1.*", "self_attn.q_proj", (1,)),
        ("model.layers.3.self_attn.q_proj", "self_attn.q_proj", (3,)),
        ("model.language_model.layers.3.self_attn*", "self_attn.o_proj", (3,)),
        ("model.layers.3.self_attn", "self_attn.o_proj", (3,)),
        ("re:.*layers[.]4[.]mlp[.]experts.*", "experts.up_proj", (4,)),
        ("*.mlp.experts.*", "experts.up_proj", range(12)),
        ("re:.*mlp\\.(gate|up|gate_up|down)_proj.*", "experts.up_proj", ()),  # dense MLPs alone
        ("model.visual.blocks.3.attn", "self_attn.q_proj", ()),
        ("mtp.layers.0*", "self_attn.q_proj", ()),
        ("gate", "experts.gate_proj", ()),  # the router, not a projection that is named so
        ("lm_head", "self_attn.q_proj", ()),
    ],
)
def test_what_a_recipe_skips(ignored: str, name: str, layers: Any) -> None:
    model = read(quant_method="compressed-tensors", config_groups={"a": NVFP4}, ignore=[ignored])
    plain = [layer for layer in range(12) if stored(model, name, layer) == ()]
    assert plain == list(layers)
    assert all(bits(stored(model, name, n)) == 4 for n in range(12) if n not in layers)


def test_norms_gates_and_vocabularies_are_left_to_their_dtype() -> None:
    model = read(quant_method="compressed-tensors", config_groups={"a": NVFP4}, ignore=[])
    said = {g.name for g in model.parameters if g.own_storage}
    assert said == {
        "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
        "experts.gate_proj", "experts.up_proj", "experts.down_proj",
    }  # fmt: skip


def test_groups_of_targets_have_schemes_of_their_own() -> None:
    groups = {
        "a": {**FP8, "targets": ["re:.*self_attn.*"]},
        "b": {**NVFP4, "targets": ["re:.*experts.*", "lm_head"]},
    }
    model = read(
        quant_method="compressed-tensors", config_groups=groups, ignore=["model.layers.0.self_attn.q_proj"]
    )
    assert model.quantization == "mixed-nvfp4-fp8"
    assert stored(model, "self_attn.q_proj", 0) == ()
    assert bits(stored(model, "self_attn.q_proj", 1)) == 8
    assert bits(stored(model, "experts.up_proj", 1)) == 4
    head = next(group for group in model.parameters if group.name == "lm_head")
    assert bits(head.own_storage) == 4


def test_modelopts_layers_by_name() -> None:
    layers = {f"model.layers.{n}.self_attn.{p}_proj": {"quant_algo": "FP8"} for n in range(12) for p in "qkv"}
    layers |= {
        f"model.layers.{n}.mlp.experts.{e}.up_proj": {"quant_algo": "NVFP4"} for n in range(12) for e in (0, 1)
    }
    model = read(quant_method="modelopt", quant_algo="MIXED_PRECISION", quantized_layers=layers)
    assert bits(stored(model, "self_attn.q_proj", 11)) == 8
    assert stored(model, "self_attn.o_proj", 11) == ()
    assert bits(stored(model, "experts.up_proj", 11)) == 4


def test_exceptions_of_auto_round_and_gptqmodel() -> None:
    extra = {"model.layers.0.self_attn.q_proj": {"bits": 16}, ".*layers.1.self_attn.*": {"bits": 8}}
    model = read(quant_method="auto-round", bits=4, group_size=128, sym=True, extra_config=extra)
    found = [stored(model, "self_attn.q_proj", n) for n in (0, 1, 2)]
    assert (found[0], bits(found[1]), bits(found[2])) == ((), 8, 4)
    model = read(quant_method="gptq", bits=4, group_size=32, dynamic={"-:.*self_attn.*": {}})
    assert stored(model, "self_attn.q_proj", 5) == ()
    assert stored(model, "experts.up_proj", 5) == (Storage(4, group_size=32, scale_bits=16, zero_bits=4),)


def test_modules_that_bitsandbytes_skips() -> None:
    """As Unsloth's dynamic 4-bit names them: unsloth/QwQ-32B-unsloth-bnb-4bit, config.json."""
    skipped = ["lm_head", "multi_modal_projector", "model.layers.0.self_attn", "model.layers.4.mlp"]
    model = read(quant_method="bitsandbytes", load_in_4bit=True, llm_int8_skip_modules=skipped)
    assert model.quantization == "bnb-nf4"
    assert stored(model, "self_attn.q_proj", 0) == ()
    assert stored(model, "experts.up_proj", 4) == ()
    assert bits(stored(model, "self_attn.q_proj", 4)) == pytest.approx(4.127, abs=0.001)


def test_amds_quark() -> None:
    """As amd/GLM-4.7-MXFP4 excludes modules, and as single layers may have a scheme of their own."""
    model = read(
        quant_method="quark", exclude=["model.layers.0.self_attn.q_proj"],
        global_quant_config={"weight": {"dtype": "fp4", "qscheme": "per_group", "group_size": 32}},
        layer_quant_config={"*self_attn.o_proj": {"weight": {"dtype": "fp8_e4m3"}}},
    )  # fmt: skip
    assert stored(model, "self_attn.q_proj", 0) == ()
    assert stored(model, "self_attn.q_proj", 1) == (Storage(4, group_size=32, scale_bits=8),)
    assert bits(stored(model, "self_attn.o_proj", 1)) == 8


def test_the_bytes_of_a_recipe_by_hand() -> None:
    """Twelve layers; experts 8 x 3 x 32 x 64 at (4 + 8/16) bits and 8 B of scales a matrix, the rest in BF16."""
    model = read(quant_method="compressed-tensors", config_groups={"a": NVFP4}, ignore=["re:.*self_attn.*"])
    experts = 12 * (8 * 3 * 32 * 64 * 4.5 / 8 + 8 * 3 * 16)
    attention = 12 * 2 * (64 * 64 + 2 * 32 * 64 + 64 * 64 + 2 * 16)
    rest = 2 * (2 * 256 * 64 + 12 * (2 * 64 + 8 * 64) + 64)
    assert checkpoint_bytes(model, find_format("nvfp4")) == experts + attention + rest


# (config of the catalogue, recipe as its config.json has it, what the checkpoint is published to take in GB)
PUBLISHED = [
    (
        "moonshotai/Kimi-K2.5",  # huggingface.co: 595 GB
        {
            "quant_method": "compressed-tensors",
            "config_groups": {"a": {"targets": ["Linear"], "weights": {
                "num_bits": 4, "type": "int", "group_size": 32, "strategy": "group", "symmetric": True}}},
            "ignore": ["lm_head", "re:.*self_attn.*", "re:.*shared_experts.*",
                       "re:.*mlp\\.(gate|up|gate_up|down)_proj.*"],
        },
        595,
    ),
    (
        "google/gemma-4-31B-it",  # nvidia/Gemma-4-31B-IT-NVFP4: 32.7 GB
        {
            "quant_method": "modelopt", "quant_algo": "NVFP4", "config_groups": {"a": NVFP4},
            "ignore": ["lm_head", "model.embed_vision*", "model.vision_tower*",
                       *(f"model.language_model.layers.{n}.self_attn*" for n in range(60))],
        },
        32.7,
    ),
]  # fmt: skip


@pytest.mark.parametrize(("name", "section", "published_gb"), PUBLISHED)
def test_published_checkpoints(name: str, section: dict[str, Any], published_gb: float) -> None:
    entry = find_entry(name)
    assert entry is not None
    model = read_model_config({**entry.config, "quantization_config": section}, name=name)
    ours = checkpoint_bytes(model, find_format(model.quantization)) / 1e9
    assert ours == pytest.approx(published_gb, rel=0.005)


@pytest.mark.parametrize(
    "recipe", [one for one in all_recipes() if one.checkpoint_gb], ids=lambda one: one.names[0]
)
def test_recipes_of_the_catalogue_make_what_is_published(recipe: Recipe) -> None:
    entry = find_entry(recipe.base)
    assert entry is not None
    model = read_model_config({**entry.config, "quantization_config": recipe.quantization_config}, name="m")
    ours = checkpoint_bytes(model, find_format(model.quantization)) / 1e9
    assert ours == pytest.approx(recipe.checkpoint_gb, rel=0.018)  # published to two or three digits


def test_a_checkpoint_is_known_by_its_recipe() -> None:
    found = load_model("nvidia/Gemma-4-31B-IT-NVFP4")
    assert found.model_id == "nvidia/Gemma-4-31B-IT-NVFP4"
    assert (found.spec.quantization, found.spec.cache_dtype) == ("nvfp4", "fp8")
    plain = load_model("google/gemma-4-31B-it")
    assert not plain.spec.quantization
    assert found.spec.num_parameters == plain.spec.num_parameters


def test_every_recipe_says_whence_it_is() -> None:
    names = [name for recipe in all_recipes() for name in recipe.names]
    assert all(find_entry(recipe.base) for recipe in all_recipes())
    assert len(set(names)) == len(names)
    assert all(name == name.lower() for name in names)
    assert all(recipe.source for recipe in all_recipes())
    assert find_recipe("meta-llama/Llama-3.1-8B-Instruct") is None


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=12)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=12), inner, max_size=3)),
    max_leaves=8,
)
METHODS = st.sampled_from(["fp8", "gptq", "awq", "auto-round", "compressed-tensors", "modelopt", "mxfp4", ""])
KEYS = st.sampled_from(
    ["config_groups", "quantized_layers", "ignore", "extra_config", "dynamic", "quant_algo", "bits"]
)


@settings(deadline=None)
@given(METHODS, st.dictionaries(KEYS, JSON, max_size=4))
def test_nothing_breaks_the_reading(method: str, section: dict[str, Any]) -> None:
    assert read(**{**section, "quant_method": method}).num_layers == 12


@given(st.lists(st.text(max_size=40), max_size=6), st.integers(0, 200))
def test_patterns_of_any_text_are_read(items: list[str], layer: int) -> None:
    patterns = read_patterns([*items, None, 3, "re:(", "re:" + "(a*)*" * 20])
    assert patterns.hit((".self_attn.q_proj",), patterns.of_layer(layer), layer) in (True, False)


def test_a_rule_of_a_recipe_keeps_parameters_as_they_are() -> None:
    """Splitting layers by how they are stored neither adds nor loses a parameter."""
    plain = read_model_config({**config(), "quantization_config": None}, name="m")
    split = read(quant_method="compressed-tensors", config_groups={"a": NVFP4}, ignore=["model.layers.1*"])
    assert split.num_parameters == plain.num_parameters
