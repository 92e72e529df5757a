"""Qwen4-Exp (Qwen3.8-Flash-Next): gated delta nets beside sparse gated attention, four streams, n-gram memories.

Source of the tensors: vLLM 0.33 models/qwen4_exp (model.py, hyperconnection.py, ple_layer.py, indexer_qsa.py,
mtp.py). Each half of a layer mixes the streams through a low-rank gate whose norm stands for the usual one; the
indexer keeps one key for `indexer_compress_ratio` tokens; the n-gram tables lie in pinned host memory.
"""

from __future__ import annotations

from dataclasses import replace

from cotenant.domain.model import AttentionKind, LayerGroup, ParameterGroup, RecurrentState, Role, Split, Stage
from cotenant.readers.blocks import Groups, Layers, Structure, attention, draft, linear, norm
from cotenant.readers.config_view import ConfigView
from cotenant.readers.decoder import Builder, Sizes, read_sizes
from cotenant.readers.families.qwen import moe_feed_forward
from cotenant.readers.families.qwen_next import qwen_next_decoder
from cotenant.readers.families.qwen_vl import qwen3_tower
from cotenant.readers.recurrent import recurrent_group

_ELEMENT_BYTES = 2  # an indexer's key is kept in BF16
_ALIGNED_ROWS = 16


def _streams(config: ConfigView) -> int:
    return config.integer("hc_count", default=4, most=64)


def _mixer(config: ConfigView, hidden: int, layers: Layers, *, copies: int = 1, inject: bool = True) -> Groups:
    """Down to `hc_lowrank` (and a weight a stream where the block's output is injected), up again, a norm."""
    wide, rank = _streams(config) * hidden, config.integer("hc_lowrank", default=320)
    rows = -(-(rank + _streams(config)) // _ALIGNED_ROWS) * _ALIGNED_ROWS if inject else rank
    stage = Stage.FIRST if layers else Stage.LAST
    return (
        ParameterGroup("hyper_connection.down", Role.OTHER, (rows, wide), Split.NONE, copies, layers, stage),
        ParameterGroup("hyper_connection.up", Role.OTHER, (wide, rank), Split.NONE, copies, layers, stage),
        ParameterGroup("hyper_connection.norm", Role.NORM, (wide,), Split.NONE, copies, layers, stage),
    )


def _indexer(config: ConfigView, hidden: int, layers: Layers) -> Groups:
    if "indexer_n_heads" not in config or not layers:
        return ()
    heads = config.integer("indexer_n_heads", most=2**14) + config.integer("indexer_kv_heads", default=1, most=64)
    width = config.integer("indexer_head_dim", default=128, most=2**14)
    groups = linear(
        "indexer.index_qk_proj", heads * width, hidden, role=Role.ATTENTION, layers=layers, split=Split.NONE
    )
    return groups + norm("indexer.layernorm", width, layers=layers, copies=2)


def _memories(config: ConfigView, hidden: int, layers: Layers) -> Groups:
    """Tables of hashed n-grams for n of 2 to `ngram_size`, what reads them, and a short convolution."""
    if not layers:
        return ()
    heads = config.integer("heads_per_ngram", default=8, most=2**10)
    heads *= config.integer("ngram_size", default=3, least=2, most=64) - 1
    width, wide = config.integer("ple_embed_dim", default=hidden), _streams(config) * hidden
    rows = heads * config.integer("ngram_vocab_size_base", default=20_000_000)
    kernel = config.integer("ple_conv_kernel_size", default=4, most=64)
    table = ParameterGroup(
        "ple.ngram_embedding", Role.EMBEDDING, (rows, max(1, width // heads)), Split.EVEN, 1, layers, host=True
    )
    groups: Groups = (table,)
    groups += linear("ple.kv_proj", wide + hidden, width, role=Role.OTHER, layers=layers, split=Split.NONE)
    groups += (ParameterGroup("ple.conv1d", Role.OTHER, (wide, 1, kernel), Split.NONE, 1, layers),)
    return groups + norm("ple.norm", wide, layers=layers, copies=3)


def _memory_layers(config: ConfigView, sizes: Sizes) -> Layers:
    """`ple_layer_ids` counts from 1."""
    layers = tuple(n - 1 for n in config.integers("ple_layer_ids", least=1))
    if any(n >= sizes.count for n in layers):
        config.fault("ple_layer_ids", f"names a layer beyond {sizes.count}")
        return ()
    return layers


def _memory_state(config: ConfigView, hidden: int, layers: Layers) -> tuple[LayerGroup, ...]:
    """The convolution's last inputs, dilated by the n-grams' length."""
    steps = config.integer("ple_conv_kernel_size", default=4, most=64) - 1
    steps *= config.integer("ngram_size", default=3, most=64)
    return recurrent_group(layers, RecurrentState(steps * _streams(config) * hidden, 0, conv_steps=max(1, steps)))


def _index_bytes(config: ConfigView) -> int:
    if "indexer_n_heads" not in config:
        return 0
    width = config.integer("indexer_head_dim", default=128, most=2**14) * _ELEMENT_BYTES
    return width // config.integer("indexer_compress_ratio", default=4, most=2**10)


def _draft(config: ConfigView, sizes: Sizes) -> Groups:
    """A sparse layer of its own, two projections and a mixer behind it."""
    count = config.integer("mtp_num_hidden_layers", default=0, least=0, most=64)
    if not count:
        return ()
    one = replace(sizes, layers=(0,))
    layer = attention((0,), sizes.hidden, sizes.heads, sizes.kv_heads, sizes.head_dim, qk_norm="head", gated=True)
    layer += _indexer(config, sizes.hidden, (0,)) + moe_feed_forward(config, one, shared=True)[0]
    layer += _mixer(config, sizes.hidden, (0,), copies=2)
    once = linear("fc", sizes.hidden, sizes.hidden, role=Role.OTHER) * 2
    once += norm("outer_norms", sizes.hidden, copies=1 + _streams(config))
    return draft(layer * count + once + _mixer(config, sizes.hidden, (), inject=False))


def _text(config: ConfigView) -> Structure:
    kinds = tuple("full_attention" if kind != "linear_attention" else kind for kind in config.texts("layer_types"))
    plain = config.replaced(layer_types=list(kinds) or None, mtp_num_hidden_layers=0, num_nextn_predict_layers=0)
    plain = plain.with_defaults(num_experts=512, num_experts_per_tok=10)
    built = qwen_next_decoder(plain, tied=False, mtp=0)
    sizes = read_sizes(plain.with_defaults(head_dim=256), inner=1)
    index = _index_bytes(config)
    caches = [
        replace(group, index_width=index) if group.kind is AttentionKind.FULL else group
        for group in built.layer_groups
    ]
    sparse = next((group.layers for group in caches if group.kind is AttentionKind.FULL), ())
    layers = _memory_layers(config, sizes)
    kept = tuple(group for group in built.parameters if group.name != "layernorm")
    groups = _mixer(config, sizes.hidden, sizes.layers, copies=2) + _mixer(config, sizes.hidden, (), inject=False)
    groups += _indexer(config, sizes.hidden, sparse) + _memories(config, sizes.hidden, layers)
    groups += _draft(plain.replaced(mtp_num_hidden_layers=config.raw("mtp_num_hidden_layers")), sizes)
    states = _memory_state(config, sizes.hidden, layers)
    return replace(built, parameters=kept + groups, layer_groups=(*caches, *states))


def _qwen4_exp(config: ConfigView) -> Structure:
    section = config.text_section()
    tied = config.flag("tie_word_embeddings", default=section.flag("tie_word_embeddings"))
    text = _text(section.replaced(tie_word_embeddings=tied))
    vision = config.section("vision_config").with_defaults(deepstack_visual_indexes=[])
    return text.extended(*qwen3_tower(vision, text.hidden_size), modalities=("text", "image", "video"))


BUILDERS: dict[str, Builder] = {
    "Qwen4ExpForCausalLM": _text,
    "qwen4_exp_text": _text,
    "Qwen4ExpForConditionalGeneration": _qwen4_exp,
    "qwen4_exp": _qwen4_exp,
}
