"""What came back, held against the plan: a finding a line of the checklist."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from cotenant.domain.measurement import Measurement
from cotenant.domain.verification import Finding, Held, Point, Reading, Term
from cotenant.units import format_bytes, format_percent, format_seconds
from cotenant.verification.campaign import Results
from cotenant.verification.subject import Subject

_GROWTH = 8 * 2**20  # arenas and threads of a server under load
_STARVED = 1.5  # times slower beside the others than alone, from which a replica is said to starve


def findings(
    subjects: Sequence[Subject], results: Results, terms: Mapping[str, Sequence[Term]]
) -> tuple[Finding, ...]:
    """All lines, in the order of the checklist."""
    found: list[Finding] = []
    for subject in subjects:
        readings = results.readings.get(subject.id, {})
        if not readings:
            continue
        found.append(weights_once(subject, readings, results.logs.get(subject.id)))
        found += _term_lines(subject, terms[subject.id])
        found.append(cache_grows(subject, results, results.logs.get(subject.id)))
        found.append(edge(subject, results))
        found += times(subject, results)
    found += starving(subjects, results)
    return tuple(found)


def weights_once(subject: Subject, readings: Mapping[str, Reading], log: Measurement | None) -> Finding:
    """Were weights loaded once: mapped from their file (shared), copied, or both?"""
    loaded, before = readings.get("loaded"), readings.get("before")
    weights, cache = subject.terms[0].value, subject.terms[1].value
    check = "weights loaded once"
    if loaded is None or not weights:
        return Finding(check, subject.id, Held.UNKNOWN, "nothing was loaded")
    if not subject.on_host:
        if loaded.device_bytes is None:
            return Finding(check, subject.id, Held.UNKNOWN, "nothing tells what its processes hold on their cards")
        rest = loaded.device_bytes - cache - subject.terms[3].low
        text = f"{format_bytes(loaded.device_bytes)} on its card after loading, KV cache included"
        return Finding(check, subject.id, Held.YES if rest < 1.5 * weights else Held.NO, text)
    mapped = loaded.model_file_bytes
    copied = loaded.anonymous_bytes - (before.anonymous_bytes if before else 0) - cache
    if mapped > weights // 2:
        twice = copied > weights // 2 + subject.terms[3].high
        shared = f", {format_bytes(loaded.model_shared_bytes)} of it with others" * bool(loaded.model_shared_bytes)
        if twice:
            return Finding(
                check, subject.id, Held.NO, f"mapped from the file ({format_bytes(mapped)}) and copied as well"
            )
        return Finding(check, subject.id, Held.YES, f"mapped from the file, {format_bytes(mapped)}{shared}")
    held = Held.YES if copied < 1.5 * weights + subject.terms[3].high else Held.NO
    return Finding(check, subject.id, held, f"copied, not mapped: {format_bytes(max(0, copied))} beside the cache")


def _term_lines(subject: Subject, terms: Sequence[Term]) -> Iterator[Finding]:
    for term in terms:
        expected = term.predicted
        if expected is None:
            continue
        if term.measured is None:
            text = f"predicted {format_bytes(expected.value)}; {term.source}"
        else:
            off = (term.measured - expected.value) / expected.value if expected.value else 0.0
            share = f" ({round(off, 3) + 0.0:+.1%})" if expected.value else ""
            text = f"predicted {format_bytes(expected.value)}, measured {format_bytes(term.measured)}{share}"
        yield Finding(term.name, subject.id, term.held, text)


def cache_grows(subject: Subject, results: Results, log: Measurement | None) -> Finding:
    """Does KV grow as the formula says? Where an engine tells the share of its pool, by that; else by memory."""
    check = "KV grows as predicted"
    points = [one for one in results.points.get("grow", ()) if one.replica == subject.id and one.answered]
    pool = subject.terms[1].value
    if not subject.token_bytes or not pool:
        return Finding(check, subject.id, Held.YES, "nothing is cached")
    told = [one for one in points if one.kv_used]
    if len(told) >= 2:
        first, last = told[0], told[-1]
        tokens = last.input_tokens - first.input_tokens
        if tokens > 0 and last.kv_used is not None and first.kv_used is not None:
            measured = (last.kv_used - first.kv_used) * pool / tokens
            held = Held.YES if abs(measured / subject.token_bytes - 1) <= 0.05 else Held.NO
            text = f"{subject.token_bytes:,} B a token predicted, {measured:,.0f} measured"
            return Finding(check, subject.id, held, text)
    readings = results.readings.get(subject.id, {})
    loaded = readings.get("loaded")
    peaks = [one.peak for one in points if one.peak is not None]
    if loaded is None or not peaks or log is None:
        return Finding(check, subject.id, Held.UNKNOWN, "neither the engine nor its log tells")
    cells, printed = log.value("cells"), _cache_bytes(log)
    if not printed:
        return Finding(check, subject.id, Held.UNKNOWN, "its log does not print its cache")
    later = [
        one.peak for each in results.points.values() for one in each if one.replica == subject.id and one.peak
    ]
    grown = max(one.anonymous_bytes for one in later) - loaded.anonymous_bytes
    limit = subject.terms[2].high + printed // 10 + _GROWTH  # compute buffers are touched as they are used
    text = f"reserved whole at start ({format_bytes(printed)}{f', {cells:,.0f} cells' if cells else ''})"
    if grown > limit:
        return Finding(check, subject.id, Held.NO, f"{text}, yet {format_bytes(grown)} more while requests ran")
    return Finding(check, subject.id, Held.YES, f"{text}, and no more while requests ran")


def _cache_bytes(log: Measurement) -> int:
    return sum(figure.bytes for name in ("kv_buffer_mib", "rs_buffer_mib") for figure in log.every(name, None))


def edge(subject: Subject, results: Results) -> Finding:
    """Where is the edge, and is it where the plan put it?"""
    check = "the edge is where planned"
    peak = _point(results, "peak", subject.id)
    beyond = _point(results, "beyond", subject.id)
    full = next((one for one in _mine(results, subject.id) if one.stopped), None)
    if full is not None:
        text = f"left alone at {full.concurrency} at once of {full.input_tokens + full.output_tokens:,} tokens"
        return Finding(check, subject.id, Held.UNKNOWN, f"{text}: {full.stopped}")
    if peak is None:
        return Finding(check, subject.id, Held.UNKNOWN, results.stopped or "its limit was not asked")
    asked = f"{peak.concurrency} at once of {peak.input_tokens + peak.output_tokens:,} tokens"
    if peak.errors:
        return Finding(check, subject.id, Held.NO, f"{asked}: {peak.errors} failed ({peak.first_error})")
    held = peak.peak.total_bytes if peak.peak is not None else 0
    if held > subject.claimed_bytes:
        over = format_bytes(held - subject.claimed_bytes)
        return Finding(check, subject.id, Held.NO, f"{asked} take {over} more than the plan gives it")
    if beyond is None:
        return Finding(check, subject.id, Held.UNKNOWN, f"{asked} answered; nothing beyond was asked")
    if beyond.errors:
        return Finding(check, subject.id, Held.YES, f"{asked} answered, {beyond.input_tokens:,} tokens refused")
    text = f"{asked} answered, and {beyond.input_tokens:,} tokens too, which the plan does not count on"
    return Finding(check, subject.id, Held.NO, text)


def times(subject: Subject, results: Results) -> Iterator[Finding]:
    """Step times at the peak beside those of the plan."""
    peak = _point(results, "peak", subject.id)
    for name, predicted, measured in (
        ("TTFT", subject.ttft_s, None if peak is None else peak.ttft_s),
        ("TPOT", subject.tpot_s, None if peak is None else peak.tpot_s),
    ):
        if measured is None:
            continue
        text = f"{format_seconds(measured[0])} p50, {format_seconds(measured[1])} p95 at its limit"
        if predicted is None:
            yield Finding(name, subject.id, Held.UNKNOWN, f"{text}; the plan says nothing of it")
            continue
        low, value, high = predicted
        held = Held.YES if low <= measured[1] <= high else Held.NO
        text = f"predicted {format_seconds(value)} ({format_seconds(low)} to {format_seconds(high)}), {text}"
        yield Finding(name, subject.id, held, text)


def starving(subjects: Sequence[Subject], results: Results) -> list[Finding]:
    """Does one model's load starve the rest? Each beside the others against itself alone."""
    check = "no model starves another"
    points = results.points.get("together", [])
    if not points:
        if len(subjects) < 2:
            return []
        text = "they take turns in the plan, and are never asked at once" if not results.stopped else "not reached"
        return [Finding(check, "", Held.UNKNOWN, text)]
    found = []
    for point in points:
        alone = _point(results, "peak", point.replica)
        others = [one for one in points if one.replica != point.replica]
        heaviest = max(others, key=lambda one: one.concurrency * (one.input_tokens + one.output_tokens))
        promised = any(one.id == point.replica and (one.ttft_s or one.tpot_s) for one in subjects)
        found.append(_beside(check, point, alone, heaviest.replica, promised=promised))
    return found


def _beside(check: str, point: Point, alone: Point | None, heaviest: str, *, promised: bool) -> Finding:
    """Lost requests or preemptions are a cache that starves; longer times are so where the plan promised times."""
    if point.errors or (point.preemptions or 0) > ((alone.preemptions or 0) if alone else 0):
        lost = f"{point.errors} failed" if point.errors else f"{point.preemptions} preempted"
        return Finding(check, point.replica, Held.NO, f"{lost} beside {heaviest}, which takes most")
    pairs = [
        (name, mine[0] / theirs[0])
        for name, mine, theirs in (
            ("TPOT", point.tpot_s, alone and alone.tpot_s),
            ("TTFT", point.ttft_s, alone and alone.ttft_s),
        )
        if mine and theirs and theirs[0] > 0
    ]
    if not pairs:
        return Finding(check, point.replica, Held.UNKNOWN, "no times alone to compare with")
    name, ratio = max(pairs, key=lambda pair: pair[1])
    if ratio > _STARVED:
        text = f"{name} {ratio:.1f} times as long beside {heaviest}, whose requests take most"
        held = Held.NO if promised else Held.UNKNOWN
        return Finding(check, point.replica, held, f"{text}: time is shared, no cache was lost")
    used = "" if point.kv_used is None else f", pool {format_percent(point.kv_used)} full"
    return Finding(check, point.replica, Held.YES, f"{name} {ratio:.2f} times as long as alone{used}")


def _mine(results: Results, replica: str) -> list[Point]:
    alone = (each for kind, each in results.points.items() if kind not in ("together", "traffic"))
    return [one for each in alone for one in each if one.replica == replica]


def _point(results: Results, kind: str, replica: str) -> Point | None:
    return next((one for one in results.points.get(kind, ()) if one.replica == replica), None)
