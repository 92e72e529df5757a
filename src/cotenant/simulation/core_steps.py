"""The pieces of the fast core of one replica: what happens between steps, and the sums over many.

`room` is seven arrays: the queue's heap; who joins, and with how many tokens; of each slot the request and the
key; ranks; sequences by phase. A key is the step at which a sequence ends, shifted by `bits`, and its slot.
"""

from __future__ import annotations

from math import sqrt
from typing import Any

from cotenant.policy.admission import chunk_tokens
from cotenant.policy.ledger import blocks_of, opened_at, phase_of, steps_within
from cotenant.policy.preemption import must_preempt, victim
from cotenant.simulation.costs import FS_PER_NS, steps_along
from cotenant.simulation.load import NEVER, Event, Status

NOBODY = -1  # no request reads its prompt just now
FAR_NS = 4 * 10**12  # moments that are further off count as that far, and are looked at again then
_JUMP_FS = 2e18  # no jump is longer, so that no sum leaves 64 bits
# of `load`, as the plain numbers that a compiler takes for constants
UNFINISHED, FINISHED = int(Status.UNFINISHED), int(Status.FINISHED)
REFUSED, CANCELLED = int(Status.REFUSED), int(Status.CANCELLED)
CANCEL, PREEMPT, ADMIT = int(Event.CANCEL), int(Event.PREEMPT), int(Event.ADMIT)
FIRST, FINISH = int(Event.FIRST_TOKEN), int(Event.FINISH)


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
    """The least of the first `sequences` numbers; NEVER without any."""
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


def fs_until(moments: Any, place: int, base_ns: int) -> int:
    """Femtoseconds from `base_ns` to the moment at `place`: none to one that is past, to one that is far off fewer
    than there are; NEVER beyond the last."""
    if place >= len(moments):
        return NEVER
    near: int = min(max(moments[place] - base_ns, 0), FAR_NS)
    return near * FS_PER_NS


def fs_left(moment_ns: int, base_ns: int) -> int:
    """Femtoseconds from `base_ns` to a moment, NEVER to one that is far off; before it, less than none."""
    return (moment_ns - base_ns) * FS_PER_NS if moment_ns - base_ns < FAR_NS else NEVER


def unfinished(status: Any, place: int) -> int:
    """The first request from `place` on that was neither refused nor given up."""
    while place < len(status) and status[place] != UNFINISHED:
        place += 1
    return place


def rank_by(rank_of: Any, in_order: bool, request: int) -> int:
    """A request's rank, or a rank's request: the same number where they are served as they come."""
    found: int = request if in_order else rank_of[request]
    return found


def vacate(slots: Any, keys: Any, slot: int, last: int) -> None:
    """The last sequence moves to the slot of one that leaves."""
    slots[slot] = slots[last]
    keys[slot] = keys[last] - last + slot


def tokens_of(inputs: Any, outputs: Any, request: int, key: int, bits: int, step: int) -> int:
    """Tokens that a running sequence has at a step: all that it will have, less the steps that are left."""
    last: int = inputs[request] + outputs[request]
    return last - ((key >> bits) - step)


def held(inputs: Any, outputs: Any, slots: Any, keys: Any, sequences: int, bits: int, step: int, size: int) -> int:
    """Blocks that hold all the tokens that the sequences have at a step."""
    found = 0
    for slot in range(sequences):
        found += blocks_of(tokens_of(inputs, outputs, slots[slot], keys[slot], bits, step), size)
    return found


def count_phases(
    inputs: Any, outputs: Any, slots: Any, keys: Any, sequences: int, bits: int, step: int, size: int, counts: Any
) -> None:
    """How many sequences stand at each position of a block (`policy.ledger.phase_of`)."""
    for phase in range(size):
        counts[phase] = 0
    for slot in range(sequences):
        has = tokens_of(inputs, outputs, slots[slot], keys[slot], bits, step)
        counts[phase_of(has - 1, step, size)] += 1


def make_blocks(
    inputs: Any, outputs: Any, rank_of: Any, in_order: bool, generated: Any, room: Any, bits: int, size: int,
    num_blocks: int, max_tokens: int, log: Any, events: int, step: int, now_ns: int,
    sequences: int, context: int, reader: int, read: int, known: int, queued: int,
) -> tuple[int, int, int, int, int, int, int, int, int]:  # fmt: skip
    """Where blocks may run out: one for each sequence whose blocks are full, then those of the prompt that was
    begun; the lowest in rank gives way.

    Free blocks, how many gave way, tokens read of the prompt; then the new events, sequences, context, reader,
    tokens that it has read, and the length of the queue.
    """
    queue, slots, keys, ranks, counts = room[0], room[3], room[4], room[5], room[6]
    count_phases(inputs, outputs, slots, keys, sequences, bits, step, size, counts)
    free = num_blocks - held(inputs, outputs, slots, keys, sequences, bits, step - 1, size) - blocks_of(read, size)
    preempted, chunk, grown = 0, 0, False
    wanted = opened_at(counts, step, size)
    while True:
        if must_preempt(wanted, free):
            running = sequences
            for slot in range(sequences):
                ranks[slot] = rank_by(rank_of, in_order, slots[slot])
            if reader != NOBODY:
                ranks[sequences] = rank_by(rank_of, in_order, reader)
                running += 1
            slot = victim(ranks, running)
            if slot == sequences:
                request, has = reader, known
                free += blocks_of(read, size)
                reader, read = NOBODY, 0
            else:
                request = slots[slot]
                has = tokens_of(inputs, outputs, request, keys[slot], bits, step)
                context -= has
                free += blocks_of(has if grown else has - 1, size)
                counts[phase_of(has - 1, step, size)] -= 1
                sequences -= 1
                vacate(slots, keys, slot, sequences)
            generated[request] = has - inputs[request]
            preempted += 1
            events = note(log, events, step, now_ns, PREEMPT, request)
            push(queue, queued, rank_by(rank_of, in_order, request))
            queued += 1
            if not grown:
                wanted = opened_at(counts, step, size)
            elif reader == NOBODY:
                break
            continue
        free -= wanted
        if grown or reader == NOBODY:
            break
        grown = True
        chunk = chunk_tokens(known - read, max_tokens - sequences)
        wanted = blocks_of(read + chunk, size) - blocks_of(read, size)
    return free, preempted, chunk, events, sequences, context, reader, read, queued


def give_up(
    inputs: Any, outputs: Any, cancel: Any, order: Any, giver: int, status: Any, finish: Any, room: Any, bits: int,
    log: Any, events: int, step: int, now_ns: int, sequences: int, context: int, reader: int, read: int,
) -> tuple[int, int, int, int, int, int]:  # fmt: skip
    """Whoever has given up leaves: who gives up next, events, sequences, context, reader, what it has read."""
    slots, keys = room[3], room[4]
    while giver < len(order) and cancel[order[giver]] <= now_ns:
        request = order[giver]
        giver += 1
        if status[request] != UNFINISHED:
            continue
        status[request] = CANCELLED
        finish[request] = now_ns
        events = note(log, events, step, now_ns, CANCEL, request)
        if request == reader:
            reader, read = NOBODY, 0
        for slot in range(sequences):
            if slots[slot] == request:
                context -= tokens_of(inputs, outputs, request, keys[slot], bits, step)
                sequences -= 1
                vacate(slots, keys, slot, sequences)
                break
    return giver, events, sequences, context, reader, read


def alike(
    inputs: Any, outputs: Any, room: Any, bits: int, size: int, num_blocks: int, step: int, sequences: int,
    context: int, next_key: int, holds: int, first_fs: int, growth_fs: int, left_fs: int, until_fs: int,
) -> int:  # fmt: skip
    """How many decode steps follow each other: until the first sequence ends, one has more context than `holds`,
    one begins `left_fs` or more from now, blocks run out, or the next would end after `until_fs`; one at least."""
    steps = steps_along(holds, context, sequences, (next_key >> bits) - step)
    while steps > 1 and steps * (first_fs + 0.5 * growth_fs * steps) > _JUMP_FS:
        steps //= 2
    if steps > 1 and steps * first_fs + growth_fs * (steps * (steps - 1) // 2) > left_fs:
        steps = steps_until(left_fs, first_fs, growth_fs, steps)
    if steps > 1 and steps * first_fs + growth_fs * (steps * (steps - 1) // 2) > until_fs:
        steps = max(1, steps_until(until_fs + 1, first_fs, growth_fs, steps) - 1)
    if steps > 1 and context + sequences * (steps + size - 1) > num_blocks * size:
        slots, keys, counts = room[3], room[4], room[6]
        count_phases(inputs, outputs, slots, keys, sequences, bits, step, size, counts)
        free = num_blocks - held(inputs, outputs, slots, keys, sequences, bits, step, size)
        steps = 1 + steps_within(counts, step + 1, steps - 1, sequences, free, size)
    return steps


def held_by_all(
    inputs: Any, outputs: Any, room: Any, bits: int, size: int, step: int, sequences: int, read: int, joins: int
) -> int:
    """Blocks that sequences, the prompt that is read and those that join hold at a step."""
    joined_has = room[2]
    found = held(inputs, outputs, room[3], room[4], sequences, bits, step, size) + blocks_of(read, size)
    for index in range(joins):
        found += blocks_of(joined_has[index], size)
    return found


def leave(
    inputs: Any, outputs: Any, status: Any, finish: Any, room: Any, bits: int, log: Any, events: int, step: int,
    now_ns: int, sequences: int, context: int, next_key: int,
) -> tuple[int, int, int, int]:  # fmt: skip
    """Whoever has all tokens leaves: events, sequences, context, who finishes next."""
    slots, keys = room[3], room[4]
    while next_key >> bits == step:
        slot = next_key & ((1 << bits) - 1)
        request = slots[slot]
        status[request] = FINISHED
        finish[request] = now_ns
        events = note(log, events, step - 1, now_ns, FINISH, request)
        context -= inputs[request] + outputs[request]
        sequences -= 1
        vacate(slots, keys, slot, sequences)
        next_key = least(keys, sequences)
    return events, sequences, context, next_key


def join(
    inputs: Any, outputs: Any, status: Any, first: Any, has_first: Any, finish: Any, room: Any, bits: int,
    joins: int, log: Any, events: int, step: int, now_ns: int, sequences: int, context: int, next_key: int,
) -> tuple[int, int, int, int]:  # fmt: skip
    """Whose prompt was read has its first token, and from now on one a step: what `leave` gives back."""
    joined, joined_has, slots, keys = room[1], room[2], room[3], room[4]
    for index in range(joins):
        request, has = joined[index], joined_has[index] + 1
        last = inputs[request] + outputs[request]
        if not has_first[request]:
            has_first[request] = True
            first[request] = now_ns
            events = note(log, events, step - 1, now_ns, FIRST, request)
        if has == last:
            status[request] = FINISHED
            finish[request] = now_ns
            events = note(log, events, step - 1, now_ns, FINISH, request)
        else:
            slots[sequences] = request
            keys[sequences] = ((step + last - has) << bits) + sequences
            next_key = min(next_key, keys[sequences])
            sequences += 1
            context += has
    return events, sequences, context, next_key


USED = (
    chunk_tokens, blocks_of, opened_at, phase_of, steps_within, must_preempt, victim, push, pop, least, note,
    steps_until, fs_until, fs_left, unfinished, rank_by, vacate, tokens_of, held, count_phases, make_blocks,
    give_up, alike, held_by_all, leave, join,
)  # fmt: skip
"""What the core calls of here and `policy`: compiled along with it."""

SELDOM = (make_blocks, give_up, held, held_by_all, count_phases, push, pop, steps_within, victim)
"""Of these, what is called where blocks or time run out: left as calls, all others are laid into the loop."""
