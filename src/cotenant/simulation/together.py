"""Policies under which every replica of a plan keeps its place: what they share, and what that costs.

static: each replica has its own KV cache, and processes take turns on their cards. elastic: replicas lend each
other KV cache (kvcached, Prism), so that a burst of one model takes what the others do not need. spatial: elastic,
and processes share multiprocessors instead of taking turns (MuxServe), so that a model that decodes hardly slows
one that reads prompts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cotenant.domain.conditions import USUAL, Conditions
from cotenant.policy.ledger import blocks_of
from cotenant.policy.sharing import ALONE, SLICES, SPATIAL
from cotenant.simulation.caching import CachingReplica
from cotenant.simulation.costs import FS_PER_S, StepCosts
from cotenant.simulation.host_copies import HostCopies
from cotenant.simulation.hosting import Hosting
from cotenant.simulation.kernel import Host
from cotenant.simulation.load import Requests
from cotenant.simulation.pool import Borrower, Pool
from cotenant.simulation.replica import Replica

TOGETHER = ("static", "elastic", "spatial")
"""Policies that run a plan as it stands."""


def cross_cost(policy: str) -> int:
    """Per mille of its turn that a neighbour's step of the other kind costs."""
    return SPATIAL if policy == "spatial" else SLICES


def hosts_of(
    policy: str, works: Sequence[Requests], hostings: Sequence[Hosting], conditions: Conditions = USUAL
) -> list[Host]:
    """One host for each hosting, with the requests of its model; `conditions` say who gives way, and how."""
    replicas = _lending(works, hostings) if policy in ("elastic", "spatial") else _apart(works, hostings)
    for replica, one in zip(replicas, hostings, strict=True):
        replica.preempts_cheapest = conditions.preempt == "cheapest"
        if conditions.swap_bytes is not None:
            replica.copies = _copies(one, conditions.swap_bytes)
    return [Host(replica, one.cards) for replica, one in zip(replicas, hostings, strict=True)]


def _apart(works: Sequence[Requests], hostings: Sequence[Hosting]) -> list[Replica]:
    """Each with its own KV cache."""
    return [kind_of(work, one)(work, one.limits, one.costs) for work, one in zip(works, hostings, strict=True)]


def _lending(works: Sequence[Requests], hostings: Sequence[Hosting]) -> list[Replica]:
    """All of them take blocks of what their cards have together."""
    pool = Pool(_capacity(hostings), [_borrower(one) for one in hostings])
    found = []
    for work, one, share in zip(works, hostings, pool.borrowers, strict=True):
        most = min(pool.capacity_bytes[card] for card in one.cards) // share.block_bytes
        limits = replace(one.limits, num_blocks=max(one.limits.num_blocks, most))
        found.append(Replica(work, limits, _whole(one.costs), pool=pool, share=share))
    return found


def kind_of(work: Requests, one: Hosting) -> type[Replica]:
    """With a prefix cache where the requests say what they share and the engine keeps it."""
    return CachingReplica if work.prefixes is not None and one.prefix_caching else Replica


def _capacity(hostings: Sequence[Hosting]) -> dict[object, int]:
    """KV cache of each card: what the plan grants its replicas there, together."""
    found: dict[object, int] = {}
    for one in hostings:
        for card in one.cards:
            found[card] = found.get(card, 0) + one.limits.num_blocks * _block_bytes(one)
    return found


def _copies(one: Hosting, space_bytes: int) -> HostCopies:
    """Each rank moves its own part of a block over its own link, all of them at once."""
    block_fs = round(_block_bytes(one) / one.link_rate * FS_PER_S)
    return HostCopies(space_bytes // _block_bytes(one), block_fs // ALONE * ALONE)


def _block_bytes(one: Hosting) -> int:
    return max(1, one.kv_cache_bytes // one.limits.num_blocks)


def _borrower(one: Hosting) -> Borrower:
    """It is promised one sequence of its longest, so that it can always go on."""
    floor = min(one.limits.num_blocks, blocks_of(one.limits.max_model_len, one.limits.block_size))
    return Borrower(one.cards, _block_bytes(one), floor)


def _whole(costs: StepCosts) -> StepCosts:
    """In whole thousands of femtoseconds, so that parts of a turn are whole."""
    return costs.each(lambda cost: cost // ALONE * ALONE)
