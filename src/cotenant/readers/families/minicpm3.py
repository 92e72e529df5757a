"""MiniCPM3: latent projections, but whole keys and values in the cache."""

from __future__ import annotations

from cotenant.readers.blocks import Structure, cache_groups, gated_mlp, norm, vocabulary
from cotenant.readers.config_view import ConfigView
from cotenant.readers.decoder import Builder, read_sizes, structure
from cotenant.readers.families.deepseek import mla


def _minicpm3(config: ConfigView) -> Structure:
    """vLLM caches every head at the width of the query's (nope + rope), values padded to it."""
    sizes = read_sizes(config, tied=True)
    width = config.integer("qk_nope_head_dim") + config.integer("qk_rope_head_dim")
    groups = vocabulary(sizes.vocab, sizes.hidden, tied=sizes.tied) + norm("norm", sizes.hidden)
    groups += mla(config, sizes, sizes.layers) + gated_mlp(sizes.layers, sizes.hidden, sizes.inner)
    groups += norm("layernorm", sizes.hidden, layers=sizes.layers, copies=2)
    return structure(sizes, groups, cache_groups([None] * sizes.count, sizes.heads, sizes.heads, width))


BUILDERS: dict[str, Builder] = {"MiniCPM3ForCausalLM": _minicpm3, "minicpm3": _minicpm3}
