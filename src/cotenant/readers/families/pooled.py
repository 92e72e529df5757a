"""Decoders and encoders that score or embed: another family's layers without their output head, with a small one.

What each head holds stands in vLLM's models/qwen2_rm.py, internlm2.py, gpt2.py, jamba.py, colbert.py, colqwen3.py,
jina.py and bert.py.
"""

from __future__ import annotations

from dataclasses import replace

from cotenant.domain.model import AttentionKind, Role, Split
from cotenant.readers.blocks import Groups, Structure, linear
from cotenant.readers.config_view import ConfigView
from cotenant.readers.decoder import Builder
from cotenant.readers.families import find_builder

_COLBERT_WIDTH = 128  # ColBERT v2's; engines take a width that no key states from the checkpoint


def _matrix(name: str, outputs: int, inputs: int, *, bias: bool = False) -> Groups:
    return linear(name, outputs, inputs, role=Role.OTHER, split=Split.NONE, bias=bias)


def _without_head(config: ConfigView, family: str, architecture: str | None = None) -> Structure:
    """The layers of `family`; as the class `architecture` where the family asks what it is called."""
    builder = find_builder(family)
    if builder is None:
        raise LookupError(family)
    named = [architecture] if architecture else None
    built = builder(config.replaced(architectures=named))
    return replace(built, parameters=tuple(group for group in built.parameters if group.role is not Role.HEAD))


def _labels(config: ConfigView) -> int:
    named = sum(1 for _ in config.section("id2label").items())
    return named or config.integer("num_labels", default=2, most=2**20)


def _qwen2_reward(labels: int) -> Builder:
    """Two layers: one label, or two a step."""

    def build(config: ConfigView) -> Structure:
        built = _without_head(config, "qwen2")
        hidden = built.hidden_size
        return built.extended(
            *_matrix("score.0", hidden, hidden, bias=True), *_matrix("score.2", labels, hidden, bias=True)
        )

    return build


def _one_value(family: str) -> Builder:
    def build(config: ConfigView) -> Structure:
        built = _without_head(config, family)
        return built.extended(*_matrix("v_head", 1, built.hidden_size))

    return build


def _classifier(family: str) -> Builder:
    """A score of `num_labels` outputs without a bias."""

    def build(config: ConfigView) -> Structure:
        built = _without_head(config, family)
        return built.extended(*_matrix("score", _labels(config), built.hidden_size))

    return build


def _bidirectional(family: str, *, scored: bool = False) -> Builder:
    """Every token sees every other, so nothing is cached; `scored`: with an output of `num_labels`."""

    def build(config: ConfigView) -> Structure:
        built = _without_head(config, family)
        caches = tuple(replace(group, kind=AttentionKind.NONE, window=None) for group in built.layer_groups)
        built = replace(built, layer_groups=caches, encoder_only=True)
        return built.extended(*_matrix("score", _labels(config), built.hidden_size)) if scored else built

    return build


def _headless(family: str) -> Builder:
    def build(config: ConfigView) -> Structure:
        return _without_head(config, family)

    return build


def _colbert(family: str, architecture: str | None = None, *, bias: bool = False) -> Builder:
    """A projection of every token to `colbert_dim`, `dim` or `projection_dim`."""

    def build(config: ConfigView) -> Structure:
        encoder = config.replaced(add_pooling_layer=False)
        built = _without_head(encoder, family, architecture)
        width = config.integer("colbert_dim", "dim", "projection_dim", default=_COLBERT_WIDTH, most=2**16)
        return built.extended(*_matrix("colbert_linear", width, built.hidden_size, bias=bias))

    return build


def _late_vision(family: str) -> Builder:
    """ColQwen: a vision-language model whose tokens are projected to a narrow width."""

    def build(config: ConfigView) -> Structure:
        built = _without_head(config, family)
        keys = ("embed_dim", "dims", "dim", "projection_dim", "colbert_dim")
        width = config.integer(*keys, default=_COLBERT_WIDTH, most=2**16)
        return built.extended(*_matrix("custom_text_proj", width, built.hidden_size))

    return build


def _jina_ranking(config: ConfigView) -> Structure:
    """Jina's reranker v3: two layers down to `embedding_size`."""
    built = _without_head(config, "qwen3")
    half = max(1, built.hidden_size // 2)
    width = config.integer("embedding_size", default=512, most=2**20)
    return built.extended(*_matrix("projector.0", half, built.hidden_size), *_matrix("projector.2", width, half))


def _bge_m3(config: ConfigView) -> Structure:
    """BGE-M3 with its three outputs: dense, one weight a token, one vector a token."""
    built = _without_head(config.replaced(add_pooling_layer=False), "xlm-roberta", "XLMRobertaModel")
    hidden = built.hidden_size
    return built.extended(
        *_matrix("sparse_linear", 1, hidden, bias=True), *_matrix("colbert_linear", hidden, hidden, bias=True)
    )


def _splade(config: ConfigView) -> Structure:
    """BERT with its masked-word head: one weight a word of the vocabulary."""
    builder = find_builder("bert")
    if builder is None:
        raise LookupError("bert")
    return builder(config.replaced(architectures=["BertForMaskedLM"]))


BUILDERS: dict[str, Builder] = {
    "Qwen2ForProcessRewardModel": _qwen2_reward(2),
    "Qwen2ForRewardModel": _qwen2_reward(1),
    "InternLM2ForRewardModel": _one_value("internlm2"),
    "GPT2ForSequenceClassification": _classifier("gpt2"),
    "JambaForSequenceClassification": _classifier("jamba"),
    # vLLM makes a classifier of any decoder (models/adapters.py, as_seq_cls_model): those that are published
    "Qwen2ForSequenceClassification": _classifier("qwen2"),
    "Qwen3ForSequenceClassification": _classifier("qwen3"),
    "LlamaForSequenceClassification": _classifier("llama"),
    "MistralForSequenceClassification": _classifier("mistral"),
    "GemmaForSequenceClassification": _classifier("gemma"),
    "Gemma2ForSequenceClassification": _classifier("gemma2"),
    "LlamaBidirectionalModel": _bidirectional("llama"),
    "LlamaBidirectionalForSequenceClassification": _bidirectional("llama", scored=True),
    "Lfm2BidirectionalModel": _headless("lfm2"),
    "DeepseekV3BidirectionalModel": _headless("deepseek_v3"),
    "VoyageQwen3BidirectionalEmbedModel": _bidirectional("qwen3", scored=True),
    "HF_ColBERT": _colbert("bert"),
    "ColBERTModernBertModel": _colbert("modernbert"),
    "ColBERTJinaRobertaModel": _colbert("jina_embeddings_v3"),
    "ColBERTLfm2Model": _colbert("lfm2"),
    "ColQwen3": _late_vision("qwen3_vl"),
    "OpsColQwen3Model": _late_vision("qwen3_vl"),
    "Qwen3VLNemotronEmbedModel": _late_vision("qwen3_vl"),
    "ColQwen3_5": _late_vision("qwen3_5"),
    "JinaForRanking": _jina_ranking,
    "BgeM3EmbeddingModel": _bge_m3,
    "BertSpladeSparseEmbeddingModel": _splade,
}
