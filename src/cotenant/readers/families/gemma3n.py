"""Gemma 3n: AltUp streams, LAuReL residuals, per-layer inputs, a MobileNet for eyes and a conformer for ears.

Checkpoints also store key and value projections of the layers that reuse a cache; engines do not load them.
"""

from __future__ import annotations

from cotenant.domain.model import Role, Split
from cotenant.readers.blocks import Structure, gated_mlp, linear, norm, vocabulary
from cotenant.readers.config_view import ConfigView
from cotenant.readers.decoder import Builder, Sizes, layer_windows, read_sizes, structure
from cotenant.readers.families.gemma4 import conformer, gemma_attention, per_layer_inputs, subsampling
from cotenant.readers.vision import matrix, whole


def _kinds(config: ConfigView, sizes: Sizes, window: int) -> list[bool]:
    """Whether each layer slides; without `layer_types` four of five do (Gemma 3n), the last being full."""
    return [item is not None for item in layer_windows(config, sizes.count, pattern=5, default=window)]


def _gemma3n_text(config: ConfigView) -> Structure:
    """AltUp (four streams), LAuReL (a low-rank residual), per-layer inputs; the last layers reuse a cache."""
    widths = config.raw("intermediate_size")
    if isinstance(widths, list):
        values = set(config.integers("intermediate_size", least=1, most=2**20))
        if len(values) != 1:
            config.fault("intermediate_size", "differs from layer to layer, which no rule covers")
        config = config.replaced(intermediate_size=min(values, default=1))
    sizes = read_sizes(config.with_defaults(head_dim=256), tied=True)
    hidden, layers = sizes.hidden, sizes.layers
    shared = config.integer("num_kv_shared_layers", default=15, least=0, most=sizes.count - 1 or 1)
    streams = config.integer("altup_num_inputs", default=4, most=64)
    rank = config.integer("laurel_rank", default=64)
    attending, caches = gemma_attention(
        config, sizes, _kinds(config, sizes, 512), shared, shared_projections=False
    )
    groups = vocabulary(sizes.vocab, hidden, tied=sizes.tied) + norm("norm", hidden) + attending
    groups += gated_mlp(layers, hidden, sizes.inner) + norm("layernorm", hidden, layers=layers, copies=4)
    groups += per_layer_inputs(config.with_defaults(vocab_size_per_layer_input=262_144), sizes, 256)
    for name, outputs, inputs in (
        ("altup.correction", streams, streams), ("altup.prediction", streams * streams, streams),
        ("altup.router", streams, hidden), ("laurel.left", rank, hidden), ("laurel.right", hidden, rank),
    ):  # fmt: skip
        groups += linear(name, outputs, inputs, role=Role.OTHER, layers=layers, split=Split.NONE)
    groups += norm("altup_and_laurel", hidden, layers=layers, copies=3)
    groups += linear(
        "altup_projections", hidden, hidden, role=Role.OTHER, split=Split.NONE, copies=2 * (streams - 1)
    )
    return structure(sizes, groups, caches)


_MOBILENET_V5 = 294_126_912  # parameters of timm's mobilenetv5_300m_enc, the only tower that Gemma 3n has


def _gemma3n(config: ConfigView) -> Structure:
    text = _gemma3n_text(config.text_section())
    out = text.hidden_size
    vision, audio = config.section("vision_config"), config.section("audio_config")
    groups = whole("vision.mobilenet_v5", _MOBILENET_V5)
    for name, view, width in (("vision", vision, 2048), ("audio", audio, 1536)):
        inputs = view.integer("hidden_size", default=width, most=2**20)
        rows = view.integer("vocab_size", default=128, most=2**20)
        groups += whole(f"embed_{name}", rows, inputs) + whole(f"embed_{name}.norms", inputs, copies=2)
        groups += matrix(f"embed_{name}.projection", out, inputs, bias=False)
    hidden = audio.integer("hidden_size", default=1536, most=2**20)
    depth = audio.integer("conf_num_hidden_layers", default=12, most=10_000)
    heads = audio.integer("conf_num_attention_heads", default=8, most=2**14)
    groups += subsampling(audio, hidden)
    groups += conformer(hidden, depth, max(1, hidden // heads), audio.integer("conf_conv_kernel_size", default=5))
    return text.extended(*groups, modalities=("text", "image", "audio"))


BUILDERS: dict[str, Builder] = {
    "Gemma3nForCausalLM": _gemma3n_text,
    "gemma3n_text": _gemma3n_text,
    "Gemma3nForConditionalGeneration": _gemma3n,
    "gemma3n": _gemma3n,
}
