"""The checklist: which steps, in which order, when to stop. What was done is kept, so that it can go on later.

memory      before, loaded, warm
grow        one request after another, each longer
step        more at once, at a typical length, up to the plan's limit; then longer, up to the longest
beyond      one token more than the plan's longest
peak        the limit at once, each alone
together    all replicas at their peaks at once
traffic     the plan's own traffic, as it comes (open loop)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from cotenant.domain.measurement import Measurement
from cotenant.domain.verification import Ask, Point, Reading, Reply
from cotenant.units import plural
from cotenant.verification.ports import Engine, Journal, Load, Stop
from cotenant.verification.record import point_from, point_record, reading_from, reading_record
from cotenant.verification.subject import Subject
from cotenant.verification.traffic import arrivals

MOST_ERRORS = 2
_FULL = "its pool is"
_QUEUED = 4  # an open loop sends although the engine is full, so that its queue is seen


@dataclass(frozen=True, slots=True)
class Rules:
    """When to stop and how much to ask. `max_kv` is a share 0..1 of a pool; more than `most_errors` failed
    requests in a step end it. `quick`: limits alone, no steps between. `most_tokens` caps what one request asks
    (a processor reads slowly); None: the plan's longest."""

    max_kv: float = 0.9
    most_errors: int = MOST_ERRORS
    quick: bool = False
    rounds: int = 1
    most_tokens: int | None = None
    most_concurrency: int | None = None
    open_s: float = 0.0  # so long the plan's own traffic at the end


@dataclass(frozen=True, slots=True)
class Step:
    """One load. `shape` by replica: (at once, tokens in, tokens out); `beyond` asks for what must be refused."""

    key: str
    kind: str
    shape: Mapping[str, tuple[int, int, int]]
    beyond: bool = False
    asks: tuple[Ask, ...] = ()  # where they do not all come at once


@dataclass(slots=True)
class Results:
    """What came back, by step: points by (kind, replica), readings by replica, what was stopped and why."""

    points: dict[str, list[Point]] = field(default_factory=dict)
    readings: dict[str, dict[str, Reading]] = field(default_factory=dict)
    series: dict[str, list[Reading]] = field(default_factory=dict)
    logs: dict[str, Measurement | None] = field(default_factory=dict)
    stopped: str = ""
    skipped: list[str] = field(default_factory=list)


def steps_of(subject: Subject, rules: Rules) -> tuple[Step, ...]:
    """The steps of one replica alone."""
    longest = min(subject.tokens, rules.most_tokens or subject.tokens)
    most = min(subject.concurrency, rules.most_concurrency or subject.concurrency)
    out = 1 if subject.silent else max(1, min(subject.output_tokens, longest // 4))
    typical = max(1, min(subject.input_tokens, longest - out))
    found: list[Step] = []
    if not rules.quick:
        found += [_step("grow", subject, 1, max(1, longest * part // 8), 1) for part in (1, 2, 4)]
        found += [_step("step", subject, count, typical, out) for count in _doubling(most)]
        found += [_step("step", subject, 1, size, out) for size in _doubling(longest - out, 2 * typical)]
    found.append(_step("peak", subject, most, longest - out, out))
    if longest == subject.tokens:  # else its edge is not reached
        found.append(replace(_step("beyond", subject, 1, subject.tokens + 8, 1), beyond=True))
    return tuple({step.key: step for step in found}.values())


def _step(kind: str, subject: Subject, count: int, tokens_in: int, tokens_out: int) -> Step:
    key = f"{subject.id}/{kind}/{count}x{tokens_in}+{tokens_out}"
    return Step(key, kind, {subject.id: (count, tokens_in, tokens_out)})


def _doubling(most: int, least: int = 1) -> tuple[int, ...]:
    """least, twice that, ... and `most` itself."""
    found: list[int] = []
    value = max(1, least)
    while value < most:
        found.append(value)
        value *= 2
    return (*found, most) if most >= least else ()


def together(subjects: Sequence[Subject], rules: Rules) -> Step:
    """All at their peaks at once."""
    peaks = [steps_of(subject, replace(rules, quick=True))[0] for subject in subjects]
    shape = {name: asked for step in peaks for name, asked in step.shape.items()}
    return Step("together/" + ",".join(sorted(shape)), "together", shape)


def run(
    subjects: Sequence[Subject],
    engines: Mapping[str, Engine],
    load: Load,
    journal: Journal,
    rules: Rules,
    *,
    side_by_side: bool,
    progress: Callable[[str], None] = lambda _: None,
) -> Results:
    """All of it. With `side_by_side` engines stay up and are driven together at the end; else each is stopped
    before the next starts, since the plan lets them take turns."""
    found = Results()
    for subject in subjects:
        engine = engines[subject.id]
        if not _begin(subject, engine, load, journal, found, progress):
            for step in steps_of(subject, rules):
                progress(step.key)
                if _do(step, [subject], load, journal, rules, found):
                    break
        found.readings.setdefault(subject.id, {})["after"] = engine.reading()
        found.logs[subject.id] = engine.log()
        if not side_by_side:
            if not found.stopped:
                _open([subject], load, journal, rules, found, progress)
            engine.stop()
        if found.stopped:
            return found
    if side_by_side and len(subjects) > 1:
        step = together(subjects, rules)
        progress(step.key)
        _do(step, subjects, load, journal, rules, found)
    if side_by_side and not found.stopped:
        _open(subjects, load, journal, rules, found, progress)
    return found


def _open(
    subjects: Sequence[Subject], load: Load, journal: Journal, rules: Rules, found: Results,
    progress: Callable[[str], None],
) -> None:  # fmt: skip
    """The plan's own traffic of all of them together, where a time and rates are told."""
    if rules.open_s <= 0:
        return
    drawn = [ask for one in subjects for ask in arrivals(one, rules.open_s, load.uniform)]
    asks = tuple(sorted(drawn, key=lambda one: one.at_s))
    names = {ask.replica for ask in asks}
    if not asks:
        return
    shape = {one.id: (one.concurrency, one.input_tokens, one.output_tokens) for one in subjects if one.id in names}
    step = Step(f"traffic/{','.join(sorted(shape))}/{rules.open_s:g}", "traffic", shape, asks=asks)
    progress(step.key)
    _do(step, subjects, load, journal, rules, found)


def _begin(
    subject: Subject, engine: Engine, load: Load, journal: Journal, found: Results,
    progress: Callable[[str], None],
) -> bool:  # fmt: skip
    """Start it and ask it once; whether it must be left alone."""
    kept = {} if engine.ours else {"before": engine.reading()}
    progress(f"{subject.id}: starts")
    engine.start()
    kept["loaded"] = engine.reading()
    tokens = 1 if subject.silent else 2
    first = Ask(subject.id, min(8, subject.tokens), tokens)
    replies, readings, _ = load.send([first], concurrency={subject.id: 1}, stop=lambda *_: "")
    kept["warm"] = engine.reading()
    before = journal.get(f"{subject.id}/memory")
    if isinstance(before, dict):  # as it was when it was new
        kept |= {name: reading_from(one) for name, one in before.items() if name in ("loaded", "warm")}
    else:
        journal.put(f"{subject.id}/memory", {name: reading_record(one) for name, one in kept.items()})
    found.readings[subject.id] = kept
    found.series.setdefault(subject.id, []).extend(one for _, one in readings)
    if replies and replies[0].error:
        found.stopped = f"{subject.id}: the first request failed: {replies[0].error}"
    return bool(found.stopped)


def _do(
    step: Step, subjects: Sequence[Subject], load: Load, journal: Journal, rules: Rules, found: Results
) -> bool:
    """One step, or what the journal has of it; whether the campaign must stop."""
    kept = journal.get(step.key)
    if isinstance(kept, list):
        for record in kept:
            point = point_from(record)
            found.points.setdefault(step.kind, []).append(point)
        return any(record.get("stopped") for record in kept)
    asks = list(step.asks) or [
        Ask(name, tokens_in, tokens_out)
        for name, (count, tokens_in, tokens_out) in step.shape.items()
        for _ in range(count * rules.rounds)
    ]
    replies, readings, stopped = load.send(
        asks, concurrency={name: shape[0] * (_QUEUED if step.asks else 1) for name, shape in step.shape.items()},
        stop=lambda *_: "" if step.beyond else stop_rule(rules)(*_),
    )  # fmt: skip
    points = [
        point_of(name, shape, replies, readings, stopped) for name, shape in step.shape.items()
    ]  # fmt: skip
    for name, one in readings:
        found.series.setdefault(name, []).append(one)
    found.points.setdefault(step.kind, []).extend(points)
    if not stopped or stopped.startswith(_FULL):
        journal.put(step.key, [point_record(point) for point in points])
    else:
        found.stopped = f"{step.key}: {stopped}"
    return bool(stopped)


def stop_rule(rules: Rules) -> Stop:
    """The rule that keeps an engine in production up. A pool nearly full ends the steps of that replica, errors
    end the campaign."""

    def reason(reading: Reading, replies: Sequence[Reply]) -> str:
        errors = [one for one in replies if one.error]
        if len(errors) > rules.most_errors:
            return f"{plural(len(errors), 'request')} failed, the first: {errors[0].error}"
        if reading.kv_used is not None and reading.kv_used > rules.max_kv:
            return f"{_FULL} {reading.kv_used:.0%} full, more than {rules.max_kv:.0%}"
        return ""

    return reason


def point_of(
    name: str,
    shape: tuple[int, int, int],
    replies: Sequence[Reply],
    readings: Sequence[tuple[str, Reading]],
    stopped: str,
) -> Point:
    """One replica's part of a step."""
    mine = [one for one in replies if one.ask.replica == name]
    good, bad = [one for one in mine if not one.error], [one for one in mine if one.error]
    seen = [one for replica, one in readings if replica == name]
    used = [one.kv_used for one in seen if one.kv_used is not None]
    evicted = [one.preemptions for one in seen if one.preemptions is not None]
    return Point(
        name, *shape, answered=len(good), errors=len(bad),
        ttft_s=_two([one.ttft_s for one in good]),
        tpot_s=_two([one.tpot_s for one in good if one.tpot_s is not None]),
        peak=max(seen, key=lambda one: one.total_bytes, default=None),
        kv_used=max(used, default=None),
        preemptions=evicted[-1] - evicted[0] if evicted else None,
        first_error=bad[0].error if bad else "", stopped=stopped,
    )  # fmt: skip


def _two(values: Sequence[float]) -> tuple[float, float] | None:
    """The median and the 95th percentile (the next value up)."""
    ordered = sorted(values)
    if not ordered:
        return None
    last = len(ordered) - 1
    return ordered[last // 2], ordered[min(last, -(-95 * last // 100))]
