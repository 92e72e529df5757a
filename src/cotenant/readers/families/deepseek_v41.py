"""DeepSeek-V4.1: as V4, but few layers compress and the others read their cache; n-gram memories, a vision tower.

Source of the tensors: vLLM 0.33 models/deepseek_v41 and models/deepseek_v4/common/vision. Compressed rows and
index keys are kept by the `kv_source_layer_ids` alone, indexers stand at the `index_source_layer_ids`. The n-gram
memories ("engram") are tables of hundreds of gigabytes, which vLLM keeps in pinned host memory unless told
otherwise (config/engram.py, cpu_offload; config/vllm.py makes that config where none is given).
"""

from __future__ import annotations

from cotenant.domain.model import AttentionKind, LayerGroup, ParameterGroup, Role, Split, Stage
from cotenant.readers.blocks import Groups, Layers, Structure, draft, linear, norm, vector, vocabulary
from cotenant.readers.config_view import ConfigView
from cotenant.readers.decoder import Builder, Sizes, read_sizes, structure
from cotenant.readers.families.deepseek import index_bytes
from cotenant.readers.families.deepseek_v4 import hyper_connections, lean_attention, lean_experts, whole_linear
from cotenant.readers.vision import layer_norm, matrix, patches, tower_sizes, vit_layers, whole


def _layer(config: ConfigView, sizes: Sizes, layers: Layers) -> Groups:
    """V4's layer, whose router has a second bias for the tokens of images."""
    groups = lean_attention(config, sizes, layers) + lean_experts(config, sizes, layers, 0)
    count = config.integer("n_routed_experts")
    groups += vector("router.bias_vl", count, role=Role.ROUTER, layers=layers, dtype="fp32")
    groups += norm("layernorm", sizes.hidden, layers=layers, copies=2)
    return groups + hyper_connections(layers, sizes.hidden, config.integer("hc_mult", default=4, most=64))


def _sources(config: ConfigView, sizes: Sizes, key: str) -> Layers:
    layers = config.integers(key)
    if any(number >= sizes.count for number in layers):
        config.fault(key, f"names a layer beyond {sizes.count}")
        return ()
    return layers


def _ratio(config: ConfigView, layer: int) -> int:
    ratios = config.integers("compress_ratios", most=2**10)
    if layer >= len(ratios) or ratios[layer] not in (1, 2):
        config.fault("compress_ratios", f"must give layer {layer} the ratio 1 or 2")
        return 1
    return ratios[layer]


def _compressed(config: ConfigView, sizes: Sizes) -> Groups:
    """Compressors (with a gate where they pool two tokens) and indexers."""
    groups: Groups = ()
    heads, width = config.integer("index_n_heads"), config.integer("index_head_dim")
    for layer in _sources(config, sizes, "kv_source_layer_ids"):
        rows = sizes.head_dim * (2 if _ratio(config, layer) == 2 else 1)
        groups += whole_linear("compressor.kv_gate_proj", rows, sizes.hidden, (layer,))
        groups += norm("compressor.norm", sizes.head_dim, layers=(layer,))
        groups += whole_linear("indexer.wk", width, sizes.head_dim, (layer,))
        groups += norm("indexer.k_norm", width, layers=(layer,))
    indexed = _sources(config, sizes, "index_source_layer_ids")
    if indexed:
        groups += whole_linear("indexer.wq_b", heads * width, config.integer("q_lora_rank"), indexed)
        groups += whole_linear("indexer.weights_proj", heads, sizes.hidden, indexed)
    return groups


def _engrams(config: ConfigView, sizes: Sizes) -> Groups:
    """Tables of hashed n-grams: for n of 2 to `engram_max_ngram_size`, `engram_n_heads` rows each a token."""
    layers, rows = _sources(config, sizes, "engram_layer_ids"), config.integers("engram_num_embeddings")
    if len(layers) != len(rows):
        config.fault("engram_num_embeddings", f"has {len(rows)} tables for {len(layers)} layers")
        return ()
    width = config.integer("engram_head_dim", default=256)
    columns = (config.integer("engram_max_ngram_size", default=4, least=2, most=64) - 1) * width
    columns *= config.integer("engram_n_heads", default=8, most=2**10)
    streams = config.integer("hc_mult", default=4, most=64)
    groups: Groups = ()
    for layer, count in zip(layers, rows, strict=True):
        table = ParameterGroup("engram.embed", Role.EMBEDDING, (count, width), Split.EVEN, 1, (layer,), host=True)
        groups += (table,)
        groups += linear("engram.wkv", (streams + 1) * sizes.hidden, columns, role=Role.OTHER, layers=(layer,))
        groups += (
            ParameterGroup("engram.qk_weight", Role.OTHER, (streams, sizes.hidden), copies=2, layers=(layer,)),
        )
    return groups


def _drafts(config: ConfigView, sizes: Sizes) -> Groups:
    """Block drafting (DSpark): whole layers with fewer experts, a projection of three states, two small heads."""
    count = config.integer("num_nextn_predict_layers", default=0, least=0, most=64)
    if not count:
        return ()
    fewer = config.replaced(
        n_routed_experts=config.raw("dspark_n_routed_experts") or config.raw("n_routed_experts")
    )
    taps = max(1, len(config.integers("dspark_target_layer_ids")))
    rank = config.integer("dspark_markov_rank", default=256)
    once = linear("main_proj", sizes.hidden, taps * sizes.hidden, role=Role.OTHER, split=Split.NONE)
    once += norm("main_norm", sizes.hidden, copies=2)
    once += (ParameterGroup("markov", Role.OTHER, (sizes.vocab, rank), copies=2, stage=Stage.LAST),)
    once += linear("confidence_head", 1, sizes.hidden + rank, role=Role.OTHER, split=Split.NONE)
    return draft(_layer(fewer, sizes, tuple(range(count))) + once)


def _caches(config: ConfigView, sizes: Sizes) -> tuple[LayerGroup, ...]:
    window = config.integer("sliding_window", default=128)
    groups = [LayerGroup(AttentionKind.SLIDING, sizes.layers, sizes.heads, 1, sizes.head_dim, 0, window)]
    sources = _sources(config, sizes, "kv_source_layer_ids")
    for ratio in (2, 1):
        layers = tuple(n for n in sources if _ratio(config, n) == ratio)
        if layers:
            index = index_bytes(config) // ratio
            width = max(1, sizes.head_dim // ratio)
            groups.append(LayerGroup(AttentionKind.LATENT, layers, sizes.heads, 1, width, 0, index_width=index))
    return tuple(groups)


def _text(config: ConfigView) -> Structure:
    sizes = read_sizes(config, inner=config.integer("moe_intermediate_size"))
    groups = vocabulary(sizes.vocab, sizes.hidden, tied=sizes.tied) + norm("norm", sizes.hidden)
    groups += _layer(config, sizes, sizes.layers) + _compressed(config, sizes) + _engrams(config, sizes)
    groups += _drafts(config, sizes)
    return structure(
        sizes, groups, _caches(config, sizes), num_experts=config.integer("n_routed_experts"),
        experts_per_token=config.integer("num_experts_per_tok"),
    )  # fmt: skip


def _deepseek_v41(config: ConfigView) -> Structure:
    text = _text(config.section("text_config"))
    vision = config.section("vision_config")
    hidden, inner, depth, patch = tower_sizes(
        vision, hidden_size=1024, intermediate_size=2816, num_hidden_layers=32, patch_size=14
    )
    merge = vision.integer("downsample_ratio", default=3, most=64) ** 2
    groups = patches(hidden, patch) + vit_layers(hidden, inner, depth, mlp_bias=False, gated=True, norm_bias=False)
    groups += layer_norm("vision.norm", hidden, bias=False)
    groups += matrix("aligner.w1", text.hidden_size, merge * hidden)
    groups += matrix("aligner.w2", text.hidden_size, text.hidden_size, row=True)
    groups += whole("image_marks", text.hidden_size, copies=3)
    return text.extended(*groups, modalities=("text", "image"))


BUILDERS: dict[str, Builder] = {
    "DeepseekV41ForCausalLM": _deepseek_v41,
    "deepseek_v41": _deepseek_v41,
    "deepseek_v41_text": _text,
}
