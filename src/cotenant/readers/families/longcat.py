"""Meituan's LongCat-Flash: two latent attentions and two MLPs a layer beside experts, some of which do nothing."""

from __future__ import annotations

from dataclasses import replace

from cotenant.readers.blocks import Structure, experts, gated_mlp, latent_cache, norm, router, vocabulary
from cotenant.readers.config_view import ConfigView
from cotenant.readers.decoder import Builder, read_sizes, structure
from cotenant.readers.families.deepseek import mla


def _longcat(config: ConfigView) -> Structure:
    """`zero_expert_num` experts pass their input through: the router scores them, they have no weights."""
    sizes = read_sizes(config.replaced(num_key_value_heads=None, head_dim=config.raw("v_head_dim")))
    count, inner = config.integer("n_routed_experts"), config.integer("expert_ffn_hidden_size")
    idle = config.integer("zero_expert_num", default=0, least=0, most=2**14)
    twice = mla(config, sizes, sizes.layers) + gated_mlp(sizes.layers, sizes.hidden, sizes.inner)
    twice += norm("layernorm", sizes.hidden, layers=sizes.layers, copies=2)
    groups = tuple(replace(group, copies=2 * group.copies) for group in twice)
    groups += vocabulary(sizes.vocab, sizes.hidden, tied=sizes.tied) + norm("norm", sizes.hidden)
    groups += router(sizes.layers, sizes.hidden, count + idle, correction=True)
    groups += experts(sizes.layers, sizes.hidden, inner, count)
    ranks = config.integer("kv_lora_rank"), config.integer("qk_rope_head_dim")
    caches = (latent_cache(sizes.layers, sizes.heads, *ranks),) * 2  # one for each attention of a layer
    active = config.integer("moe_topk", default=12)
    return structure(sizes, groups, caches, num_experts=count, experts_per_token=active)


BUILDERS: dict[str, Builder] = {
    "LongcatFlashForCausalLM": _longcat,
    "LongcatCausalLM": _longcat,
    "longcat_flash": _longcat,
}
