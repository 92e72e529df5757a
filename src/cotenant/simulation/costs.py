"""Step times as whole femtoseconds: no rounding between steps, so no tie depends on the machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from cotenant.domain.step_time import Line as Times
from cotenant.domain.step_time import StepTimes
from cotenant.simulation.load import NEVER

FS_PER_NS = 1_000_000
NS_PER_S = 1_000_000_000
FS_PER_S = FS_PER_NS * NS_PER_S
_BITS = 32

Line = tuple[int, int, int]
"""(until, base, each): up to `until` tokens, base + each x tokens."""

Row = tuple[Line, ...]
"""Lines one after the other, by `until`; the last holds for all beyond."""


@dataclass(frozen=True, slots=True)
class StepCosts:
    """Femtoseconds of a step, in straight lines of what it does (`domain.step_time.StepTimes`).

        decode  = base + per_sequence x B + each x C            the line of B sequences and C tokens
        reading = base + each x T + per_square x S              the line of T prompt tokens

    B decoding sequences that hold C tokens; T prompt tokens read, S the sum of end^2 - start^2 over chunks
    [start, end), which adds up to len^2 over a whole prompt. `decode` has a row for 1, 2 ... sequences, the last
    for all beyond. A step that does both reads the weights once: from the sum goes the lesser base of both first
    lines, which is what even the least step of either kind takes. `packed` is all of it in one sequence of whole
    numbers (`step_of`).
    """

    per_sequence: int
    per_square: int
    decode: tuple[Row, ...]
    reading: Row
    packed: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        rows = (*self.decode, self.reading)
        if len(rows) < 2 or not all(rows):
            raise ValueError("a line each is needed for reading and for a sequence")
        place = 4 + len(rows)
        starts = accumulate((3 * len(one) for one in rows), initial=place)
        lines = (number for one in rows for line in one for number in line)
        object.__setattr__(self, "packed", (len(self.decode), self.per_sequence, self.per_square, *starts, *lines))

    @classmethod
    def plane(
        cls, base: int, per_sequence: int, per_context_token: int, prefill_base: int, prefill_per_token: int,
        per_square: int,
    ) -> StepCosts:  # fmt: skip
        """One line for steps of any number of sequences, and one for all that read."""
        decode, reading = (NEVER, base, per_context_token), (NEVER, prefill_base, prefill_per_token)
        return cls(per_sequence, per_square, ((decode,),), (reading,))

    def each(self, change: Callable[[int], int]) -> StepCosts:
        """All costs changed alike; lines end where they did."""

        def changed(row: Row) -> Row:
            return tuple((until, change(base), change(each)) for until, base, each in row)

        decode = tuple(map(changed, self.decode))
        return StepCosts(change(self.per_sequence), change(self.per_square), decode, changed(self.reading))

    @classmethod
    def of(cls, times: StepTimes) -> StepCosts:
        """The lines of `times`, rounded to femtoseconds; what would be negative is nothing."""
        decode = tuple(map(_whole_row, times.decode))
        return cls(_whole(times.per_sequence_s), _whole(times.per_square_s), decode, _whole_row(times.prefill))

    def step(self, sequences: int, context_tokens: int, tokens: int, squares: int) -> int:
        """Femtoseconds of one step; at least one."""
        return step_of(self.packed, 0, sequences, context_tokens, tokens, squares)[0]

    def read(self, tokens: int, most: int) -> int:
        """Femtoseconds to read a prompt alone, in chunks of at most so many tokens."""
        whole, rest = divmod(tokens, most)
        chunks = whole * self.step(0, 0, most, 0) + (self.step(0, 0, rest, 0) if rest else 0)
        return chunks + self.per_square * tokens * tokens

    def most(self, sequences: int, context_tokens: int, tokens: int, squares: int) -> int:
        """What no step of up to so many of each takes longer than."""
        decode = max(base + each * context_tokens for row in self.decode for _, base, each in row)
        reading = max(base + each * tokens for _, base, each in self.reading)
        return decode + reading + self.per_sequence * sequences + self.per_square * squares


def _whole_row(row: Iterable[Times]) -> Row:
    found = [(min(NEVER, int(line.until)), _whole(line.base_s), _whole(line.each_s)) for line in row]
    return (*found[:-1], (NEVER, *found[-1][1:]))


def _whole(seconds: float) -> int:
    """To 32 bits: the C library's powers, which the roofline takes, may differ in the last of 53 between machines,
    and a step of 10 ms would show that as a femtosecond once in a few hundred times."""
    found = max(0, round(seconds * FS_PER_S))
    least = max(0, found.bit_length() - _BITS)
    return (found + (1 << least >> 1)) >> least << least


def line_at(packed: Any, start: int, row: int, tokens: int) -> int:
    """Where in `packed` the line of so many tokens stands: its end, its base, its cost of a token. Rows 0, 1 ...
    are for 1, 2 ... sequences, the last for reading; where each begins stands before them. Runs as Python and
    compiled."""
    place: int = start + packed[start + 3 + row]
    last = start + packed[start + 4 + row] - 3
    while place < last and packed[place] < tokens:
        place += 3
    return place


def step_of(
    packed: Any, start: int, sequences: int, context_tokens: int, tokens: int, squares: int
) -> tuple[int, int, int]:
    """Of one step (`StepCosts`, from `packed` at `start`): its femtoseconds, those of each token of context more,
    and up to how many of these that holds. Runs as Python and compiled."""
    took, each, until, rows = 0, 0, NEVER, packed[start]
    if sequences > 0:
        row = min(sequences, rows) - 1
        line = line_at(packed, start, row, context_tokens)
        until, each = packed[line], packed[line + 2]
        took = packed[line + 1] + packed[start + 1] * sequences + each * context_tokens
    if tokens > 0:
        line = line_at(packed, start, rows, tokens)
        took += packed[line + 1] + packed[line + 2] * tokens + packed[start + 2] * squares
        if sequences > 0:
            least = packed[start + packed[start + 3 + row] + 1]
            took -= min(least, packed[start + packed[start + 3 + rows] + 1])
    return max(1, took), each, until


def steps_along(until: int, context_tokens: int, sequences: int, steps: int) -> int:
    """How many of `steps` decode steps one line knows, each of which adds a token for each sequence; one at least.
    Runs as Python and compiled."""
    if steps > 1 and context_tokens + sequences * (steps - 1) > until:
        return max(1, (until - context_tokens) // sequences + 1)
    return steps
