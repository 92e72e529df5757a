"""What a simulation is given and what it gives back: requests, one replica's limits, and what became of each."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cotenant.errors import InputError

Ints = NDArray[np.int64]
NEVER = 2**62  # ns: later than any simulation lasts
_LONGEST = 2**22  # tokens of one sequence


class Status(IntEnum):
    """What became of a request."""

    UNFINISHED = 0
    FINISHED = 1
    REFUSED = 2
    CANCELLED = 3
    LOST = 4  # with the replica that was answering it


class Event(IntEnum):
    """What the log lists; of one step in this order."""

    CANCEL = 0
    PREEMPT = 1
    ADMIT = 2
    FIRST_TOKEN = 3
    FINISH = 4
    LOSE = 5


@dataclass(frozen=True, slots=True, eq=False)
class Prefixes:
    """What prompts begin alike: for each request the names of its blocks of `tokens` tokens, in order. A name
    stands for all that comes before it too, so the same name means the same prompt up to there."""

    names: tuple[tuple[int, ...], ...]
    tokens: int


@dataclass(frozen=True, slots=True, eq=False)
class Requests:
    """Requests in order of arrival. Times in ns; `cancel_ns` is when the user gives up (NEVER: does not).
    With `prefixes` engines keep what they computed and share it (`simulation.caching`).

    Raises InputError for lengths that differ, negative or unsorted times, and tokens below one.
    """

    arrival_ns: Ints
    input_tokens: Ints
    output_tokens: Ints
    priority: Ints
    cancel_ns: Ints
    prefixes: Prefixes | None = None

    def __post_init__(self) -> None:
        columns = (self.arrival_ns, self.input_tokens, self.output_tokens, self.priority, self.cancel_ns)
        if len({len(column) for column in columns}) > 1:
            raise InputError("requests need one arrival, input and output each")
        if self.prefixes is not None and (len(self.prefixes.names) != len(self) or self.prefixes.tokens < 1):
            raise InputError("requests need the names of their blocks each, of a token at least")
        if len(self) and (self.arrival_ns[0] < 0 or np.any(np.diff(self.arrival_ns) < 0)):
            raise InputError("arrival times must not be negative and must not go back", hint="sort the requests")
        for name, tokens in (("input", self.input_tokens), ("output", self.output_tokens)):
            if len(self) and int(tokens.min()) < 1:
                raise InputError(f"a request has {int(tokens.min())} {name} tokens", hint="one is the least")

    def __len__(self) -> int:
        return len(self.arrival_ns)

    @classmethod
    def of(
        cls, arrival_ns: Any, input_tokens: Any, output_tokens: Any, priority: Any = 0, cancel_ns: Any = NEVER
    ) -> Requests:
        """From anything that numpy reads; one priority or time of giving up may stand for all."""
        arrivals = np.asarray(arrival_ns, np.int64)
        return cls(
            arrivals,
            np.asarray(input_tokens, np.int64),
            np.asarray(output_tokens, np.int64),
            np.array(np.broadcast_to(priority, arrivals.shape), np.int64, order="C"),
            np.array(np.broadcast_to(cancel_ns, arrivals.shape), np.int64, order="C"),
        )

    def take(self, which: Any) -> Requests:
        """Some of them, in their order."""
        shared = self.prefixes
        if shared is not None:
            places = np.arange(len(self))[which].tolist()
            shared = Prefixes(tuple(shared.names[place] for place in places), shared.tokens)
        return Requests(
            self.arrival_ns[which], self.input_tokens[which], self.output_tokens[which], self.priority[which],
            self.cancel_ns[which], shared,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Limits:
    """One replica: sequences and tokens of a step, its pool of `num_blocks` blocks, its longest sequence.

    Raises InputError for limits under which a step could stand still.
    """

    max_num_seqs: int
    max_num_batched_tokens: int
    block_size: int
    num_blocks: int
    max_model_len: int

    def __post_init__(self) -> None:
        if min(self.max_num_seqs, self.block_size, self.num_blocks, self.max_model_len) < 1:
            raise InputError("max_num_seqs, block_size, blocks and max_model_len must be at least 1")
        if self.max_num_batched_tokens < self.max_num_seqs:
            raise InputError(
                f"max_num_batched_tokens ({self.max_num_batched_tokens}) lies below max_num_seqs"
                f" ({self.max_num_seqs})",
                hint="engines refuse it too: a step must have a token for each sequence",
            )
        if self.max_model_len > _LONGEST:
            raise InputError(f"max_model_len {self.max_model_len:,} is more than {_LONGEST:,} tokens")


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What became of each request, in the order of `Requests`. Times in ns, valid as far as `status` says;
    `first_token_ns` is valid where `has_first` is true. `log` has rows (step, ns, event, request), sorted.
    Of `asked_tokens` that admitted requests had to read, `hit_tokens` were in the prefix cache.
    """

    status: Ints
    first_token_ns: Ints
    has_first: NDArray[np.bool_]
    finish_ns: Ints
    preemptions: int
    steps: int
    busy_ns: int
    end_ns: int
    kv_high_water_blocks: int
    log: Ints
    asked_tokens: int = 0
    hit_tokens: int = 0


def sorted_log(rows: Any) -> Ints:
    """Rows (step, ns, event, request) in the one order that both cores agree on."""
    log = np.asarray(rows, np.int64).reshape(-1, 4)
    return log[np.lexsort((log[:, 3], log[:, 2], log[:, 0]))]
