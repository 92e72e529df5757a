"""One replica of the fast core of many: what it decides between steps, and how many steps it then takes at once.

The rules are those of `replica`, each a function of `policy`; the sums are those of `core`.
"""

from __future__ import annotations

from typing import Any

from cotenant.policy.admission import chunk_tokens, may_join
from cotenant.policy.ledger import blocks_of, opened_at, opened_within, phase_of, steps_within
from cotenant.policy.preemption import must_preempt, victim
from cotenant.policy.sharing import stretched
from cotenant.simulation import fleet_state as at
from cotenant.simulation.core_steps import ADMIT, FINISH, FIRST, PREEMPT, least, steps_until
from cotenant.simulation.costs import FS_PER_NS, step_of, steps_along
from cotenant.simulation.load import NEVER

_JUMP_FS = 4e17  # no jump is longer, not even tenfold stretched, so that no sum leaves 64 bits


def note(log: Any, replica: int, step: int, now_ns: int, event: int, request: int) -> None:
    """One row where there is room; the first row counts them."""
    log[0, 0] += 1
    row = log[0, 0]
    if row < len(log):
        log[row, 0] = replica
        log[row, 1] = step
        log[row, 2] = now_ns
        log[row, 3] = event
        log[row, 4] = request


def queue_up(state: Any, requests: Any, replica: int, request: int) -> None:
    """A request joins the queue, which is a list in order of arrival: the new at its end."""
    requests[request, at.LINK] = at.NOBODY
    if state[replica, at.HEAD] == at.NOBODY:
        state[replica, at.HEAD] = request
    else:
        requests[state[replica, at.TAIL], at.LINK] = request
    state[replica, at.TAIL] = request


def queue_again(state: Any, requests: Any, replica: int, request: int) -> None:
    """One that was preempted, the last to come of those that ran: before all that wait, who came later still."""
    requests[request, at.LINK] = state[replica, at.HEAD]
    if state[replica, at.HEAD] == at.NOBODY:
        state[replica, at.TAIL] = request
    state[replica, at.HEAD] = request


def vacate(state: Any, replica: int, slot: int) -> None:
    """The last sequence moves to the slot of one that leaves."""
    width = state[replica, at.WIDTH]
    state[replica, at.SLOTS + 4 * width + state[replica, at.SLOTS + 2 * width + slot]] -= 1
    state[replica, at.SEQS] -= 1
    last = state[replica, at.SEQS]
    for column in range(3):
        base = at.SLOTS + column * width
        state[replica, base + slot] = state[replica, base + last]


def give_way(state: Any, requests: Any, log: Any, replica: int, grown: bool) -> None:
    """The last to come gives up its blocks and waits again."""
    sequences, size = state[replica, at.SEQS], state[replica, at.SIZE]
    running = sequences
    if state[replica, at.READER] != at.NOBODY:
        state[replica, at.SLOTS + sequences] = state[replica, at.READER]
        running += 1
    slot = victim(state[replica, at.SLOTS : at.SLOTS + running], running)
    request = state[replica, at.SLOTS + slot]
    if slot == sequences:
        has = state[replica, at.KNOWN]
        state[replica, at.FREE] += state[replica, at.READER_BLOCKS]
        state[replica, at.READER] = at.NOBODY
    else:
        left = state[replica, at.SLOTS + state[replica, at.WIDTH] + slot] - state[replica, at.STEP]
        has = requests[request, at.INPUT] + requests[request, at.OUTPUT] - left
        state[replica, at.CONTEXT] -= has
        state[replica, at.FREE] += blocks_of(has if grown else has - 1, size)
        vacate(state, replica, slot)
    requests[request, at.GENERATED] = has - requests[request, at.INPUT]
    note(log, replica, state[replica, at.STEP], state[replica, at.NOW], PREEMPT, request)
    queue_again(state, requests, replica, request)


def make_blocks(state: Any, requests: Any, log: Any, replica: int) -> tuple[int, int]:
    """A block for each sequence whose blocks are full, then those of the prompt that was begun.

    How many gave way, and the tokens that are read of that prompt.
    """
    size, base = state[replica, at.SIZE], at.SLOTS + 4 * state[replica, at.WIDTH]
    counts = state[replica, base : base + size]
    preempted, chunk, grown = 0, 0, False
    wanted = opened_at(counts, state[replica, at.STEP], size)
    while True:
        if must_preempt(wanted, state[replica, at.FREE]):
            give_way(state, requests, log, replica, grown)
            preempted += 1
            if not grown:
                wanted = opened_at(counts, state[replica, at.STEP], size)
            elif state[replica, at.READER] == at.NOBODY:
                return preempted, 0
            continue
        state[replica, at.FREE] -= wanted
        if grown:
            state[replica, at.READER_BLOCKS] += wanted
            return preempted, chunk
        if state[replica, at.READER] == at.NOBODY:
            return preempted, 0
        grown = True
        read = state[replica, at.READ]
        chunk = chunk_tokens(
            state[replica, at.KNOWN] - read, state[replica, at.MAX_TOKENS] - state[replica, at.SEQS]
        )
        wanted = blocks_of(read + chunk, size) - state[replica, at.READER_BLOCKS]


def admit(
    state: Any, requests: Any, log: Any, replica: int, preempted: int, tokens: int, squares: int
) -> tuple[int, int, bool]:
    """The first of the queue joins, and again, as long as it may. Tokens, squares, whether another could join."""
    sequences, size, most = state[replica, at.SEQS], state[replica, at.SIZE], state[replica, at.MAX_SEQS]
    base = at.SLOTS + 3 * state[replica, at.WIDTH]
    budget, joins, free = state[replica, at.MAX_TOKENS] - sequences - tokens, 0, state[replica, at.FREE]
    part = tokens
    if state[replica, at.READER] != at.NOBODY and state[replica, at.READ] + tokens == state[replica, at.KNOWN]:
        state[replica, base] = state[replica, at.READER]
        state[replica, at.READER] = at.NOBODY
        joins = 1
    running = sequences + joins + (0 if state[replica, at.READER] == at.NOBODY else 1)
    request = state[replica, at.HEAD]
    while request != at.NOBODY:
        has = requests[request, at.INPUT] + requests[request, at.GENERATED]
        chunk = chunk_tokens(has, budget)
        blocks = blocks_of(chunk, size)
        if not may_join(running, most, budget, blocks, free, preempted):
            break
        note(log, replica, state[replica, at.STEP], state[replica, at.NOW], ADMIT, request)
        free -= blocks
        budget -= chunk
        tokens += chunk
        squares += chunk * chunk
        running += 1
        if chunk == has:
            state[replica, base + joins] = request
            joins += 1
        else:
            state[replica, at.READER] = request
            state[replica, at.READ], state[replica, at.KNOWN], state[replica, at.READER_BLOCKS] = 0, has, blocks
            part = chunk
        request = requests[request, at.LINK]
    state[replica, at.HEAD] = request
    state[replica, at.FREE] = free
    state[replica, at.JOINS], state[replica, at.PART] = joins, part
    return tokens, squares, request == at.NOBODY and running < most and budget > 0


def begin(state: Any, requests: Any, log: Any, replica: int) -> None:
    """Decide the next steps: what they do, how many are alike, what they cost alone."""
    preempted, tokens = make_blocks(state, requests, log, replica)
    read = state[replica, at.READ]
    squares = (read + tokens) * (read + tokens) - read * read
    if preempted > 0:
        base = at.SLOTS + state[replica, at.WIDTH]
        state[replica, at.NEXT_END] = least(
            state[replica, base : base + state[replica, at.SEQS]], state[replica, at.SEQS]
        )
        state[replica, at.PREEMPTIONS] += preempted
    state[replica, at.JOINS], state[replica, at.PART], room = 0, tokens, True
    if tokens > 0 or state[replica, at.HEAD] != at.NOBODY:
        tokens, squares, room = admit(state, requests, log, replica, preempted, tokens, squares)
    elif state[replica, at.SEQS] >= state[replica, at.MAX_SEQS]:
        room = False
    state[replica, at.LEAST_FREE] = min(state[replica, at.LEAST_FREE], state[replica, at.FREE])
    sequences = state[replica, at.SEQS]
    first_fs, each_fs, holds = step_of(
        state[replica], state[replica, at.COSTS], sequences, state[replica, at.CONTEXT], tokens, squares
    )
    state[replica, at.FIRST_FS] = first_fs
    state[replica, at.GROWTH_FS] = each_fs * sequences
    state[replica, at.KIND] = at.READING if tokens > 0 else at.DECODING
    steps = 1
    if tokens == 0 and preempted == 0:
        steps = alike(state, replica, first_fs, each_fs * sequences, holds)
    state[replica, at.STEPS] = steps
    state[replica, at.OPEN] = 1 if steps > 1 and room and state[replica, at.MAX_TOKENS] > sequences else 0


def alike(state: Any, replica: int, first_fs: int, growth_fs: int, holds: int) -> int:
    """How many decode steps may follow each other: until the first sequence ends, one has more context than
    `holds`, or blocks run out."""
    steps = steps_along(
        holds,
        state[replica, at.CONTEXT],
        state[replica, at.SEQS],
        state[replica, at.NEXT_END] - state[replica, at.STEP],
    )
    while steps > 1 and steps * (first_fs + 0.5 * growth_fs * steps) > _JUMP_FS:
        steps //= 2
    if steps > 1:
        base, size = at.SLOTS + 4 * state[replica, at.WIDTH], state[replica, at.SIZE]
        counts = state[replica, base : base + size]
        steps = 1 + steps_within(
            counts, state[replica, at.STEP] + 1, steps - 1, state[replica, at.SEQS], state[replica, at.FREE], size
        )
    return steps


def take_time(state: Any, replica: int, pace: int) -> None:
    """When the steps in progress end, at that pace."""
    first = max(1, stretched(state[replica, at.FIRST_FS], pace))
    growth = stretched(state[replica, at.GROWTH_FS], pace)
    steps = state[replica, at.STEPS]
    rest = state[replica, at.REST] + steps * first + growth * (steps * (steps - 1) // 2)
    state[replica, at.PACE] = pace
    state[replica, at.END] = state[replica, at.NOW] + rest // FS_PER_NS
    state[replica, at.END_REST] = rest % FS_PER_NS


def cut_short(state: Any, replica: int, at_ns: int, at_rest: int) -> None:
    """Of the steps in progress only those that begin before a moment are made; another one may be decided then."""
    pace, steps = state[replica, at.PACE], state[replica, at.STEPS]
    if steps > 1:
        wanted = (at_ns - state[replica, at.NOW]) * FS_PER_NS + at_rest - state[replica, at.REST]
        first = max(1, stretched(state[replica, at.FIRST_FS], pace))
        growth = stretched(state[replica, at.GROWTH_FS], pace)
        state[replica, at.STEPS] = steps_until(wanted, first, growth, steps)
        take_time(state, replica, pace)
    state[replica, at.OPEN] = 0


def deliver(state: Any, requests: Any, log: Any, replica: int) -> None:
    """The steps are over: every sequence gets its tokens; whoever has all leaves."""
    steps, sequences, step = state[replica, at.STEPS], state[replica, at.SEQS], state[replica, at.STEP]
    size, width = state[replica, at.SIZE], state[replica, at.WIDTH]
    if steps > 1:
        base = at.SLOTS + 4 * width
        counts = state[replica, base : base + size]
        state[replica, at.FREE] -= opened_within(counts, step + 1, steps - 1, sequences, size)
        state[replica, at.LEAST_FREE] = min(state[replica, at.LEAST_FREE], state[replica, at.FREE])
    keep_time(state, replica)
    state[replica, at.STEP] = step + steps
    state[replica, at.CONTEXT] += sequences * steps
    state[replica, at.KIND], state[replica, at.OPEN] = at.RESTING, 0
    if step + steps == state[replica, at.NEXT_END]:
        finish(state, requests, log, replica)
    state[replica, at.READ] += state[replica, at.PART]
    for index in range(state[replica, at.JOINS]):
        join(state, requests, log, replica, state[replica, at.SLOTS + 3 * width + index])


def stop(state: Any, requests: Any, log: Any, replica: int, at_ns: int) -> None:
    """Time is up: the steps that have ended give their tokens; the one in progress only cost its time."""
    cut_short(state, replica, at_ns, 1)
    end, end_rest, pace = state[replica, at.END], state[replica, at.END_REST], state[replica, at.PACE]
    if state[replica, at.STEPS] > 1:
        first, growth = state[replica, at.FIRST_FS], state[replica, at.GROWTH_FS]
        state[replica, at.STEPS] -= 1
        take_time(state, replica, pace)
        deliver(state, requests, log, replica)
        make_blocks(state, requests, log, replica)
        state[replica, at.LEAST_FREE] = min(state[replica, at.LEAST_FREE], state[replica, at.FREE])
        state[replica, at.FIRST_FS] = first + growth * state[replica, at.STEPS]
        state[replica, at.STEPS], state[replica, at.END], state[replica, at.END_REST] = 1, end, end_rest
    last, last_rest = state[replica, at.LAST], state[replica, at.LAST_REST]
    keep_time(state, replica)
    state[replica, at.LAST], state[replica, at.LAST_REST] = last, last_rest
    state[replica, at.KIND] = at.RESTING


def keep_time(state: Any, replica: int) -> None:
    """The clock moves to the end of the steps; how long they took, and would have taken alone."""
    took = (
        (state[replica, at.END] - state[replica, at.NOW]) * FS_PER_NS
        + state[replica, at.END_REST]
        - state[replica, at.REST]
    )
    steps = state[replica, at.STEPS]
    alone = steps * state[replica, at.FIRST_FS] + state[replica, at.GROWTH_FS] * (steps * (steps - 1) // 2)
    state[replica, at.NOW], state[replica, at.REST] = state[replica, at.END], state[replica, at.END_REST]
    state[replica, at.LAST], state[replica, at.LAST_REST] = state[replica, at.END], state[replica, at.END_REST]
    busy = state[replica, at.BUSY_REST] + took
    state[replica, at.BUSY] += busy // FS_PER_NS
    state[replica, at.BUSY_REST] = busy % FS_PER_NS
    busy = state[replica, at.ALONE_REST] + alone
    state[replica, at.ALONE_NS] += busy // FS_PER_NS
    state[replica, at.ALONE_REST] = busy % FS_PER_NS


def finish(state: Any, requests: Any, log: Any, replica: int) -> None:
    """Sequences that end at this step leave."""
    step, now, width = state[replica, at.STEP], state[replica, at.NOW], state[replica, at.WIDTH]
    size, slot, next_end = state[replica, at.SIZE], 0, NEVER
    while slot < state[replica, at.SEQS]:
        end = state[replica, at.SLOTS + width + slot]
        if end != step:
            next_end = min(next_end, end)
            slot += 1
            continue
        request = state[replica, at.SLOTS + slot]
        has = requests[request, at.INPUT] + requests[request, at.OUTPUT]
        requests[request, at.FINISH], requests[request, at.LINK] = now, replica
        note(log, replica, step - 1, now, FINISH, request)
        state[replica, at.CONTEXT] -= has
        state[replica, at.FREE] += blocks_of(has - 1, size)
        state[replica, at.LOAD] -= 1
        vacate(state, replica, slot)
    state[replica, at.NEXT_END] = next_end


def join(state: Any, requests: Any, log: Any, replica: int, request: int) -> None:
    """A prompt is read: the first token, and from now on one a step."""
    has = requests[request, at.INPUT] + requests[request, at.GENERATED] + 1
    last = requests[request, at.INPUT] + requests[request, at.OUTPUT]
    step, now, size, width = (
        state[replica, at.STEP],
        state[replica, at.NOW],
        state[replica, at.SIZE],
        state[replica, at.WIDTH],
    )
    if requests[request, at.FIRST] == at.ABSENT:
        requests[request, at.FIRST] = now
        note(log, replica, step - 1, now, FIRST, request)
    if has == last:
        requests[request, at.FINISH], requests[request, at.LINK] = now, replica
        note(log, replica, step - 1, now, FINISH, request)
        state[replica, at.FREE] += blocks_of(has - 1, size)
        state[replica, at.LOAD] -= 1
        return
    slot, phase = state[replica, at.SEQS], phase_of(has - 1, step, size)
    state[replica, at.SLOTS + slot] = request
    state[replica, at.SLOTS + width + slot] = step + last - has
    state[replica, at.SLOTS + 2 * width + slot] = phase
    state[replica, at.SLOTS + 4 * width + phase] += 1
    state[replica, at.NEXT_END] = min(state[replica, at.NEXT_END], step + last - has)
    state[replica, at.SEQS] = slot + 1
    state[replica, at.CONTEXT] += has


USED = (
    note, queue_up, queue_again, vacate, give_way, make_blocks, admit, begin, alike, take_time, cut_short, deliver,
    stop, keep_time, finish, join, opened_within,
)  # fmt: skip
"""What the core calls, beside what that of one replica calls too: compiled along with it."""
