"""The fast core: one replica from event to event. Compiled where numba is installed, plain Python where it is not.

Between two events of a decoding batch nothing is decided, so k steps are one sum in closed form:

    T(k) = k s + per_context_token B k (k - 1) / 2        s: femtoseconds of the first of them, B: sequences

An event is the first sequence to finish, a request that could join, one that gives up, or a step whose blocks are
not free (found from a count of sequences for each position in a block). Every decision is a function of `policy`.
A sequence is known by the step at which it finishes: the tokens that it has follow, and need no upkeep.
"""

from __future__ import annotations

from math import sqrt
from typing import Any

from cotenant.policy.admission import can_serve, chunk_tokens, may_join
from cotenant.policy.ledger import blocks_of, opened_at, opened_within, phase_of, steps_within
from cotenant.policy.preemption import must_preempt, victim
from cotenant.simulation.costs import step_fs

FS_PER_NS = 1_000_000
NEVER = 2**62
NOBODY = -1  # no request reads its prompt just now
_JUMP_FS = 4e18  # no jump is longer, so that no sum leaves 64 bits
_FAR_NS = 4_000_000_000_000
_UNFINISHED, _FINISHED, _REFUSED, _CANCELLED = 0, 1, 2, 3
_CANCEL, _PREEMPT, _ADMIT, _FIRST, _FINISH = 0, 1, 2, 3, 4


def push(heap: Any, size: int, rank: int) -> None:
    """Add to a binary heap of `size` entries."""
    child = size
    while child > 0:
        parent = (child - 1) // 2
        if heap[parent] <= rank:
            break
        heap[child] = heap[parent]
        child = parent
    heap[child] = rank


def pop(heap: Any, size: int) -> None:
    """Take the least from a binary heap of `size` entries."""
    last = heap[size - 1]
    hole = 0
    while True:
        child = 2 * hole + 1
        if child >= size - 1:
            break
        if child + 1 < size - 1 and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= last:
            break
        heap[hole] = heap[child]
        hole = child
    heap[hole] = last


def least(ends: Any, sequences: int) -> int:
    """The first step at which one of `sequences` sequences ends; NEVER without any."""
    found = NEVER
    for slot in range(sequences):
        found = min(found, ends[slot])
    return found


def note(log: Any, events: int, step: int, now_ns: int, event: int, request: int) -> int:
    """Write one row where there is room; the number of events so far."""
    if events < len(log):
        log[events, 0] = step
        log[events, 1] = now_ns
        log[events, 2] = event
        log[events, 3] = request
    return events + 1


def steps_until(wanted_fs: int, first_fs: int, growth_fs: int, most: int) -> int:
    """The least k >= 1 with T(k) >= `wanted_fs`, given that T(`most`) is; the root is only a guess."""
    half = first_fs - growth_fs / 2.0
    k = int(2.0 * wanted_fs / (half + sqrt(half * half + 2.0 * growth_fs * wanted_fs)))
    k = min(max(k, 1), most)
    while k > 1 and (k - 1) * first_fs + growth_fs * ((k - 1) * (k - 2) // 2) >= wanted_fs:
        k -= 1
    while k * first_fs + growth_fs * (k * (k - 1) // 2) < wanted_fs:
        k += 1
    return k


USED = (
    can_serve, chunk_tokens, may_join, blocks_of, opened_at, opened_within, phase_of, steps_within, must_preempt,
    victim, step_fs, push, pop, least, note, steps_until,
)  # fmt: skip
"""What the core calls: compiled along with it."""


def build(stamp: int, block_size: int = 0) -> Any:
    """The core. `stamp` stands for the code of all that it calls: a compiler's cache knows it by that.

    With `block_size` it serves replicas of that size alone, and divides by it as fast as by any constant.
    """

    def core(
        arrival: Any, inputs: Any, outputs: Any, by_rank: Any, rank_of: Any, in_order: bool,
        cancel: Any, cancel_order: Any, limits: Any, costs: Any,
        status: Any, first: Any, has_first: Any, finish: Any, generated: Any, heap: Any, log: Any, stats: Any,
    ) -> int:  # fmt: skip
        """Fill `status`, `first`, `has_first`, `finish`, `log`, `stats`; the number of events. Times in ns.

        `in_order`: ranks are the requests' own numbers (first come, first served). `cancel_order`: who gives up,
        by time. `stats`: preemptions, steps, busy fs (ns, rest), end ns, least free blocks.
        """
        max_num_seqs, max_tokens, num_blocks, longest = limits[0], limits[1], limits[3], limits[4]
        size = block_size if block_size > 0 else limits[2]
        c0, c1, c2, c3, c4, c5 = costs[0], costs[1], costs[2], costs[3], costs[4], costs[5]
        slot_request, slot_rank, slot_end, slot_phase = heap[1], heap[2], heap[3], heap[4]
        joined, queue, counts = heap[5], heap[0], heap[6]
        count, givers = len(arrival), len(cancel_order)
        for request in range(count):
            if not can_serve(inputs[request], outputs[request], longest, size, num_blocks):
                status[request] = _REFUSED
        now, rest, step, events = 0, 0, stamp * 0, 0
        busy_ns, busy_rest, last_ns = 0, 0, 0
        free, least_free = num_blocks, num_blocks
        sequences, context, next_end, preemptions = 0, 0, NEVER, 0
        reader, read, known, reader_blocks = NOBODY, 0, 0, 0
        place, giver, queued = 0, 0, 0
        while True:
            # the moment between two steps: who has arrived, who has given up
            while place < count and (status[place] != _UNFINISHED or (not in_order and arrival[place] <= now)):
                if status[place] == _UNFINISHED:
                    push(queue, queued, rank_of[place])
                    queued += 1
                place += 1
            while giver < givers and cancel[cancel_order[giver]] <= now:
                request = cancel_order[giver]
                giver += 1
                if status[request] != _UNFINISHED:
                    continue
                status[request] = _CANCELLED
                finish[request] = now
                events = note(log, events, step, now, _CANCEL, request)
                if request == reader:
                    free += reader_blocks
                    reader = NOBODY
                for slot in range(sequences):
                    if slot_request[slot] == request:
                        has = inputs[request] + outputs[request] - (slot_end[slot] - step)
                        context -= has
                        free += blocks_of(has - 1, size)
                        counts[slot_phase[slot]] -= 1
                        sequences -= 1
                        slot_request[slot], slot_rank[slot] = slot_request[sequences], slot_rank[sequences]
                        slot_end[slot], slot_phase[slot] = slot_end[sequences], slot_phase[sequences]
                        break
            if givers > 0:
                while queued > 0 and status[by_rank[queue[0]]] != _UNFINISHED:
                    pop(queue, queued)
                    queued -= 1
                while place < count and status[place] != _UNFINISHED:
                    place += 1
                next_end = least(slot_end, sequences)
            if sequences == 0 and reader == NOBODY and queued == 0 and (place == count or arrival[place] > now):
                if place == count:
                    break
                now, rest = arrival[place], 0
                continue

            # a block for each sequence whose blocks are full; the lowest in rank gives way
            preempted, grown, tokens, squares, part = 0, False, 0, 0, 0
            growth = opened_at(counts, step, size)
            wanted, chunk = growth, 0
            while True:
                if must_preempt(wanted, free):
                    running = sequences
                    if reader != NOBODY:
                        slot_rank[sequences] = rank_of[reader]
                        running += 1
                    slot = victim(slot_rank, running)
                    if slot == sequences:
                        request = reader
                        generated[request] = known - inputs[request]
                        free += reader_blocks
                        reader = NOBODY
                    else:
                        request = slot_request[slot]
                        has = inputs[request] + outputs[request] - (slot_end[slot] - step)
                        generated[request] = has - inputs[request]
                        context -= has
                        free += blocks_of(has if grown else has - 1, size)
                        counts[slot_phase[slot]] -= 1
                        sequences -= 1
                        slot_request[slot], slot_rank[slot] = slot_request[sequences], slot_rank[sequences]
                        slot_end[slot], slot_phase[slot] = slot_end[sequences], slot_phase[sequences]
                    preempted += 1
                    events = note(log, events, step, now, _PREEMPT, request)
                    push(queue, queued, rank_of[request])
                    queued += 1
                    if grown:
                        if reader == NOBODY:
                            break
                    else:
                        wanted = opened_at(counts, step, size)
                    continue
                free -= wanted
                if grown:
                    reader_blocks += wanted
                    tokens = part = chunk
                    squares = (read + chunk) * (read + chunk) - read * read
                    break
                grown = True
                if reader == NOBODY:
                    break
                # the prompt that was begun goes on
                chunk = chunk_tokens(known - read, max_tokens - sequences)
                wanted = blocks_of(read + chunk, size) - reader_blocks
            if preempted > 0:
                preemptions += preempted
                next_end = least(slot_end, sequences)

            # the first of the queue joins, and again, as long as it may
            joins, blocked = 0, False
            budget = max_tokens - sequences - tokens
            if reader != NOBODY and read + tokens == known:
                joined[0] = reader
                joins = 1
                reader = NOBODY
            while True:
                from_queue = queued > 0
                if from_queue:
                    request = by_rank[queue[0]]
                elif in_order and place < count and arrival[place] <= now:
                    request = place
                else:
                    break
                has = inputs[request] + generated[request]
                chunk = chunk_tokens(has, budget)
                blocks = blocks_of(chunk, size)
                running = sequences + joins
                if reader != NOBODY:
                    running += 1
                if not may_join(running, max_num_seqs, budget, blocks, free, preempted):
                    blocked = True
                    break
                if from_queue:
                    pop(queue, queued)
                    queued -= 1
                    while givers > 0 and queued > 0 and status[by_rank[queue[0]]] != _UNFINISHED:
                        pop(queue, queued)
                        queued -= 1
                else:
                    place += 1
                    while place < count and status[place] != _UNFINISHED:
                        place += 1
                events = note(log, events, step, now, _ADMIT, request)
                free -= blocks
                budget -= chunk
                tokens += chunk
                squares += chunk * chunk
                if chunk == has:
                    joined[joins] = request
                    joins += 1
                else:
                    reader, read, known, reader_blocks, part = request, 0, has, blocks, chunk
            least_free = min(least_free, free)

            # how many steps like this one
            first_fs = step_fs(c0, c1, c2, c3, c4, c5, sequences, context, tokens, squares)
            steps = 1
            growth_fs = c2 * sequences
            if tokens == 0 and preempted == 0:
                steps = next_end - step
                while steps > 1 and steps * (first_fs + 0.5 * growth_fs * steps) > _JUMP_FS:
                    steps //= 2
                if steps > 1:
                    steps = 1 + steps_within(counts, step + 1, steps - 1, sequences, free, size)
                if steps > 1:
                    stop = NEVER
                    if place < count and sequences < max_num_seqs and budget > 0 and not (in_order and blocked):
                        stop = arrival[place]
                    while giver < givers and status[cancel_order[giver]] != _UNFINISHED:
                        giver += 1
                    if giver < givers:
                        stop = min(stop, cancel[cancel_order[giver]])
                    if stop - now < _FAR_NS:
                        wanted_fs = (stop - now) * FS_PER_NS - rest
                        if steps * first_fs + growth_fs * (steps * (steps - 1) // 2) > wanted_fs:
                            steps = steps_until(wanted_fs, first_fs, growth_fs, steps)
                if steps > 1:
                    free -= opened_within(counts, step + 1, steps - 1, sequences, size)
                    least_free = min(least_free, free)
            took = steps * first_fs + growth_fs * (steps * (steps - 1) // 2)
            rest += took
            now += rest // FS_PER_NS
            rest %= FS_PER_NS
            busy_rest += took
            busy_ns += busy_rest // FS_PER_NS
            busy_rest %= FS_PER_NS
            last_ns = now
            step += steps
            context += sequences * steps

            # every sequence gets its tokens; whoever has all leaves
            if step == next_end:
                slot, next_end = 0, NEVER
                while slot < sequences:
                    end = slot_end[slot]
                    if end != step:
                        next_end = min(next_end, end)
                        slot += 1
                        continue
                    request = slot_request[slot]
                    has = inputs[request] + outputs[request]
                    status[request] = _FINISHED
                    finish[request] = now
                    events = note(log, events, step - 1, now, _FINISH, request)
                    context -= has
                    free += blocks_of(has - 1, size)
                    counts[slot_phase[slot]] -= 1
                    sequences -= 1
                    slot_request[slot], slot_rank[slot] = slot_request[sequences], slot_rank[sequences]
                    slot_end[slot], slot_phase[slot] = slot_end[sequences], slot_phase[sequences]
            read += part
            for index in range(joins):
                request = joined[index]
                has = inputs[request] + generated[request] + 1
                last = inputs[request] + outputs[request]
                if not has_first[request]:
                    has_first[request] = True
                    first[request] = now
                    events = note(log, events, step - 1, now, _FIRST, request)
                if has == last:
                    status[request] = _FINISHED
                    finish[request] = now
                    events = note(log, events, step - 1, now, _FINISH, request)
                    free += blocks_of(has - 1, size)
                else:
                    slot_request[sequences] = request
                    slot_rank[sequences] = rank_of[request]
                    slot_end[sequences] = step + last - has
                    next_end = min(next_end, slot_end[sequences])
                    slot_phase[sequences] = phase_of(has - 1, step, size)
                    counts[slot_phase[sequences]] += 1
                    sequences += 1
                    context += has
        stats[0], stats[1], stats[2], stats[3], stats[4] = preemptions, step, busy_ns, last_ns, least_free
        return events

    return core
