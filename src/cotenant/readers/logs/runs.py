"""Which lines belong together: one run of one engine, whatever else writes into the same log.

Containers are told apart by their prefix, engines by their words, processes by their numbers: a worker belongs to
the engine whose process number is the largest below its own (children start after their parents), a line without
a number to the run that started last. A second start is another run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from cotenant.domain.measurement import Failure, Figure, Setting
from cotenant.engines.logs import LOGS, EngineLog, LogLine
from cotenant.readers.logs.blocks import CLOSES, MOST_LINES, OPENS
from cotenant.readers.logs.posts import ENGINE as POSTED
from cotenant.readers.logs.posts import HEADS, Row, Table
from cotenant.readers.logs.prefixes import Entry, Process
from cotenant.readers.logs.values import LineValues, read_line

MAX_RUNS, MAX_FIGURES, MAX_FAILURES, MAX_PROCESSES = 64, 2000, 32, 4096
_SETTLED = (
    "available_kv_gib", "kv_cache_tokens", "gpu_blocks", "kv_cache_mib", "kv_buffer_mib", "ollama_total_gib",
)  # fmt: skip
_OF_CARDS = ("gpu_mem_gib", "free_gib", "device_total_mib", "device_free_mib")
# Files whose name tells nothing of what they hold: the header's own name says more.
_NAMELESS = re.compile(r"(?:^|[/\\])(?:model|ggml-model[\w.-]*|sha256-[0-9a-f]{16,})(?:\.gguf)?$")
_LEVELS = re.compile(r"\b(?:INFO|WARN|ERROR|DEBUG|TRACE)\b")
_RUNS_INSIDE = {"llama.cpp": "ollama"}  # the runner of the other prints the lines of the one


@dataclass(slots=True)
class Run:
    """What was read of one run so far. `mixed`: lines of a second engine that nothing tells apart."""

    engine: str
    source: str
    first_line: int
    pids: dict[int, str] = field(default_factory=dict)
    facts: dict[str, str] = field(default_factory=dict)
    settings: dict[str, Setting] = field(default_factory=dict)
    figures: list[Figure] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    styles: set[str] = field(default_factory=set)
    started: set[tuple[str, int]] = field(default_factory=set)  # which line, from which process
    unnamed: set[str] = field(default_factory=set)
    ready: bool = False
    section: str = ""
    is_draft: bool = False
    mixed: bool = False
    posted: bool = False  # a row of a table, not an engine's own lines

    @property
    def is_settled(self) -> bool:
        """Got as far as its pool, or failed: a start after that is a new run, not a second engine."""
        return bool(self.failures) or self.ready or any(figure.name in _SETTLED for figure in self.figures)

    @property
    def has_content(self) -> bool:
        """Anything to report beside what card there is."""
        return bool(self.failures) or any(figure.name not in _OF_CARDS for figure in self.figures)


class Runs:
    """All runs of a log, fed entry by entry."""

    def __init__(self, logs: Iterable[EngineLog] = LOGS) -> None:
        logs = tuple(logs)
        self._lines = [(line.needle, log, line) for log in logs for line in log.lines]
        self._styles = [(needle, log.engine) for log in logs for needle, _ in log.styles]
        self._table = Table()
        self._open: dict[str, list[Entry]] = {}  # values over many lines that have begun, by source
        self.runs: list[Run] = []
        self.dropped = 0

    @property
    def needles(self) -> tuple[bytes, ...]:
        """What a block of the log is searched for."""
        words = {*HEADS, *(line.searched for _, _, line in self._lines)}
        short = [word for word in words if not any(other in word for other in words if other != word)]
        return tuple(sorted(word.encode() for word in short))

    def feed(self, entry: Entry) -> None:
        """Take in one line; those of a value over many lines are joined first."""
        if entry.source in self._open and _LEVELS.search(entry.text):  # the value was cut off
            self._join(entry.source)
        held = self._open.setdefault(entry.source, [])
        opens = OPENS.decode() in entry.text and CLOSES.decode() not in entry.text
        if not held and not opens:
            self._read(entry)
            return
        held.append(entry)
        if (entry.text.rstrip().endswith(CLOSES.decode()) and len(held) > 1) or len(held) >= MOST_LINES:
            self._join(entry.source)

    def end(self) -> None:
        """The log ends: what has begun is read as far as it goes."""
        for source in tuple(self._open):
            self._join(source)

    def _join(self, source: str) -> None:
        held = self._open.pop(source, [])
        if held:
            self._read(replace(held[0], text=" ".join(one.text.strip() for one in held)))

    def _read(self, entry: Entry) -> None:
        if "Received request" in entry.text[:300]:  # what users wrote is no log
            return
        posted = self._table.read(entry.text)
        if posted is not None:
            for row in posted:
                self._post(entry, row)
            return
        for needle, log, line in self._lines:
            if needle in entry.text:
                values = read_line(line, entry.text)
                if values is not None:
                    self._take(entry, log, line, values)

    def _post(self, entry: Entry, row: Row) -> None:
        """A row of a table in a post is a run of its own."""
        if len(self.runs) >= MAX_RUNS:
            self.dropped += 1
            return
        source = ", ".join(word for word in (row.label, row.who) if word)
        facts = {"model": row.who} if row.who else {}
        figures = [Figure(name, value, text, line=entry.number) for name, value, text in row.figures]
        self.runs.append(Run(POSTED, source, entry.number, facts=facts, figures=figures, posted=True))

    def _take(self, entry: Entry, log: EngineLog, line: LogLine, values: LineValues) -> None:
        if self._strays(entry, log.engine, line, values):
            return
        run = self._run(entry, log.engine, line, values.facts)
        if run is None:
            self.dropped += 1
            return
        run.ready = run.ready or line.ready
        _enter_section(run, line)
        for name, text in values.facts.items():
            if name == "model" and _NAMELESS.search(run.facts.get(name, "")):
                run.facts[name] = text
            run.facts.setdefault(name, text)
        for name, value in values.settings.items():
            run.settings.setdefault(name, value)
        run.styles.update(word for word, engine in self._styles if engine == run.engine and word in entry.text)
        if "file_type" in values.labels:
            run.settings.setdefault("quantization", values.labels["file_type"])
        rank = entry.rank or (str(entry.processes[-1].pid) if entry.processes else "")
        if values.figures and not rank and not line.failure:
            run.mixed = run.mixed or (line.needle in run.unnamed and self._another_starts(run))
            run.unnamed.add(line.needle)
        self._add_figures(run, entry, rank, values)
        if line.failure and len(run.failures) < MAX_FAILURES:
            sizes = {name: figure.value for name, figure in values.figures.items()}
            run.failures.append(Failure(line.failure, entry.text.strip()[:400], entry.number, rank, sizes))

    def _strays(self, entry: Entry, engine: str, line: LogLine, values: LineValues) -> bool:
        """Whether it is a setting that another engine's line holds as well (``kv_cache_dtype=``), not the first
        word of a second engine."""
        told = values.figures or values.facts or line.starts or line.failure
        here = [run for run in self.runs if run.source == entry.source]
        return not told and bool(here) and not any(_same(run, engine) for run in here)

    def _add_figures(self, run: Run, entry: Entry, rank: str, values: LineValues) -> None:
        if len(run.figures) >= MAX_FIGURES:
            self.dropped += 1
            return
        labels = values.labels
        section = "draft" if run.is_draft else labels.get("section") or run.section
        for name, value in values.figures.items():
            device = labels.get("device", "")
            run.figures.append(Figure(name, value.value, value.text, rank, device, section, entry.number, labels))

    def _another_starts(self, run: Run) -> bool:
        """Whether an earlier run of the same engine in the same place started and never got to its memory."""
        return any(
            other.started and not other.is_settled and other.engine == run.engine
            for other in self.runs
            if other is not run and other.source == run.source
        )

    def _run(self, entry: Entry, engine: str, line: LogLine, facts: Mapping[str, str]) -> Run | None:
        """The run that the entry belongs to; None when there are too many."""
        here = [run for run in self.runs if run.source == entry.source]
        own = [run for run in here if _same(run, engine)]
        found = _by_process(own, entry.processes)
        if line.starts and own and not own[-1].started and entry.text.lstrip().startswith(line.needle):
            found = own[-1]  # parts of lines as people quote them, in any order
        elif found is None and line.starts:
            found = _started_by(own, entry, line, facts.get("model"))
        elif found is None:
            found = _parent(own, entry.processes) or (own[-1] if own else None)
        elif line.starts and _start(entry, line) in found.started:  # a restarted container counts from 1 again
            found.pids.clear()
            found = _started_by(own, entry, line, facts.get("model"))
        if found is None:
            found = self._new(entry, engine)
        if found is None:
            return None
        if engine and (not found.engine or _RUNS_INSIDE.get(found.engine) == engine):
            found.engine = engine
        if line.starts:
            found.started.add(_start(entry, line))
        _remember(found, entry.processes)
        return found

    def _new(self, entry: Entry, engine: str) -> Run | None:
        if len(self.runs) >= MAX_RUNS:
            return None
        run = Run(engine, entry.source, entry.number)
        if engine in _RUNS_INSIDE.values():  # a server that outlives its runners: it told these once
            before = [one for one in self.runs if _same(one, engine) and one.source == run.source][-1:]
            for one in before:
                run.facts |= {name: one.facts[name] for name in ("engine_version", "gpu") if name in one.facts}
                run.settings |= {name: one.settings[name] for name in ("type_k",) if name in one.settings}
        self.runs.append(run)
        return run


def _start(entry: Entry, line: LogLine) -> tuple[str, int]:
    return line.needle, entry.processes[0].pid if entry.processes else 0


def _enter_section(run: Run, line: LogLine) -> None:
    if line.section == "draft":
        run.is_draft = run.is_draft or any(figure.name == "compute_buffer_mib" for figure in run.figures)
    elif line.section:
        run.section = line.section


def _remember(run: Run, processes: tuple[Process, ...]) -> None:
    for process in processes:
        if len(run.pids) < MAX_PROCESSES:
            run.pids.setdefault(process.pid, process.name)


def _same(run: Run, engine: str) -> bool:
    """PyTorch's own words ("") belong to whatever engine is there."""
    if not engine or run.engine in ("", engine):
        return True
    return _RUNS_INSIDE.get(run.engine) == engine or _RUNS_INSIDE.get(engine) == run.engine


def _by_process(runs: list[Run], processes: tuple[Process, ...]) -> Run | None:
    return next((run for process in processes for run in reversed(runs) if process.pid in run.pids), None)


def _started_by(runs: list[Run], entry: Entry, line: LogLine, model: str | None) -> Run | None:
    """The run whose start goes on with this line (an engine core after its API server).

    It has not got to its memory, knows no other process of that name and no such line; one of the same model comes
    first, then the oldest.
    """
    names = {process.name for process in entry.processes}
    open_runs = [
        run for run in runs
        if not run.is_settled and not names & set(run.pids.values())
        and (all(needle != line.needle for needle, _ in run.started) or _another_rank(run, entry))
    ]  # fmt: skip
    named = [run for run in open_runs if model and run.facts.get("model") == model]
    return next(iter(named or open_runs), None)


def _another_rank(run: Run, entry: Entry) -> bool:
    """Engine cores of data-parallel ranks (EngineCore_DP0, EngineCore_DP1) start alike and are one replica."""
    cores = [process.name for process in entry.processes if process.name.startswith("EngineCore")]
    return bool(cores) and any(name.startswith("EngineCore") for name in run.pids.values())


def _parent(runs: list[Run], processes: tuple[Process, ...]) -> Run | None:
    """Of several runs the one with the largest process number below that of `processes`."""
    if not processes or len(runs) < 2:
        return None
    pid = processes[0].pid
    below = [(max((number for number in run.pids if number < pid), default=-1), run) for run in runs]
    number, run = max(below, key=lambda pair: pair[0])
    return run if number >= 0 else None
