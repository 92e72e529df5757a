"""Encoders: BERT and RoBERTa and their kin, ModernBERT, Nomic. They keep no cache."""

from __future__ import annotations

from dataclasses import replace

from cotenant.domain.model import AttentionKind, LayerGroup, ParameterGroup, Role, Split, Stage
from cotenant.readers.blocks import Groups, Structure, attention, gated_mlp, linear, norm, plain_mlp
from cotenant.readers.config_view import ConfigView
from cotenant.readers.decoder import Builder, Sizes, read_sizes, structure


def _embedding(name: str, rows: int, width: int, split: Split = Split.NONE) -> Groups:
    return (ParameterGroup(name, Role.EMBEDDING, (rows, width), split, stage=Stage.FIRST),)


def _encoder(sizes: Sizes, parameters: Groups) -> Structure:
    none = LayerGroup(
        AttentionKind.NONE, sizes.layers, sizes.heads, sizes.kv_heads, sizes.head_dim, sizes.head_dim
    )
    return replace(structure(sizes, parameters, (none,)), encoder_only=True)


def _head(config: ConfigView, hidden: int) -> Groups:
    """What the architecture's name says stands on top: a pooler, a classifier, or nothing."""
    name = (config.texts("architectures") or ("",))[0]
    labels = config.section("id2label")
    count = sum(1 for _ in labels.items()) or config.integer("num_labels", default=2)
    if name.endswith("ForTokenClassification"):  # on every token, without a pooler
        return linear("classifier", count, hidden, role=Role.OTHER, split=Split.NONE, bias=True)
    if name.endswith("ForSequenceClassification"):
        middle = linear("classifier.dense", hidden, hidden, role=Role.OTHER, split=Split.NONE, bias=True)
        return middle + linear("classifier.out", count, hidden, role=Role.OTHER, split=Split.NONE, bias=True)
    if name.endswith("ForMaskedLM"):
        vocab = config.integer("vocab_size")
        transform = linear("lm_head.dense", hidden, hidden, role=Role.OTHER, split=Split.NONE, bias=True)
        bias = ParameterGroup("lm_head.bias", Role.HEAD, (vocab,), Split.VOCAB, stage=Stage.LAST)
        return transform + norm("lm_head.norm", hidden, bias=True) + (bias,)
    if config.flag("add_pooling_layer", default=True):
        return linear("pooler.dense", hidden, hidden, role=Role.OTHER, split=Split.NONE, bias=True)
    return ()


def _bert(config: ConfigView, *, positions: bool = True) -> Structure:
    """Learned positions and token types, a norm after each half, biases everywhere."""
    sizes = read_sizes(config)
    hidden = sizes.hidden
    groups = _embedding("word_embeddings", sizes.vocab, hidden, Split.VOCAB)
    rows = config.integer("max_position_embeddings")
    groups += _embedding("position_embeddings", rows, hidden) if positions else ()
    types = config.integer("type_vocab_size", default=2, least=0)
    if types:
        groups += _embedding("token_type_embeddings", types, hidden)
    groups += norm("embeddings.norm", hidden, bias=True)
    groups += attention(
        sizes.layers, hidden, sizes.heads, sizes.kv_heads, sizes.head_dim, qkv_bias=True, out_bias=True
    )
    groups += plain_mlp(sizes.layers, hidden, sizes.inner, bias=True)
    groups += norm("layernorm", hidden, layers=sizes.layers, bias=True, copies=2)
    return _encoder(sizes, groups + _head(config, hidden))


def _roberta(config: ConfigView) -> Structure:
    """As BERT; two position rows are taken by padding, so the longest sequence is two shorter."""
    built = _bert(config)
    rows = config.integer("max_position_embeddings")
    padding = config.integer("pad_token_id", default=1, least=0)
    return replace(built, max_model_len=max(1, rows - padding - 1))


def _modernbert(config: ConfigView) -> Structure:
    """No biases, a gated MLP, no attention norm in the first layer."""
    config = config.with_defaults(
        vocab_size=50368, hidden_size=768, intermediate_size=1152, num_hidden_layers=22, num_attention_heads=12,
        max_position_embeddings=8192,
    )  # fmt: skip
    sizes = read_sizes(config)
    groups = _embedding("tok_embeddings", sizes.vocab, sizes.hidden, Split.VOCAB)
    groups += norm("embeddings.norm", sizes.hidden)
    groups += attention(sizes.layers, sizes.hidden, sizes.heads, sizes.heads, sizes.head_dim)
    groups += gated_mlp(sizes.layers, sizes.hidden, sizes.inner)
    groups += norm("mlp_norm", sizes.hidden, layers=sizes.layers) + norm("final_norm", sizes.hidden)
    if sizes.count > 1:
        groups += norm("attn_norm", sizes.hidden, layers=sizes.layers[1:])
    name = (config.texts("architectures") or ("",))[0]
    if name.endswith("ForMaskedLM"):
        groups += linear("head.dense", sizes.hidden, sizes.hidden, role=Role.OTHER, split=Split.NONE)
        groups += norm("head.norm", sizes.hidden)
        groups += (ParameterGroup("decoder.bias", Role.HEAD, (sizes.vocab,), Split.VOCAB, stage=Stage.LAST),)
    return _encoder(sizes, groups)


def _nomic(config: ConfigView) -> Structure:
    """nomic-embed: BERT with rotary positions and a SwiGLU; vocabulary padded to a multiple of 64."""
    hidden = config.integer("n_embd", "hidden_size")
    config = config.with_defaults(n_inner=4 * hidden)
    sizes = read_sizes(config)
    bias = config.flag("qkv_proj_bias")
    mlp_bias = config.flag("mlp_fc1_bias")
    gated = config.text("activation_function", default="swiglu") in ("swiglu", "silu")
    step = config.integer("pad_vocab_size_multiple", default=1)
    vocab = -(-sizes.vocab // step) * step
    groups = _embedding("word_embeddings", vocab, hidden, Split.VOCAB)
    groups += _embedding("token_type_embeddings", config.integer("type_vocab_size", default=2), hidden)
    groups += norm("embeddings.norm", hidden, bias=True)
    groups += attention(
        sizes.layers, hidden, sizes.heads, sizes.heads, sizes.head_dim, qkv_bias=bias, out_bias=bias
    )
    mlp = gated_mlp if gated else plain_mlp
    groups += mlp(sizes.layers, hidden, sizes.inner, bias=mlp_bias)
    groups += norm("layernorm", hidden, layers=sizes.layers, bias=True, copies=2)
    return _encoder(sizes, groups)


def _gte(config: ConfigView) -> Structure:
    """GTE's newer encoders: rotary positions, a gated MLP with a bias on its last projection only."""
    sizes = read_sizes(config)
    hidden = sizes.hidden
    groups = _embedding("word_embeddings", sizes.vocab, hidden, Split.VOCAB) + norm(
        "embeddings.norm", hidden, bias=True
    )
    types = config.integer("type_vocab_size", default=1, least=0)
    groups += _embedding("token_type_embeddings", types, hidden) if types else ()
    groups += attention(
        sizes.layers, hidden, sizes.heads, sizes.heads, sizes.head_dim, qkv_bias=True, out_bias=True
    )
    groups += linear("mlp.gate_up", sizes.inner, hidden, role=Role.MLP, layers=sizes.layers, copies=2)
    groups += linear("mlp.down", hidden, sizes.inner, role=Role.MLP, layers=sizes.layers, row=True, bias=True)
    groups += norm("layernorm", hidden, layers=sizes.layers, bias=True, copies=2)
    return _encoder(sizes, groups)


def _mpnet(config: ConfigView) -> Structure:
    """As BERT without token types, with one table of relative position biases."""
    built = _bert(config.replaced(type_vocab_size=0))
    buckets = config.integer("relative_attention_num_buckets", default=32)
    heads = config.integer("num_attention_heads")
    biases = ParameterGroup("relative_attention_bias", Role.OTHER, (buckets, heads))
    rows = config.integer("max_position_embeddings")
    return replace(built.extended(biases), max_model_len=max(1, rows - 2))


def _jina_v3(config: ConfigView) -> Structure:
    """XLM-RoBERTa with rotary positions; the task adapters of the original repository are not counted."""
    rows = config.integer("max_position_embeddings")
    return replace(_bert(config, positions=False), max_model_len=max(1, rows - 2))


def _jina_v2(config: ConfigView) -> Structure:
    """BERT with ALiBi in place of positions and a GEGLU whose gate has no bias."""
    sizes = read_sizes(config)
    hidden = sizes.hidden
    groups = _embedding("word_embeddings", sizes.vocab, hidden, Split.VOCAB) + norm(
        "embeddings.norm", hidden, bias=True
    )
    groups += _embedding("token_type_embeddings", config.integer("type_vocab_size", default=2), hidden)
    groups += attention(
        sizes.layers, hidden, sizes.heads, sizes.heads, sizes.head_dim, qkv_bias=True, out_bias=True
    )
    groups += linear("mlp.gated_layers", 2 * sizes.inner, hidden, role=Role.MLP, layers=sizes.layers)
    groups += linear("mlp.wo", hidden, sizes.inner, role=Role.MLP, layers=sizes.layers, row=True, bias=True)
    groups += norm("layernorm", hidden, layers=sizes.layers, bias=True, copies=2)
    return _encoder(sizes, groups + linear("pooler", hidden, hidden, role=Role.OTHER, split=Split.NONE, bias=True))


def _distilbert(config: ConfigView) -> Structure:
    """BERT's layer without token types and pooler."""
    inner = config.integer("hidden_dim", default=3072)
    renamed = {
        "hidden_size": config.raw("dim"), "num_attention_heads": config.raw("n_heads"),
        "num_hidden_layers": config.raw("n_layers"), "intermediate_size": inner, "type_vocab_size": 0,
        "add_pooling_layer": False,
    }  # fmt: skip
    return _bert(config.replaced(**{key: value for key, value in renamed.items() if value is not None}))


BUILDERS: dict[str, Builder] = {
    "BertModel": _bert,
    "BertForMaskedLM": _bert,
    "BertForSequenceClassification": _bert,
    "BertForTokenClassification": _bert,
    "bert": _bert,
    "RobertaModel": _roberta,
    "RobertaForMaskedLM": _roberta,
    "RobertaForSequenceClassification": _roberta,
    "RobertaForTokenClassification": _roberta,
    "roberta": _roberta,
    "XLMRobertaModel": _roberta,
    "XLMRobertaForMaskedLM": _roberta,
    "XLMRobertaForSequenceClassification": _roberta,
    "XLMRobertaForTokenClassification": _roberta,
    "xlm-roberta": _roberta,
    "CamembertModel": _roberta,
    "camembert": _roberta,
    "ModernBertModel": _modernbert,
    "ModernBertForMaskedLM": _modernbert,
    "ModernBertForSequenceClassification": _modernbert,
    "ModernBertForTokenClassification": _modernbert,
    "modernbert": _modernbert,
    "NomicBertModel": _nomic,
    "nomic_bert": _nomic,
    "GteModel": _gte,
    "gte": _gte,
    "NewModel": _gte,
    "GteNewModel": _gte,
    "GteNewForSequenceClassification": _gte,
    "MPNetModel": _mpnet,
    "MPNetForMaskedLM": _mpnet,
    "mpnet": _mpnet,
    "JinaEmbeddingsV3Model": _jina_v3,
    "jina_embeddings_v3": _jina_v3,
    "JinaBertModel": _jina_v2,
    "JinaBertForMaskedLM": _jina_v2,
    "DistilBertModel": _distilbert,
    "DistilBertForMaskedLM": _distilbert,
    "distilbert": _distilbert,
}
