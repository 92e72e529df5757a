"""The fast core: one replica from event to event. Compiled where numba is installed, plain Python where it is not.

Between two events of a decoding batch nothing is decided, so k steps are one sum in closed form:

    T(k) = k s + c B k (k - 1) / 2    s: femtoseconds of the first of them, c: of a token more, B: sequences

An event is the first sequence to finish, a request that could join, one that gives up, a step whose blocks are not
free, or the end of the line that times are on (`costs`). Every decision is a function of `policy`. What makes
it fast:

- A sequence is known by the step at which it finishes: the tokens that it has follow, and need no upkeep. That
  step and its slot are one number, so that the least of them says who finishes next.
- B sequences with C tokens hold at most (C + B (size - 1)) / size blocks. Only where that is more than the pool
  has, or more than was ever held, are blocks counted, sequence by sequence.
- The clock is femtoseconds since `base`, a whole nanosecond; only moments that are written down are divided.

`build` is one loop whose thirty numbers all of its parts read and write. What is done seldom, or can be said in
few of them, stands in `core_steps`; admission and the clock stay here, since they would hand over a dozen each.
"""

from __future__ import annotations

from typing import Any

from cotenant.policy.admission import can_serve, chunk_tokens, may_join
from cotenant.policy.ledger import blocks_of
from cotenant.simulation import core_steps
from cotenant.simulation.core_steps import (
    ADMIT,
    FAR_NS,
    NOBODY,
    REFUSED,
    UNFINISHED,
    alike,
    fs_left,
    fs_until,
    give_up,
    held_by_all,
    join,
    least,
    leave,
    make_blocks,
    note,
    pop,
    push,
    rank_by,
    unfinished,
)  # fmt: skip
from cotenant.simulation.costs import FS_PER_NS, line_at, step_of, steps_along
from cotenant.simulation.load import NEVER

_LONG_FS = 2 * 10**18  # then the clock starts anew, so that no sum leaves 64 bits

USED = (*core_steps.USED, can_serve, may_join, line_at, step_of, steps_along)
"""What the core calls: compiled along with it."""


def build(stamp: int, block_size: int = 0) -> Any:
    """The core. `stamp` stands for the code of all that it calls: a compiler's cache knows it by that.

    With `block_size` it serves replicas of that size alone, and divides by it as fast as by any constant.
    """

    def core(
        arrival: Any, inputs: Any, outputs: Any, by_rank: Any, rank_of: Any, in_order: bool,
        cancel: Any, cancel_order: Any, limits: Any, costs: Any, until: int,
        status: Any, first: Any, has_first: Any, finish: Any, generated: Any, room: Any, log: Any, stats: Any,
    ) -> int:  # fmt: skip
        """Fill `status`, `first`, `has_first`, `finish`, `log`, `stats`; the number of events. Times in ns.

        Steps that end after `until` give nothing. `in_order`: ranks are the requests' own numbers (first come,
        first served). `cancel_order`: who gives up, by time. `stats`: preemptions, steps, busy ns, end ns, most
        blocks held.
        """
        max_num_seqs, max_tokens, num_blocks, longest = limits[0], limits[1], limits[3], limits[4]
        size = block_size if block_size > 0 else limits[2]
        queue, joined, joined_has, keys = room[0], room[1], room[2], room[4]
        count, givers = len(arrival), len(cancel_order)
        bits = 1
        while (1 << bits) <= max_num_seqs:
            bits += 1
        for request in range(count):
            served = can_serve(inputs[request], outputs[request], longest, size, num_blocks)
            if not served and arrival[request] <= until:
                status[request] = REFUSED
        zero = stamp * 0  # to the compiler a number, not the literal 0, for which it would compile all calls anew
        base, rest, began = zero, zero, zero  # the clock: ns, fs since then, and how many of those are counted
        busy_ns, busy_rest, last_ns = zero, zero, zero
        step, events, preemptions, most = zero, zero, zero, zero
        sequences, context, next_key = zero, zero, zero + NEVER
        reader, read, known = zero + NOBODY, zero, zero
        slack, whole = size - 1, num_blocks * size
        spare = whole - max_tokens - slack * (max_num_seqs + 1)  # with fewer tokens no step can lack a block
        place, giver, queued = unfinished(status, zero), zero, zero
        next_fs, until_fs = fs_until(arrival, place, base), fs_left(until, base)
        while True:
            idle = sequences == 0 and reader == NOBODY and queued == 0 and next_fs > rest
            if idle and (place == count or arrival[place] > until):
                break
            if idle or rest > _LONG_FS:
                # the clock starts anew, where nobody is left at the next arrival
                if rest > began:
                    last_ns = base + rest // FS_PER_NS
                    busy_rest += rest - began
                    busy_ns += busy_rest // FS_PER_NS
                    busy_rest %= FS_PER_NS
                if idle:
                    base, rest = arrival[place], zero
                else:
                    base += rest // FS_PER_NS
                    rest %= FS_PER_NS
                began = rest
                next_fs, until_fs = fs_until(arrival, place, base), fs_left(until, base)
            # the moment between two steps: who has arrived, who has given up
            while not in_order and next_fs <= rest:
                push(queue, queued, rank_of[place])
                queued += 1
                place = unfinished(status, place + 1)
                next_fs = fs_until(arrival, place, base)
            if givers > 0:
                giver, events, sequences, context, reader, read = give_up(
                    inputs, outputs, cancel, cancel_order, giver, status, finish, room, bits, log, events, step,
                    base + rest // FS_PER_NS, sequences, context, reader, read,
                )  # fmt: skip
                while queued > 0 and status[rank_by(by_rank, in_order, queue[0])] != UNFINISHED:
                    pop(queue, queued)
                    queued -= 1
                place = unfinished(status, place)
                next_fs = fs_until(arrival, place, base)
                next_key = least(keys, sequences)
                if sequences == 0 and reader == NOBODY and queued == 0 and next_fs > rest:
                    continue

            # blocks for those that run, and the prompt that was begun goes on
            free, preempted, tokens, squares, joins = num_blocks, zero, zero, zero, zero
            cached = context + read
            if cached > spare:
                free, preempted, tokens, events, sequences, context, reader, read, queued = make_blocks(
                    inputs, outputs, rank_of, in_order, generated, room, bits, size, num_blocks, max_tokens,
                    log, events, step, base + rest // FS_PER_NS, sequences, context, reader, read, known, queued,
                )  # fmt: skip
                if preempted > 0:
                    preemptions += preempted
                    next_key = least(keys, sequences)
                cached = context + read
            elif reader != NOBODY:
                tokens = chunk_tokens(known - read, max_tokens - sequences)
            running = sequences
            if reader != NOBODY:
                running += 1
                squares = (read + tokens) * (read + tokens) - read * read
                read += tokens
                if read == known:
                    joined[0], joined_has[0] = reader, known
                    joins, reader, read = zero + 1, zero + NOBODY, zero
            else:
                tokens = zero

            # the first of the queue joins, and again, as long as it may
            blocked = False
            budget = max_tokens - sequences - tokens
            while True:
                if queued > 0:
                    request = rank_by(by_rank, in_order, queue[0])
                    has = inputs[request] + generated[request]
                elif in_order and next_fs <= rest:
                    request, has = place, inputs[place]
                else:
                    break
                chunk = chunk_tokens(has, budget)
                blocks = blocks_of(chunk, size)
                if not may_join(running, max_num_seqs, budget, blocks, free, preempted):
                    blocked = True
                    break
                if queued > 0:
                    pop(queue, queued)
                    queued -= 1
                    while givers > 0 and queued > 0 and status[rank_by(by_rank, in_order, queue[0])] != UNFINISHED:
                        pop(queue, queued)
                        queued -= 1
                else:
                    place = unfinished(status, place + 1)
                    next_fs = fs_until(arrival, place, base)
                events = note(log, events, step, base + rest // FS_PER_NS, ADMIT, request)
                running += 1
                free -= blocks
                budget -= chunk
                tokens += chunk
                squares += chunk * chunk
                if chunk == has:
                    joined[joins], joined_has[joins] = request, has
                    joins += 1
                else:
                    reader, read, known = request, chunk, has

            # how many steps like this one
            first_fs, growth_fs, holds = step_of(costs, 0, sequences, context, tokens, squares)
            growth_fs *= sequences
            steps = zero + 1
            if tokens == 0 and preempted == 0:
                stop_fs = NEVER
                if sequences < max_num_seqs and budget > 0 and not (in_order and blocked):
                    stop_fs = next_fs
                while giver < givers and status[cancel_order[giver]] != UNFINISHED:
                    giver += 1
                if giver < givers:
                    stop_fs = min(stop_fs, min(cancel[cancel_order[giver]] - base, FAR_NS) * FS_PER_NS)
                steps = alike(
                    inputs, outputs, room, bits, size, num_blocks, step, sequences, context, next_key, holds,
                    first_fs, growth_fs, stop_fs - rest, until_fs - rest,
                )  # fmt: skip
            if cached + tokens + sequences * (steps - 1) + slack * running > most * size:
                found = held_by_all(inputs, outputs, room, bits, size, step + steps - 1, sequences, read, joins)
                most = max(most, found)
            took = steps * first_fs + growth_fs * (steps * (steps - 1) // 2)
            if took > until_fs - rest:
                busy_rest += took
                break
            rest += took
            step += steps
            context += sequences * steps

            # every sequence gets its tokens; whoever has all leaves
            if next_key >> bits == step:
                events, sequences, context, next_key = leave(
                    inputs, outputs, status, finish, room, bits, log, events, step, base + rest // FS_PER_NS,
                    sequences, context, next_key,
                )  # fmt: skip
            if joins > 0:
                events, sequences, context, next_key = join(
                    inputs, outputs, status, first, has_first, finish, room, bits, joins, log, events, step,
                    base + rest // FS_PER_NS, sequences, context, next_key,
                )  # fmt: skip
        if rest > began:
            last_ns = base + rest // FS_PER_NS
        busy_ns += (busy_rest + rest - began) // FS_PER_NS
        stats[0], stats[1], stats[2], stats[3], stats[4] = preemptions, step, busy_ns, last_ns, most
        return events

    return core
