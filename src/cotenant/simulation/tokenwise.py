"""A fleet's models pooled on all of its cards, token by token: `pooled` for a plan's replicas and their traffic.

token: cards that read prompts and cards that decode in fixed turns (Aegaeon). token-urgent: turns end where
another model's next token is due. Every model can run on every card, so cards must be of one type and models fit
one each.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cotenant.domain.plan import Plan
from cotenant.domain.workload import Slo
from cotenant.engines.sleeping import SLEEP_1
from cotenant.errors import UnsupportedError
from cotenant.simulation.costs import FS_PER_S
from cotenant.simulation.hosting import Hosting
from cotenant.simulation.load import Ints, Outcome, Requests, Status
from cotenant.simulation.pooled import Pool, PooledModel, PooledRequest, Pooling
from cotenant.units import plural

TOKENWISE = ("token", "token-urgent")
_READERS = 3 / 8  # of the cards, as Aegaeon shares out sixteen
_UNIT_S, _NS = 1e-6, 1000


def check_pool(policy: str, plan: Plan, hostings: Sequence[Hosting], closed: bool, idle: int = 0) -> int:
    """How many cards there are to share, `idle` ones among them.

    Raises UnsupportedError where models cannot be pooled on them.
    """
    cards = max(idle, len({(gpu.device.node, gpu.device.index) for gpu in plan.gpus}))
    if closed:
        raise UnsupportedError(
            f"{policy}: models that are pooled token by token need requests a second or a trace",
            hint="give requests_per_second in place of concurrent",
        )
    wide = [one.id for one in hostings if len(one.cards) > 1]
    if wide:
        raise UnsupportedError(
            f"{policy}: {wide[0]} needs several cards, so it cannot be pooled with the others on one"
        )
    if cards < 2 or len({gpu.device.type for gpu in plan.gpus}) > 1:
        raise UnsupportedError(
            f"{policy} pools at least two cards of one type, and the plan has {plural(cards, 'card')} of"
            f" {plural(len({gpu.device.type for gpu in plan.gpus}), 'type')}",
            hint="swap and elastic share single cards",
        )
    return cards


def serve(
    policy: str, cards: int, works: Sequence[Requests], hostings: Sequence[Hosting], slos: Sequence[Slo | None],
    until_s: float,
) -> list[Outcome]:  # fmt: skip
    """What becomes of each model's requests; one hosting a model says how it runs on a card. A model is busy for
    its share of all the cards' time."""
    pooling = _pooling(policy, cards, hostings, slos)
    pool = Pool([_model(one) for one in hostings], pooling)
    requests = [
        [PooledRequest(number, model, arrival // _NS, given, written)
         for number, (arrival, given, written) in enumerate(zip(
             work.arrival_ns.tolist(), work.input_tokens.tolist(), work.output_tokens.tolist(), strict=True))]
        for model, work in enumerate(works)
    ]  # fmt: skip
    fits = [
        one for own in requests for one in own if one.given + one.written <= pool.models[one.model].cache_tokens
    ]
    pool.run(fits, until=pool.units(until_s))
    served = {id(one) for one in fits}
    return [
        _outcome(own, [id(one) in served for one in own], pool.busy[model] // cards, pool.now)
        for model, own in enumerate(requests)
    ]


def _pooling(policy: str, cards: int, hostings: Sequence[Hosting], slos: Sequence[Slo | None]) -> Pooling:
    """The strictest targets count; without any, Aegaeon's: 10 s to the first token, 0.1 s between tokens."""
    readers = min(cards - 1, max(1, round(cards * _READERS)))
    first = [slo.ttft_s for slo in slos if slo is not None and slo.ttft_s is not None]
    each = [slo.tpot_s for slo in slos if slo is not None and slo.tpot_s is not None]
    token = max(one.kv_cache_bytes / (one.limits.num_blocks * one.limits.block_size) for one in hostings)
    return Pooling(
        prefills=readers, decodes=cards - readers, ttft_s=min(first, default=10.0), tpot_s=min(each, default=0.1),
        move_s=token / hostings[0].link_rate, patience_s=1e7, unit_s=_UNIT_S, urgent=policy == "token-urgent",
    )  # fmt: skip


def _model(one: Hosting) -> PooledModel:
    costs, most = one.costs, one.limits.max_num_batched_tokens
    return PooledModel(
        prefill_s=lambda tokens: costs.read(tokens, most) / FS_PER_S,
        decode_s=lambda sequences, context: costs.step(sequences, context, 0, 0) / FS_PER_S,
        switch_s=one.swap_s[SLEEP_1][1],
        cache_tokens=one.limits.num_blocks * one.limits.block_size,
    )


def _outcome(own: Sequence[PooledRequest], served: Sequence[bool], busy: int, end: int) -> Outcome:
    done = [one.done for one in own]
    status = np.where(done, int(Status.FINISHED), np.where(served, int(Status.UNFINISHED), int(Status.REFUSED)))
    return Outcome(
        status=status.astype(np.int64),
        first_token_ns=_column([one.tokens[0] if one.tokens else 0 for one in own]),
        has_first=np.array([bool(one.tokens) for one in own], np.bool_),
        finish_ns=_column([one.tokens[-1] if one.done else 0 for one in own]),
        preemptions=0,
        steps=sum(len(one.tokens) for one in own),
        busy_ns=busy * _NS,
        end_ns=end * _NS,
        kv_high_water_blocks=0,
        log=np.zeros((0, 4), np.int64),
    )


def _column(units: Sequence[int]) -> Ints:
    return np.array(units, np.int64) * _NS
