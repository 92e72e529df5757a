"""Where the fast core of many replicas keeps what: columns of its tables, all of them whole numbers.

A replica is one row: its limits, its clock, its batch. A request is one row of eight numbers, one cache line.
"""

from __future__ import annotations

(
    MAX_SEQS, MAX_TOKENS, SIZE, NUM_BLOCKS, LONGEST,  # Limits
    GROUP, MODEL_OF,
    NOW, REST,  # when the step in progress began, or the last one ended: ns, and fs beyond
    END, END_REST,  # when the steps in progress end
    STEPS, FIRST_FS, GROWTH_FS, PACE,  # how many, the first one alone, growth alone, per mille
    KIND, COUNTED,  # what it does, and what its cards think that it does
    OPEN,  # 1: the next arrival may cut the steps in progress short
    STEP, SEQS, CONTEXT, FREE, NEXT_END,
    READER, READ, KNOWN, READER_BLOCKS, PART, JOINS,
    HEAD, TAIL, LOAD, TAKEN,
    PREEMPTIONS, LEAST_FREE, BUSY, BUSY_REST, ALONE_NS, ALONE_REST, LAST, LAST_REST,
    COSTS,  # where those of its steps begin (`StepCosts.packed`)
    WIDTH, SLOTS,
) = range(44)  # fmt: skip
"""One replica: then `WIDTH` slots each of requests, ends, phases and who joins, then block counts by phase, then
what its steps cost."""

RESTING, DECODING, READING = 0, 1, 2

ARRIVAL, MODEL, INPUT, OUTPUT, GENERATED, FIRST, FINISH, LINK = range(8)
"""One request. `FIRST` and `FINISH` are ABSENT until they are; a refused one has `FINISH` REFUSED. `LINK` is the
next in the queue, and in the end the replica that served it."""

ABSENT, REFUSED, NOBODY = -1, -2, -1

NEXT, NEXT_REST, RIPE, RIPE_AT, RIPE_REST, MEMBERS, MEMBERS_END = range(7)
"""One group of replicas that share cards: its next end; whether steps may begin, and when; its replicas."""
