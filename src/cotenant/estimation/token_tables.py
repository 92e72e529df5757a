"""How many requests SGLang's table of token numbers has rows for.

    told       max_running_requests, split between copies of attention
    not told   int(tokens of the pool / context x 512), at least 2,048 and at most 4,096 (5,120 before 0.3)
    states     no more than a third of those that their pool holds (MAMBA_CACHE_SIZE_MAX_RUNNING_REQUESTS_RATIO)

(model_executor/model_runner.py, init_memory_pool; since 0.5.12 _resolve_max_num_reqs.)
"""

from __future__ import annotations

from math import ceil

from cotenant.domain.engine import EngineSettings
from cotenant.domain.interval import Interval
from cotenant.domain.model import AttentionKind
from cotenant.engines.rules import MemoryRules
from cotenant.estimation.kv_cache import CacheLayout

_TOKENS_A_ROW = 512  # of a context: 4 contexts make 2,048 rows


def table_slots(
    settings: EngineSettings, layout: CacheLayout, rules: MemoryRules, room: Interval, stage: int = 0
) -> Interval:
    """Rows of the table. `room`: bytes of a card that its weights leave, the most that a pool could be."""
    least, most = rules.runtime.default_slots
    asked = settings.max_num_seqs or least
    if asked != least:
        found = Interval(min(asked // settings.data_parallel_size, least), min(asked, most), min(asked, most))
    else:
        tokens = (
            max(0, room.high) * layout.groups[0].block_size / layout.block_bytes[stage] if layout.groups else 0
        )
        longest = ceil(_TOKENS_A_ROW * tokens / (settings.max_model_len or 1))
        found = Interval(least, least, max(least, min(longest, most)))
    state = sum(round(g.needed(1, stage)) for g in layout.groups if g.kind is AttentionKind.RECURRENT)
    if not state:
        return found
    ratio = rules.cache.state_ratio
    share = ratio / (1 + ratio) if layout.token_bytes(stage) else 1.0
    held = [int(max(0, size) * share / (state * rules.cache.state_blocks)) for size in (room.value, room.high)]
    return Interval(0, min(found.value, held[0]), min(found.high, held[1]))
