"""What must be free when an engine starts that counts what others hold as its own.

Some engines are told a fraction of the whole card and hold it against all in use (TGI, vLLM 0.8 to 0.9.1), or one
of what is free (TensorRT-LLM): beside others they are told a larger one (`launch.told_beside`), and there is none
beyond 1. Then what they must find when they start is more than what they claim, and counts as their load peak: the
rule of `loading` is the same for both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import floor

from cotenant.domain.engine import EngineSettings
from cotenant.domain.fleet import GpuOffer, ModelRequest
from cotenant.domain.gpu import GpuSpec
from cotenant.engines import find_engine
from cotenant.engines.rules import Base
from cotenant.errors import UnsupportedError
from cotenant.estimation.memory import estimate_memory
from cotenant.planning.launch import served_as, told_beside
from cotenant.planning.problem import Candidate
from cotenant.units import MIB

_STEP = 16 * MIB  # how finely the room is known: no more than this of a card is given away


def counts_others(engine: str, gpu: GpuSpec, settings: EngineSettings) -> bool:
    """Whether what others hold changes what the engine must be told."""
    one, version = find_engine(engine)
    rules = one.rules(version, gpu)
    if rules.allocate is not None or settings.kv_cache_tokens is not None:
        return False
    if settings.kv_cache_memory_bytes is not None:
        return False
    return rules.pool.base is not Base.CARD or rules.runtime.others_in_budget


def startable(one: Candidate, request: ModelRequest, offer: GpuOffer, headroom: float) -> Candidate:
    """The way with all that it must find free when it starts as its load peak, wherever it stands in the order."""
    if not counts_others(request.engine, offer.gpu, one.settings):
        return one
    needed = free_at_start(
        offer, headroom, one.claim_bytes, lambda earlier: _starts(one, request, offer, earlier)
    )  # fmt: skip
    return replace(one, load_peak_bytes=needed) if needed > one.load_peak_bytes else one


def free_at_start(offer: GpuOffer, headroom: float, claim_bytes: int, starts: Callable[[int], bool]) -> int:
    """What must be free for it; 0 where it `starts` beside all that its claim leaves room for."""
    capacity = offer.gpu.cuda_bytes.value
    most = max(0, floor(capacity * (1 - headroom)) - offer.used_bytes - claim_bytes)
    earlier = most_before(starts, most)
    return 0 if earlier == most else capacity - offer.used_bytes - earlier


def most_before(starts: Callable[[int], bool], most: int) -> int:
    """The most bytes of others, `most` at the highest, beside which it `starts`; it does beside none."""
    if starts(most):
        return most
    low, high = 0, most
    while high - low > _STEP:
        middle = (low + high) // 2
        low, high = (middle, high) if starts(middle) else (low, middle)
    return low


def _starts(one: Candidate, request: ModelRequest, offer: GpuOffer, earlier: int) -> bool:
    """Whether it starts for sure beside so many bytes with a pool that most likely holds what its traffic needs:
    what `check` asks."""
    engine, version = find_engine(request.engine)
    settings = told_beside(request, offer, one.format, one.settings, request.engine, earlier)
    try:
        found = estimate_memory(
            request.model, offer.gpu, settings, engine=engine, version=version,
            format=served_as(request, one.format, offer.gpu).format, used_bytes=offer.used_bytes + earlier,
            model_path=one.checkpoint,
        )  # fmt: skip
    except UnsupportedError:
        return False
    return found.fits and found.holds(one.demand.kv_needed_bytes)
