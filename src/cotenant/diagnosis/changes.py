"""The smallest change of each flag that would have worked, checked by the estimator.

The estimator says what a change gains; the log says from where: what is over = what was over in the log + what the
estimator's room and need change by. So a prediction that is off by a constant does not mislead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from math import floor

from cotenant.catalogue.quantization import find_format
from cotenant.diagnosis.arguments import argument_of
from cotenant.diagnosis.causes import Cause
from cotenant.domain.engine import EngineSettings
from cotenant.domain.estimate import Estimate
from cotenant.domain.explanation import Change
from cotenant.domain.measurement import Measurement, Setting
from cotenant.errors import CotenantError
from cotenant.estimation.memory_terms import ReplicaMemory, StageMemory, replica_memory
from cotenant.estimation.question import Question, answer
from cotenant.estimation.served_format import served_format

_MOST_OF_CARD = 0.98
_SHORTEST = 512
_FORMATS = ("fp8", "awq-int4", "gptq-int4")
_MOST_RANKS = 16
_OVER_CARD = ("out_of_memory", "out_of_memory_in_graphs", "out_of_memory_warming_up", "warm_up_prefill")


@dataclass(frozen=True, slots=True)
class Situation:
    """The run that failed: what the estimator says of it, and how far that was from the log."""

    question: Question
    memory: ReplicaMemory
    estimate: Estimate
    kind: str
    loading: bool
    room_shift: int
    need_ratio: float
    shortfall: int
    free_bytes: int | None
    longest: int | None  # what the engine itself says would fit, in tokens

    def spare(self, question: Question) -> int | None:
        """Bytes over with that question's settings; negative: still short; None: the engine refuses them."""
        try:
            memory = memory_of(question)
        except CotenantError:
            return None
        need = round(_least_pool(memory) * self.need_ratio)
        room = min(stage.room.value for stage in memory.stages) + self.room_shift
        margins = [room - need] if memory.layout.groups else []
        if self.free_bytes is not None and memory.rules.runtime.start_check:
            budget = question.engine.budget(memory.capacity, memory.settings)
            margins.append(self.free_bytes - budget.value)
        if self.kind in _OVER_CARD:
            margins.append(self._gain(memory) - self.shortfall)
        return min(margins, default=0)

    def concurrency(self, question: Question) -> float:
        """Longest sequences that the pool holds at once with that question's settings."""
        memory = memory_of(question)
        need = max(1, round(memory.minimum_bytes * self.need_ratio))
        room = min(stage.room.value for stage in memory.stages) + self.room_shift
        return round(max(0, room) / need, 2)

    def _gain(self, memory: ReplicaMemory) -> int:
        """What the busiest rank takes less: while loading of weights and activations, later of everything."""
        return max(map(self._taken, self.memory.stages)) - max(map(self._taken, memory.stages))

    def _taken(self, stage: StageMemory) -> int:
        return _taken(stage, self.loading, self.room_shift)


def _least_pool(memory: ReplicaMemory) -> int:
    """What the pool must hold: the longest sequence where the engine asks for it, else one step's tokens, below
    which it starts but is of no use."""
    if memory.rules.pool.needs_longest(memory.settings):
        return memory.minimum_bytes
    longest, step = memory.settings.max_model_len or 1, memory.settings.max_num_batched_tokens or 1
    return memory.layout.checked_bytes(min(longest, step), step)


def _taken(stage: StageMemory, loading: bool, shift: int) -> int:
    """Bytes of a rank: the pool fills the budget, so later on the budget and what stands outside of it count.
    `shift` is what the log printed of the pool beyond what was expected: the rest was so much smaller."""
    if loading:
        return stage.weights.bytes.value + stage.activations.bytes.value
    spent = stage.spent.value - shift
    return max(spent, stage.budget.value) + stage.runtime.outside.value + stage.activations.bytes.value


def memory_of(question: Question) -> ReplicaMemory:
    """The terms of a question's replica. Raises CotenantError for what the engine refuses."""
    served = served_format(
        question.model, question.quantization, question.gpu, engine=question.engine, version=question.version
    )
    return replica_memory(
        question.model.spec, question.gpu, question.settings, engine=question.engine, version=question.version,
        format=served.format, used_bytes=question.used_bytes,
    )  # fmt: skip


def situation(found: Measurement, question: Question, estimate: Estimate, why: Cause) -> Situation | None:
    """Where the run stood; None where the estimator cannot say."""
    try:
        memory = memory_of(question)
    except CotenantError:
        return None
    room = min((stage.room.value for stage in memory.stages), default=0)
    pool = found.smallest("available_kv_gib")
    shift = 0 if pool is None else pool.bytes - room
    if pool is None and why.kind == "no_room_for_pool":
        shift = min(0, -room)
    needed, length = found.size_bytes("needed_kv_gib"), found.value("needed_kv_seq_len")
    ratio = 1.0
    if needed and memory.minimum_bytes and length == memory.settings.max_model_len:
        ratio = needed / memory.minimum_bytes
    short = why.shortfall_bytes
    if short is None:  # the log does not say by how much: by as much as the estimate may be wrong
        short = max(stage.spent.high - stage.spent.value for stage in memory.stages)
    free = found.size_bytes("free_gib") if why.kind == "not_free_at_start" else None
    said = found.value("estimated_max_len")
    longest = int(said) if said else None
    return Situation(question, memory, estimate, why.kind, why.loading, shift, ratio, short, free, longest)


def changes(at: Situation) -> tuple[Change, ...]:
    """One change a flag, the smallest that works; flags that cannot help are left out."""
    found = []
    for flag, was, candidates in _flags(at):
        change = _first(at, flag, was, candidates)
        if change is not None:
            found.append(change)
    return tuple(found)


_Candidates = Iterable[tuple[Setting, Question]]


def _first(at: Situation, flag: str, was: Setting | None, candidates: _Candidates) -> Change | None:
    for value, question in candidates:
        spare = at.spare(question)
        if spare is None or spare < 0:
            continue
        try:
            estimate = answer(question)
        except CotenantError:
            continue
        concurrency = at.concurrency(question)
        return Change(flag, _argument(at, flag, value), was, value, spare, concurrency, estimate)
    return None


def _argument(at: Situation, flag: str, value: Setting) -> str:
    if flag == "quantization":
        return "checkpoint" if value in at.question.model.checkpoints else "--quantization"
    return argument_of(at.question.engine, at.question.version, at.memory.settings, flag, value)


def _flags(at: Situation) -> Iterator[tuple[str, Setting | None, _Candidates]]:
    """(flag, its value now, values to try from the smallest change on)."""
    now, question = at.memory.settings, at.question
    capability = question.gpu.compute_capability or (0, 0)
    if at.loading or at.kind not in _OVER_CARD:  # a pool fills what a shorter length leaves
        yield "max_model_len", now.max_model_len, _shorter(at, now.max_model_len or 1)
    if now.kv_cache_memory_bytes is None:
        yield "gpu_memory_utilization", now.gpu_memory_utilization, _shares(at, now.gpu_memory_utilization or 0.9)
    yield "max_num_seqs", now.max_num_seqs, _halved(question, "max_num_seqs", now.max_num_seqs, 1)
    yield (
        "max_num_batched_tokens",
        now.max_num_batched_tokens,
        _halved(question, "max_num_batched_tokens", now.max_num_batched_tokens, _SHORTEST),
    )
    if now.kv_cache_dtype == "auto" and capability >= (8, 9):
        yield "kv_cache_dtype", now.kv_cache_dtype, _set(question, kv_cache_dtype=("fp8",))
    if not now.enforce_eager:
        yield "enforce_eager", False, _set(question, enforce_eager=(True,))
    yield "quantization", at.estimate.quantization, _smaller_formats(at)
    ranks = now.tensor_parallel_size
    more = tuple(ranks * factor for factor in (2, 4, 8) if ranks * factor <= _MOST_RANKS)
    yield "tensor_parallel_size", ranks, _set(question, tensor_parallel_size=more)


def _set(question: Question, **values: tuple[Setting, ...]) -> Iterator[tuple[Setting, Question]]:
    """The question with one setting replaced by each of its values in turn."""
    ((name, options),) = values.items()
    for value in options:
        yield value, replace(question, settings=_with(question.settings, name, value))


def _with(settings: EngineSettings, name: str, value: Setting) -> EngineSettings:
    kept = {field: getattr(settings, field) for field in EngineSettings.__dataclass_fields__}
    return EngineSettings(**{**kept, name: value})


def _halved(question: Question, name: str, now: int | None, least: int) -> Iterator[tuple[Setting, Question]]:
    values = []
    value = (now or 0) // 2
    while value >= least:
        values.append(value)
        value //= 2
    return _set(question, **{name: tuple(values)})


def _shorter(at: Situation, now: int) -> Iterator[tuple[Setting, Question]]:
    """The longest length that works, in steps of 16 tokens: what fits grows as lengths shrink."""

    def works(steps: int) -> bool:
        spare = at.spare(replace(at.question, settings=replace(at.question.settings, max_model_len=steps * 16)))
        return spare is not None and spare >= 0

    most = min(now - 1, at.longest or now)
    best = _largest(works, _SHORTEST // 16, most // 16)
    if best is not None:
        yield from _set(at.question, max_model_len=(best * 16,))


def _largest(works: Callable[[int], bool], low: int, high: int) -> int | None:
    """The largest whole number of low..high that works, where smaller ones work too; None for none."""
    if high < low or not works(low):
        return None
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if works(middle) else (low, middle - 1)
    return low


def _shares(at: Situation, now: float) -> Iterator[tuple[Setting, Question]]:
    """Up in hundredths where the pool is short, down where the card is."""
    first = floor(now * 100 + 1e-9)
    down = at.kind == "not_free_at_start" or (at.kind in _OVER_CARD and not at.loading)
    steps = range(first - 1, 4, -1) if down else range(first + 1, round(_MOST_OF_CARD * 100) + 1)
    return _set(at.question, gpu_memory_utilization=tuple(step / 100 for step in steps))


def _smaller_formats(at: Situation) -> Iterator[tuple[Setting, Question]]:
    """Formats that take fewer bytes than the present one and that the card has a kernel for."""
    weights = at.memory.stages[0].weights.bytes.value
    for name in _FORMATS:
        if not _can_be_had(at.question, name):
            continue
        question = replace(at.question, quantization=name)
        try:
            smaller = memory_of(question).stages[0].weights.bytes.value < weights
        except CotenantError:
            continue
        if smaller:
            yield name, question


def _can_be_had(question: Question, name: str) -> bool:
    """A checkpoint in that format is known, or the engine makes it of the plain one while loading."""
    if name in question.model.checkpoints:
        return True
    return not question.model.spec.quantization and bool(find_format(name).engine_flag)
