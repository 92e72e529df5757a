"""What a replica's state means for best fit with slack: queued reading, slack, its next step, its peak."""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.policy.best_fit import fits, fullness, slack
from cotenant.policy.ledger import blocks_of
from cotenant.simulation.costs import FS_PER_NS
from cotenant.simulation.replica import Replica

ENDLESS = 10**30  # femtoseconds: no target


@dataclass(frozen=True, slots=True)
class Targets:
    """An SLO in femtoseconds (ENDLESS: none), and how long answers are on average: what is known when a request
    comes."""

    ttft_fs: int = ENDLESS
    tpot_fs: int = ENDLESS
    output_tokens: int = 1


NO_TARGETS = Targets()


def fullness_of(replica: Replica) -> int:
    """How full it is, by sequences and by cache."""
    tokens = sum(one.known for one in replica.running) + sum(replica.size_of(one) for _, one in replica.waiting)
    limits = replica.limits
    return fullness(replica.load, limits.max_num_seqs, tokens, limits.num_blocks * limits.block_size)


def can_take(replica: Replica, request: int, targets: Targets, now_fs: int, rest_fs: int) -> bool:
    """Whether the request fits, `rest_fs` being what is left of the step in progress."""
    limits, costs = replica.limits, replica.costs
    own = replica.size_of(request)
    queued = [replica.size_of(one) for _, one in replica.waiting]
    begun = [one.known - one.computed for one in replica.running if not one.decoding]
    decoding = [one for one in replica.running if one.decoding]
    unread = [replica.reads_of(one) for _, one in replica.waiting]
    read = rest_fs + sum(_reading(replica, tokens) for tokens in (*unread, *begun, own))
    held = sum(one.known for one in decoding)
    step = costs.step(len(decoding) + 1, held + own, 0, 0)
    stall = _reading(replica, own)
    spare = min((_slack(replica, one.request, one.known, targets, now_fs) for one in decoding), default=ENDLESS)
    longest = [_longest(replica, one.request, one.known, targets) for one in replica.running]
    longest += [size + targets.output_tokens for size in (*queued, own)]
    peak = sum(blocks_of(tokens - 1, limits.block_size) for tokens in longest)
    slots = replica.load < limits.max_num_seqs
    return slots and fits(read, targets.ttft_fs, stall, spare, step, targets.tpot_fs, peak, limits.num_blocks)


def _reading(replica: Replica, tokens: int) -> int:
    """Femtoseconds that a prompt takes in chunks by itself."""
    return replica.costs.read(tokens, replica.limits.max_num_batched_tokens)


def _slack(replica: Replica, request: int, known: int, targets: Targets, now_fs: int) -> int:
    if targets.tpot_fs >= ENDLESS:
        return ENDLESS
    written = known - replica.prompt_of(request)
    return slack(written, targets.tpot_fs, now_fs - replica.first_ns(request) * FS_PER_NS)


def _longest(replica: Replica, request: int, known: int, targets: Targets) -> int:
    return max(known + 1, replica.prompt_of(request) + targets.output_tokens)
