"""Engines' logs -> measurements. `read_log` takes bytes as they come and needs no more memory than a block."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from cotenant.domain.measurement import Measurement, Outcome
from cotenant.engines.logs import LOGS
from cotenant.errors import FormatError, InputError
from cotenant.readers.logs.assemble import measurement
from cotenant.readers.logs.blocks import Counts, lines_of_interest
from cotenant.readers.logs.prefixes import entries
from cotenant.readers.logs.runs import Runs
from cotenant.units import plural

MAX_LINES = 200_000  # about memory; a log of months has thousands


@dataclass(frozen=True, slots=True)
class LogReading:
    """Every run that the log holds, in order of their starts, and what went by."""

    measurements: tuple[Measurement, ...]
    size_bytes: int
    lines: int
    digest: str
    notes: tuple[str, ...] = ()

    @property
    def foremost(self) -> Measurement:
        """The run to explain: of the last runs of each container one that failed, else the last of all."""
        last = {(found.source, found.engine): found for found in self.measurements}
        failed = [found for found in last.values() if found.outcome is Outcome.OOM]
        return failed[-1] if failed else self.measurements[-1]


def read_log(
    chunks: Iterable[bytes], *, name: str = "the log", progress: Callable[[int], None] | None = None
) -> LogReading:
    """Read a log that arrives in pieces of any size; `progress` is told the bytes read so far.

    Raises FormatError where nothing of an engine stands in it, InputError where an engine is there but says
    nothing about memory.
    """
    runs, counts = Runs(), Counts()
    for number, line in enumerate(lines_of_interest(chunks, runs.needles, counts, progress)):
        if number >= MAX_LINES:
            runs.dropped += 1
            continue
        for entry in entries(line.number, line.text):
            runs.feed(entry)
    runs.end()
    _name_engines(runs, counts)
    told = [run for run in runs.runs if run.engine and run.has_content]
    if not told:
        raise _refusal(runs, counts, name)
    alone = [run for run in told if not run.mixed]
    if not alone:
        raise InputError(
            f"{name}: two {told[-1].engine} engines write into it, and nothing tells their lines apart",
            hint="read each alone: docker compose logs SERVICE, or one file each",
        )
    notes = []
    if len(alone) < len(told):
        notes.append("lines of two engines stand mixed in it; those were left out")
    if runs.dropped:
        notes.append("the log has more lines about memory than any engine prints; the first were read")
    return LogReading(
        tuple(measurement(run) for run in alone), counts.size, counts.lines, counts.digest, tuple(notes)
    )


def _name_engines(runs: Runs, counts: Counts) -> None:
    """Whose out-of-memory line it is where no line of an engine stands beside it: told by the traceback."""
    signs = _signs(counts)
    for run in runs.runs:
        run.engine = run.engine or signs


def _signs(counts: Counts) -> str:
    """The engine whose words stand at the beginning or the end of the log; "" for none."""
    edges = (counts.head + counts.end).decode("utf-8", "replace")
    return next((log.engine for log in LOGS if any(sign in edges for sign in log.signs)), "")


def _refusal(runs: Runs, counts: Counts, name: str) -> InputError:
    seen = next((run.engine for run in runs.runs if run.engine), _signs(counts))
    if seen:
        return InputError(
            f"{name}: lines of {seen}, but none about memory",
            hint="give the log from its start: engines print their memory while loading, at level INFO",
        )
    if any(run.has_content for run in runs.runs):
        return FormatError(
            f"{name}: PyTorch ran out of memory, but nothing says in which engine",
            hint="give the whole log; vLLM, SGLang, TGI, TensorRT-LLM, llama.cpp and Ollama are known",
        )
    what = "binary data" if counts.size and counts.is_binary else plural(counts.size, "byte")
    return FormatError(
        f"{name}: {what} without a line of an engine that is known",
        hint="vLLM, SGLang, TGI, TensorRT-LLM, llama.cpp and Ollama are known; give the server's own output",
    )
