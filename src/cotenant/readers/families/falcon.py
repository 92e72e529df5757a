"""TII's Falcon 1 and 2 (Falcon 3 is a Llama; Mamba and H1 are hybrids)."""

from __future__ import annotations

from cotenant.readers.blocks import Structure
from cotenant.readers.config_view import ConfigView
from cotenant.readers.decoder import Builder, dense, read_sizes


def _falcon(config: ConfigView) -> Structure:
    """One key-value head with `multi_query`, unless the newer decoder gives their number."""
    many = config.integer("num_key_value_heads", "num_kv_heads", default=1)
    newer = config.flag("new_decoder_architecture", default="num_key_value_heads" in config and many > 1)
    heads = config.integer("num_attention_heads", "n_head")
    if newer:
        kv_heads = config.integer("num_kv_heads", "n_head_kv", "num_key_value_heads", default=heads)
    else:
        kv_heads = 1 if config.flag("multi_query", default=True) else heads
    hidden = config.integer("hidden_size")
    inner = config.integer("ffn_hidden_size", default=4 * hidden)
    sizes = read_sizes(config.replaced(num_key_value_heads=kv_heads, intermediate_size=inner), tied=True)
    parallel = config.flag("parallel_attn", default=True)
    norms = config.integer("num_ln_in_parallel_attn", default=2) if newer else 1 if parallel else 2
    bias = config.flag("bias")
    return dense(
        config, sizes=sizes, gated=False, norms=norms, norm_bias=True, qkv_bias=bias, out_bias=bias, mlp_bias=bias
    )


BUILDERS: dict[str, Builder] = {"FalconForCausalLM": _falcon, "RWForCausalLM": _falcon, "falcon": _falcon}
