"""Models from GGUF headers: published parameter totals to the unit, and what each layer caches.

The tensors are those that llama.cpp's converter writes for each model, at full size; only their data is missing.
"""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.catalogue.models import find_entry
from cotenant.domain.model import AttentionKind, Role, Split, Stage
from cotenant.errors import CotenantError, FormatError, UnknownArchitectureError
from cotenant.readers.ggml_types import GGML_TYPES
from cotenant.readers.gguf import GgufHeader
from cotenant.readers.gguf_layers import KNOWN
from cotenant.readers.gguf_model import gguf_model
from cotenant.readers.model_config import read_model_config
from cotenant.readers.tensors import TensorInfo

BY_NAME = {kind.name: kind for kind in GGML_TYPES.values()}


def tensor(name: str, *shape: int, dtype: str = "") -> TensorInfo:
    info = TensorInfo(name, dtype or ("F16" if len(shape) > 1 else "F32"), shape, 0)
    kind = BY_NAME[info.dtype]
    return TensorInfo(name, info.dtype, shape, info.elements // kind.block_elements * kind.block_bytes)


def header(arch: str, keys: dict, tensors, file_type: str = "F16") -> GgufHeader:
    tensors = tuple(tensors)
    metadata = {"general.architecture": arch, **{f"{arch}.{key}": value for key, value in keys.items()}}
    return GgufHeader(arch, metadata, tensors, sum(t.bytes for t in tensors), file_type)


def sizes(layers, hidden, inner, heads, kv, context=4096, **more) -> dict:
    keys = {
        "block_count": layers,
        "embedding_length": hidden,
        "feed_forward_length": inner,
        "context_length": context,
        "attention.head_count": heads,
        "attention.head_count_kv": kv,
    }
    return keys | {name.replace("__", "."): value for name, value in more.items()}


def blocks(layers, *parts):
    """Each (name, *shape) once in every layer, as blk.N.name."""
    return [tensor(f"blk.{i}.{name}", *shape) for i in range(layers) for name, *shape in parts]


def attention(hidden, heads, kv, dim, *, bias=False):
    q, k = heads * dim, kv * dim
    parts = [
        ("attn_norm.weight", hidden),
        ("attn_q.weight", q, hidden),
        ("attn_k.weight", k, hidden),
        ("attn_v.weight", k, hidden),
        ("attn_output.weight", hidden, q),
    ]
    return parts + ([("attn_q.bias", q), ("attn_k.bias", k), ("attn_v.bias", k)] if bias else [])


def mlp(hidden, inner):
    return [
        ("ffn_norm.weight", hidden),
        ("ffn_gate.weight", inner, hidden),
        ("ffn_up.weight", inner, hidden),
        ("ffn_down.weight", hidden, inner),
    ]


def experts(hidden, inner, count):
    return [
        ("ffn_norm.weight", hidden),
        ("ffn_gate_inp.weight", count, hidden),
        ("ffn_gate_exps.weight", count, inner, hidden),
        ("ffn_up_exps.weight", count, inner, hidden),
        ("ffn_down_exps.weight", count, hidden, inner),
    ]


def ends(vocab, hidden, *, tied=False):
    found = [tensor("token_embd.weight", vocab, hidden), tensor("output_norm.weight", hidden)]
    return found if tied else [*found, tensor("output.weight", vocab, hidden)]


def llama_8b() -> GgufHeader:
    keys = sizes(32, 4096, 14336, 32, 8, context=131072, rope__dimension_count=128, vocab_size=128256)
    parts = blocks(32, *attention(4096, 32, 8, 128), *mlp(4096, 14336))
    return header("llama", keys, [*ends(128256, 4096), tensor("rope_freqs.weight", 64), *parts])


def mixtral() -> GgufHeader:
    keys = sizes(32, 4096, 14336, 32, 8, expert_count=8, expert_used_count=2)
    return header(
        "llama", keys, ends(32000, 4096) + blocks(32, *attention(4096, 32, 8, 128), *experts(4096, 14336, 8))
    )


def qwen2_half_b() -> GgufHeader:
    parts = blocks(24, *attention(896, 14, 2, 64, bias=True), *mlp(896, 4864))
    return header("qwen2", sizes(24, 896, 4864, 14, 2), ends(151936, 896, tied=True) + parts)


def qwen3_moe() -> GgufHeader:
    keys = sizes(48, 2048, 6144, 32, 4, attention__key_length=128, attention__value_length=128, expert_count=128)
    keys |= {"expert_used_count": 8, "expert_feed_forward_length": 768}
    norms = [("attn_q_norm.weight", 128), ("attn_k_norm.weight", 128)]
    parts = blocks(48, *attention(2048, 32, 4, 128), *norms, *experts(2048, 768, 128))
    return header("qwen3moe", keys, ends(151936, 2048) + parts)


def gemma2_2b() -> GgufHeader:
    keys = sizes(26, 2304, 9216, 8, 4, attention__key_length=256, attention__value_length=256)
    norms = [("post_attention_norm.weight", 2304), ("post_ffw_norm.weight", 2304)]
    parts = blocks(26, *attention(2304, 8, 4, 256), *norms, *mlp(2304, 9216))
    return header("gemma2", keys, ends(256000, 2304, tied=True) + parts)


def gemma3_1b() -> GgufHeader:
    keys = sizes(26, 1152, 6912, 4, 1, attention__key_length=256, attention__value_length=256)
    keys |= {"attention.sliding_window": 512}
    norms = [("post_attention_norm.weight", 1152), ("post_ffw_norm.weight", 1152)]
    norms += [("attn_q_norm.weight", 256), ("attn_k_norm.weight", 256)]
    parts = blocks(26, *attention(1152, 4, 1, 256), *norms, *mlp(1152, 6912))
    return header("gemma3", keys, ends(262144, 1152, tied=True) + parts)


def gpt_oss_20b() -> GgufHeader:
    keys = sizes(24, 2880, 2880, 64, 8, attention__key_length=64, attention__value_length=64)
    keys |= {"attention.sliding_window": 128, "expert_count": 32, "expert_used_count": 4}
    more = [("attn_output.bias", 2880), ("attn_sinks.weight", 64), ("ffn_gate_inp.bias", 32)]
    more += [(f"ffn_{part}_exps.bias", 32, 2880) for part in ("gate", "up", "down")]
    parts = blocks(24, *attention(2880, 64, 8, 64, bias=True), *more, *experts(2880, 2880, 32))
    return header("gpt-oss", keys, ends(201088, 2880) + parts)


def deepseek_v2_lite(*, mla=True) -> GgufHeader:
    keys = sizes(27, 2048, 10944, 16, 1 if mla else 16, attention__kv_lora_rank=512, rope__dimension_count=64)
    keys |= {"expert_count": 64, "expert_used_count": 6, "leading_dense_block_count": 1}
    if mla:
        keys |= {"attention.key_length": 576, "attention.value_length": 512}
        keys |= {"attention.key_length_mla": 192, "attention.value_length_mla": 128}
        kv_b = [("attn_k_b.weight", 16, 512, 128), ("attn_v_b.weight", 16, 128, 512)]
    else:
        keys |= {"attention.key_length": 192, "attention.value_length": 128}
        kv_b = [("attn_kv_b.weight", 16 * 256, 512)]
    latent = [
        ("attn_norm.weight", 2048),
        ("attn_q.weight", 16 * 192, 2048),
        ("attn_kv_a_mqa.weight", 576, 2048),
        ("attn_kv_a_norm.weight", 512),
        ("attn_output.weight", 2048, 2048),
        *kv_b,
    ]
    shared = [(name.replace(".weight", "_shexp.weight"), *shape) for name, *shape in mlp(2048, 2816)[1:]]
    parts = blocks(27, *latent) + blocks(1, *mlp(2048, 10944))
    for name, *shape in [*experts(2048, 1408, 64), *shared]:
        parts += [tensor(f"blk.{i}.{name}", *shape) for i in range(1, 27)]
    return header("deepseek2", keys, ends(102400, 2048) + parts)


def mamba_130m() -> GgufHeader:
    keys = {"block_count": 24, "embedding_length": 768, "feed_forward_length": 0, "context_length": 2**20}
    keys |= {"attention.head_count": 0, "ssm.conv_kernel": 4, "ssm.inner_size": 1536, "ssm.state_size": 16}
    parts = blocks(
        24,
        ("attn_norm.weight", 768),
        ("ssm_in.weight", 3072, 768),
        ("ssm_conv1d.weight", 1536, 4),
        ("ssm_conv1d.bias", 1536),
        ("ssm_x.weight", 80, 1536),
        ("ssm_dt.weight", 1536, 48),
        ("ssm_dt.bias", 1536),
        ("ssm_a", 1536, 16),
        ("ssm_d", 1536),
        ("ssm_out.weight", 768, 1536),
    )
    return header("mamba", keys, ends(50280, 768, tied=True) + parts)


PUBLISHED = [  # parameters as the models' own pages or safetensors totals state them
    (llama_8b, 8_030_261_248),
    (mixtral, 46_702_792_704),
    (qwen2_half_b, 494_032_768),
    (qwen3_moe, 30_532_122_624),
    (gemma2_2b, 2_614_341_888),
    (gemma3_1b, 999_885_952),
    (gpt_oss_20b, 20_914_757_184),
    (deepseek_v2_lite, 15_706_484_224),
    (mamba_130m, 129_135_360),
]


@pytest.mark.parametrize(("build", "total"), PUBLISHED, ids=lambda value: getattr(value, "__name__", None))
def test_parameters_equal_the_published_total(build, total):
    found = build()
    model = gguf_model(found, "m")
    assert model.num_parameters == total
    assert model.stored_bytes == found.total_bytes
    assert sorted({layer for group in model.layer_groups for layer in group.layers}) == list(
        range(model.num_layers)
    )


def per_token(model) -> int:
    return 2 * sum(group.elements_per_token for group in model.layer_groups)


def test_llama_caches_131072_bytes_a_token():
    model = gguf_model(llama_8b(), "llama-3.1-8b", source="a.gguf")
    (group,) = model.layer_groups
    assert (group.kind, group.num_layers, group.query_heads) == (AttentionKind.FULL, 32, 32)
    assert per_token(model) == 131_072
    assert (model.hidden_size, model.intermediate_size, model.vocab_size) == (4096, 14336, 128256)
    assert (model.max_model_len, model.dtype, model.quantization) == (131072, "fp16", "gguf-f16")
    assert model.source == "a.gguf"


def test_roles_and_splits_follow_the_names():
    groups = {group.name: group for group in gguf_model(deepseek_v2_lite(), "m").parameters}
    assert {name: group.role for name, group in groups.items()} == {
        "token_embd": Role.EMBEDDING,
        "output_norm": Role.NORM,
        "output": Role.HEAD,
        "attn_norm": Role.NORM,
        "attn_q": Role.ATTENTION,
        "attn_kv_a_mqa": Role.ATTENTION,
        "attn_kv_a_norm": Role.NORM,
        "attn_output": Role.ATTENTION,
        "attn_k_b": Role.ATTENTION,
        "attn_v_b": Role.ATTENTION,
        "ffn_norm": Role.NORM,
        "ffn_gate": Role.MLP,
        "ffn_up": Role.MLP,
        "ffn_down": Role.MLP,
        "ffn_gate_inp": Role.ROUTER,
        "ffn_gate_exps": Role.EXPERT,
        "ffn_up_exps": Role.EXPERT,
        "ffn_down_exps": Role.EXPERT,
        "ffn_gate_shexp": Role.MLP,
        "ffn_up_shexp": Role.MLP,
        "ffn_down_shexp": Role.MLP,
    }
    assert groups["ffn_up_exps"].layers == tuple(range(1, 27))
    assert (groups["output"].stage, groups["output_norm"].stage) == (Stage.LAST, Stage.LAST)
    assert (groups["attn_kv_a_mqa"].split, groups["ffn_gate_inp"].split) == (Split.NONE, Split.NONE)
    llama = {group.name: group for group in gguf_model(llama_8b(), "m").parameters}
    assert (llama["attn_k"].split, llama["attn_k"].kv_heads, llama["attn_q"].split) == (Split.KV, 8, Split.EVEN)
    assert llama["attn_norm"].dtype == "fp32"


def test_a_file_without_an_output_tensor_ties_its_head():
    head = [group for group in gguf_model(qwen2_half_b(), "m").parameters if group.role is Role.HEAD]
    assert [(group.tied, group.elements, group.shape) for group in head] == [(True, 0, (151936, 896))]


def test_gemma2_alternates_and_gemma3_has_five_of_six_in_a_window():
    sliding, full = gguf_model(gemma2_2b(), "m").layer_groups
    assert (sliding.kind, sliding.window, sliding.layers) == (AttentionKind.SLIDING, 4096, tuple(range(0, 26, 2)))
    assert (full.kind, full.layers) == (AttentionKind.FULL, tuple(range(1, 26, 2)))
    sliding, full = gguf_model(gemma3_1b(), "m").layer_groups
    assert (sliding.window, sliding.num_layers, full.layers) == (512, 22, (5, 11, 17, 23))


def test_gpt_oss_starts_with_a_window_of_128():
    sliding, full = gguf_model(gpt_oss_20b(), "m").layer_groups
    assert (sliding.window, sliding.layers[:2], full.layers[:2]) == (128, (0, 2), (1, 3))
    assert (sliding.kv_heads, sliding.key_width) == (8, 64)


def test_mla_keeps_one_row_a_token_and_old_conversions_keep_every_head():
    model = gguf_model(deepseek_v2_lite(), "m")
    (group,) = model.layer_groups
    assert (group.kind, group.kv_heads, group.key_width, group.value_width) == (AttentionKind.LATENT, 1, 576, 0)
    assert per_token(model) == 576 * 2 * 27 == 31_104
    old = gguf_model(deepseek_v2_lite(mla=False), "m")
    assert old.num_parameters == model.num_parameters
    assert per_token(old) == 16 * (192 + 128) * 2 * 27
    assert "before llama.cpp knew MLA" in old.notes[0]


def test_mamba_keeps_a_state_and_no_tokens():
    model = gguf_model(mamba_130m(), "m")
    (group,) = model.layer_groups
    assert group.kind is AttentionKind.RECURRENT
    assert (group.state.conv_elements, group.state.state_elements) == (3 * 1536, 16 * 1536)
    assert per_token(model) == 0
    assert {group.role for group in model.parameters if "ssm" in group.name} == {Role.STATE}


def skeleton(arch: str, layers: int, **more) -> GgufHeader:
    """Keys alone, for the caching rules; one tensor so that it is a model."""
    return header(arch, sizes(layers, 1024, 4096, 16, 4, **more), [tensor("token_embd.weight", 1000, 1024)])


WINDOW = {"attention__sliding_window": 4096}
SSM = {"ssm__conv_kernel": 4, "ssm__inner_size": 2048, "ssm__state_size": 128, "ssm__group_count": 2}


def shape_of(model) -> list:
    return [(group.kind.value, group.layers, group.window) for group in model.layer_groups]


@pytest.mark.parametrize(
    ("arch", "layers", "more", "expected"),
    [
        ("cohere2", 8, WINDOW, [("sliding", (0, 1, 2, 4, 5, 6), 4096), ("full", (3, 7), None)]),
        ("llama4", 4, {}, [("chunked", (0, 1, 2), 8192), ("full", (3,), None)]),
        ("llama4", 2, {"attention__sliding_window": 0}, [("full", (0, 1), None)]),
        ("olmo2", 4, WINDOW, [("sliding", (0, 1, 2), 4096), ("full", (3,), None)]),
        ("olmo2", 2, {}, [("full", (0, 1), None)]),
        ("smallthinker", 5, WINDOW, [("full", (0, 4), None), ("sliding", (1, 2, 3), 4096)]),
        ("exaone4", 4, WINDOW, [("full", (0, 1, 2, 3), None)]),
        ("phi3", 2, {"attention__sliding_window": 2047}, [("full", (0, 1), None)]),
        (
            "gemma3",
            4,
            {"attention__sliding_window": 7, "attention__sliding_window_pattern": 2},
            [("sliding", (0, 2), 7), ("full", (1, 3), None)],
        ),
        (
            "gemma4",
            3,
            {"attention__sliding_window": 7, "attention__sliding_window_pattern": (True, True, False)},
            [("sliding", (0, 1), 7), ("full", (2,), None)],
        ),
        (
            "gemma4",
            3,
            WINDOW | {"attention__sliding_window_pattern": (1, 1, 0), "attention__shared_kv_layers": 1},
            [("sliding", (0, 1), 4096), ("none", (2,), None)],
        ),
        ("bert", 2, {}, [("none", (0, 1), None)]),
        ("qwen3next", 8, SSM, [("full", (3, 7), None), ("recurrent", (0, 1, 2, 4, 5, 6), None)]),
        ("falcon-h1", 2, SSM, [("full", (0, 1), None), ("recurrent", (0, 1), None)]),
        ("glm4moe", 5, {"nextn_predict_layers": 1}, [("full", (0, 1, 2, 3), None)]),
    ],
)  # fmt: skip
def test_each_architecture_caches_by_its_rule(arch, layers, more, expected):
    assert shape_of(gguf_model(skeleton(arch, layers, **more), "m")) == expected


def test_gemma3n_reads_the_cache_of_its_first_twenty_layers():
    model = gguf_model(skeleton("gemma3n", 30, attention__sliding_window=512), "m")
    kinds = {group.kind: group.layers for group in model.layer_groups}
    assert kinds[AttentionKind.NONE] == tuple(range(20, 30))
    assert kinds[AttentionKind.FULL] == (4, 9, 14, 19)


def test_windowed_layers_may_have_heads_of_their_own_width():
    more = {"attention__key_length": 512, "attention__value_length": 512}
    more |= {
        "attention__key_length_swa": 256,
        "attention__value_length_swa": 256,
        "attention__sliding_window": 1024,
    }
    more |= {"attention__sliding_window_pattern": (True, False), "attention__head_count_kv": (8, 2)}
    sliding, full = gguf_model(skeleton("gemma4", 2, **more), "m").layer_groups
    assert (sliding.kv_heads, sliding.key_width, full.kv_heads, full.value_width) == (8, 256, 2, 512)


def test_hybrids_recur_where_they_have_no_key_value_heads():
    more = {**SSM, "attention__head_count_kv": (0, 4, 0), "feed_forward_length": (0, 0, 4096)}
    assert shape_of(gguf_model(skeleton("nemotron_h", 3, **more), "m")) == [
        ("full", (1,), None),
        ("none", (2,), None),
        ("recurrent", (0,), None),
    ]
    granite = gguf_model(skeleton("granitehybrid", 3, **SSM | {"attention__head_count_kv": (0, 4, 0)}), "m")
    attention, recurrent = granite.layer_groups
    assert (attention.layers, recurrent.layers) == ((1,), (0, 2))
    assert recurrent.state.conv_elements == 3 * (2048 + 2 * 2 * 128)
    assert recurrent.state.state_elements == 128 * 2048
    lfm2 = gguf_model(skeleton("lfm2", 2, attention__head_count_kv=(0, 4), shortconv__l_cache=3), "m")
    assert lfm2.layer_groups[1].state.conv_elements == 2 * 1024


def test_draft_blocks_are_set_apart():
    tensors = [tensor("token_embd.weight", 10, 64), *blocks(3, ("attn_q.weight", 64, 64))]
    tensors += [tensor("blk.2.nextn.eh_proj.weight", 64, 128)]
    model = gguf_model(header("glm4moe", sizes(3, 64, 64, 4, 4, nextn_predict_layers=1), tensors), "m")
    assert (model.num_layers, model.num_parameters, model.num_draft_parameters) == (2, 640 + 2 * 4096, 4096 + 8192)
    assert {group.name for group in model.parameters if group.draft} == {"mtp.attn_q", "mtp.nextn.eh_proj"}


def test_the_mix_of_a_quantised_file_is_its_format():
    parts = [
        tensor("token_embd.weight", 256, 512, dtype="Q6_K"),
        tensor("blk.0.ffn_up.weight", 512, 256, dtype="Q4_K"),
    ]
    quantised = gguf_model(header("llama", sizes(1, 256, 512, 4, 4), parts, "Q4_K_M"), "m")
    assert (quantised.dtype, quantised.quantization) == ("fp16", "gguf-q4_k_m")
    assert quantised.stored_bytes == 256 * 512 * (210 + 144) // 256
    undeclared = gguf_model(header("llama", sizes(1, 256, 512, 4, 4), parts, ""), "m")
    assert undeclared.quantization == "gguf-q6_k"
    plain = gguf_model(
        header("llama", sizes(1, 8, 8, 2, 2), [tensor("token_embd.weight", 4, 8, dtype="BF16")], "BF16"), "m"
    )
    assert (plain.dtype, plain.quantization) == ("bf16", "gguf-bf16")


def test_scales_beside_weights_are_no_parameters_but_gemma4s_own_are():
    parts = [
        tensor("token_embd.weight", 10, 64),
        tensor("blk.0.ffn_up.weight", 64, 64, dtype="NVFP4"),
        tensor("blk.0.ffn_up.scale", 1),
        tensor("blk.0.ffn_gate_inp.weight", 8, 64),
        tensor("blk.0.ffn_gate_inp.scale", 64),
    ]
    model = gguf_model(header("llama", sizes(1, 64, 64, 4, 4), parts), "m")
    assert model.num_parameters == 640 + 4096 + 512 + 64


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda h: header("llama", {}, h.tensors), "no llama.block_count"),
        (lambda h: header("llama", sizes(2**30, 1, 1, 1, 1), h.tensors), "block_count is 1,073,741,824"),
        (lambda h: header("llama", sizes(2, 64, 64, (4,), 4), h.tensors), "head_count is not 2 whole numbers"),
        (lambda h: header("llama", sizes(2, "64", 64, 4, 4), h.tensors), "not a whole number"),
        (lambda h: header("llama", sizes(2, 64, 64, 4, 4, attention__key_length=0), h.tensors), "no width"),
        (lambda h: header("llama", sizes(2, 64, 64, 4, 4), ()), "no tensors"),
        (lambda h: header("gemma3", sizes(2, 64, 64, 4, 4), h.tensors), "no gemma3.attention.sliding_window"),
        (lambda h: header("gemma4", sizes(2, 64, 64, 4, 4, **WINDOW), h.tensors), "window_pattern"),
        (lambda h: header("glm4moe", sizes(2, 64, 64, 4, 4, nextn_predict_layers=2), h.tensors), "2 draft layers"),
        (lambda h: header("clip", {}, h.tensors), "vision projector"),
        (lambda h: header("", {}, h.tensors), "no general.architecture"),
    ],
)  # fmt: skip
def test_a_header_without_what_the_rules_need_is_refused(change, says):
    with pytest.raises(FormatError, match=says):
        gguf_model(change(header("llama", {}, [tensor("token_embd.weight", 4, 64)])), "m")


def test_an_unknown_architecture_is_refused_by_name():
    with pytest.raises(
        UnknownArchitectureError, match=r"'qwen9' has no rules here \(nearest that we know: qwen"
    ) as caught:
        gguf_model(skeleton("qwen9", 2), "m")
    assert "raw figures" in caught.value.hint
    assert "qwen9" not in KNOWN


numbers = st.integers(-5, 40) | st.sampled_from([2**39, 2**64, 0.5, True, "8", ()])
KEYS = sizes(2, 64, 128, 4, 2, **WINDOW, **SSM, attention__kv_lora_rank=32, attention__key_length_mla=48)
KEYS |= {"rope.dimension_count": 16, "attention.sliding_window_pattern": 2, "nextn_predict_layers": 0}


@given(
    st.sampled_from(sorted(KNOWN)),
    st.dictionaries(st.sampled_from(sorted(KEYS)), numbers | st.lists(numbers, max_size=5).map(tuple), max_size=3),
    st.sets(st.sampled_from(sorted(KEYS)), max_size=2),
)
def test_any_keys_give_a_model_or_a_refusal(arch, changes, missing):
    keys = {key: value for key, value in (KEYS | changes).items() if key not in missing}
    tensors = [tensor("token_embd.weight", 8, 64), *blocks(3, ("attn_q.weight", 64, 64), ("ssm_a", 4))]
    with contextlib.suppress(CotenantError):
        model = gguf_model(header(arch, keys, tensors), "m")
        assert model.num_parameters + model.num_draft_parameters == 8 * 64 + 3 * (64 * 64 + 4)


AS_CONFIG = {
    llama_8b: "meta-llama/Llama-3.1-8B-Instruct",
    mixtral: "mistralai/Mixtral-8x7B-Instruct-v0.1",
    qwen2_half_b: "Qwen/Qwen2.5-0.5B-Instruct",
    qwen3_moe: "Qwen/Qwen3-30B-A3B",
    gemma2_2b: "google/gemma-2-2b-it",
    gemma3_1b: "google/gemma-3-1b-it",
    gpt_oss_20b: "openai/gpt-oss-20b",
    deepseek_v2_lite: "deepseek-ai/DeepSeek-V2-Lite-Chat",
}


@pytest.mark.parametrize("build", AS_CONFIG, ids=lambda build: build.__name__)
def test_a_gguf_file_and_a_config_describe_the_same_model(build):
    """Two readers that share no rule agree on caches, and on parameters by role and by how they are split."""
    entry = find_entry(AS_CONFIG[build])
    from_file, from_config = gguf_model(build(), "m"), read_model_config(entry.config, name="m")
    assert set(from_file.layer_groups) == set(from_config.layer_groups)
    assert _by_role(from_file) == _by_role(from_config)


def _by_role(model) -> dict:
    found = {}
    for group in model.parameters:
        found[group.role, group.split] = found.get((group.role, group.split), 0) + group.elements
    return {key: count for key, count in found.items() if count}
