"""`cotenant verify`: engines are started or found, driven, measured, judged, and those of ours stopped."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from cotenant.domain.calibration import DECODE, FIRST_TOKEN, CalibrationProfile
from cotenant.domain.engine import EngineSettings, is_as_planned
from cotenant.domain.estimate import Estimate
from cotenant.domain.explanation import TERMS
from cotenant.domain.fleet import ModelRequest
from cotenant.domain.loaded import LoadedModel
from cotenant.domain.plan import Plan, ReplicaPlan
from cotenant.domain.verification import Finding, Held, ReplicaVerified, Verification
from cotenant.edge.calibrations import keep
from cotenant.edge.engines import processes, programs
from cotenant.edge.engines.installed import check_engine
from cotenant.edge.engines.strays import strays
from cotenant.edge.store import claim, data_dir
from cotenant.edge.verifying.asked import Asked
from cotenant.edge.verifying.devices import DeviceSource, check_hardware
from cotenant.edge.verifying.engine import LiveEngine, version_of
from cotenant.edge.verifying.journal import FileJournal
from cotenant.edge.verifying.load import HttpLoad
from cotenant.errors import CotenantError, FormatError, InputError
from cotenant.estimation.calibrated import HOST
from cotenant.serving.from_plan import launch_of
from cotenant.verification import campaign, judge, terms
from cotenant.verification.from_plan import side_by_side, subject_of
from cotenant.verification.subject import Subject


def verify_plan(
    plan: Plan, requests: Sequence[ModelRequest], asked: Asked, *, progress: Callable[[str], None]
) -> Verification:
    """The whole campaign. Raises InputError for a plan that cannot be started here, EngineError for an engine that
    does not come up."""
    replicas, urls = _what_runs_where(plan, asked)
    by_name = {one.name: one for one in requests}
    opened = {one.id: _opened(one) for one in replicas}
    subjects = [_subject(plan, one, opened[one.id], by_name.get(one.model)) for one in replicas]
    digest = _digest(plan, asked, urls)
    source = DeviceSource(asked.metrics)
    vocabulary = {name: found[0].spec.vocab_size for name, found in opened.items() if found[0] is not None}
    silent = [subject.id for subject in subjects if subject.silent]
    together = side_by_side(plan, replicas)
    began = time.monotonic()
    with _state(asked.state or data_dir() / "verify" / digest[:16]) as folder:
        journal = FileJournal(folder / "journal.json", f"{digest}/{time.time_ns()}" if asked.fresh else digest)
        engines = {one.id: _engine(one, urls, asked, folder, source) for one in replicas}
        load = HttpLoad(engines, seed=asked.seed, vocabulary=vocabulary, silent=silent, sample_s=asked.sample_s)
        try:
            results = campaign.run(
                subjects, engines, load, journal, asked.rules, side_by_side=together, progress=progress
            )  # fmt: skip
            tides = _watched(engines, asked, progress, results) if asked.watch_s and together else {}
            versions = [_version_line(one, engines[one.id]) for one in replicas if together or one.id in urls]
        finally:
            for engine in engines.values():
                engine.stop()
        if not results.stopped:
            journal.done()
    found = _verification(plan, subjects, results, asked, began)
    if asked.calibration:
        found = replace(found, profiles=_profiles(plan, subjects, found, digest))
    told = tuple(line for line in versions if line is not None)
    open_questions = (*_open_questions(opened), *_unwatched(asked, together), *_unread(source, replicas))
    return replace(
        found, findings=(*told, *found.findings), tides=tides, warnings=(*found.warnings, *open_questions)
    )  # fmt: skip


def _what_runs_where(plan: Plan, asked: Asked) -> tuple[list[ReplicaPlan], dict[str, str]]:
    """(the plan's replicas in the order of their start, addresses of those that run already). Raises InputError
    for a plan that cannot be started here."""
    if not plan.feasible or not plan.replicas:
        raise InputError("this plan is not feasible: there is nothing to verify", hint="see its shortfalls")
    replicas = sorted(plan.replicas, key=lambda one: (one.start_order, one.id))
    urls = _urls(replicas, asked.urls)
    ours = [one for one in replicas if one.id not in urls]
    for engine in sorted({one.engine for one in ours}):
        check_engine(engine)
    check_hardware(plan, ours)
    return replicas, urls


@contextmanager
def _state(folder: Path) -> Iterator[Path]:
    """The folder as ours alone. Engines that a killed run left behind there are stopped: nobody else would, and
    they hold their ports and their memory."""
    with claim(folder, "verification"):
        for process in strays(folder / "logs", ()):
            processes.stop(process)
        yield folder


def planned_steps(plan: Plan, requests: Sequence[ModelRequest], asked: Asked) -> tuple[campaign.Step, ...]:
    """What would be asked of its engines, in order. Nothing is started, and no model opened."""
    by_name = {one.name: one for one in requests}
    replicas = sorted(plan.replicas, key=lambda one: (one.start_order, one.id))
    _urls(replicas, asked.urls)
    subjects = [subject_of(plan, one, None, by_name.get(one.model)) for one in replicas]
    found = [step for subject in subjects for step in campaign.steps_of(subject, asked.rules)]
    if len(subjects) > 1 and side_by_side(plan, replicas):
        found.append(campaign.together(subjects, asked.rules))
    return tuple(found)


def _profiles(
    plan: Plan, subjects: Sequence[Subject], found: Verification, digest: str
) -> tuple[CalibrationProfile, ...]:
    kept = (_kept(plan, subject, found, digest) for subject in subjects)
    return tuple({one.provenance: one for one in kept if one is not None}.values())


def _kept(plan: Plan, subject: Subject, found: Verification, digest: str) -> CalibrationProfile | None:
    """What was measured of it, kept for later estimates; None where nothing was, or where an edge was not met."""
    one = next(each for each in found.replicas if each.id == subject.id)
    expected = dict(zip(TERMS, subject.estimated or (), strict=False))
    pairs = {
        term.name: (float(term.measured), float(expected[term.name].value))
        for term in one.terms
        if term.name in expected and term.measured and expected[term.name].value
    }
    peak = next((point for point in one.points if point.concurrency == subject.concurrency), None)
    if peak is not None and plan.calibration is None:  # else the plan's times follow measurements already
        for name, told, planned in (
            (DECODE, peak.tpot_s, subject.tpot_s),
            (FIRST_TOKEN, peak.ttft_s, subject.ttft_s),
        ):
            if told and planned and told[0] > 0:
                pairs[name] = (told[0], planned[1])
    if not pairs:
        return None
    try:
        return keep(
            pairs, engine=subject.engine, version=subject.version, gpu=HOST if subject.on_host else subject.gpu,
            family=subject.family, source=f"verify {digest[:16]} {subject.id}",
        )  # fmt: skip
    except FormatError:
        raise
    except InputError:  # twenty times off: something else was measured, and no other estimate may follow it
        return None


def _urls(replicas: Sequence[ReplicaPlan], given: Mapping[str, str]) -> dict[str, str]:
    known = {name for one in replicas for name in (one.id, one.model)}
    unknown = sorted(set(given) - known)
    if unknown:
        raise InputError(f"no replica or model {unknown[0][:60]!r} in the plan", path="--url")
    found = {one.id: given.get(one.id) or given.get(one.model) or "" for one in replicas}
    return {name: url for name, url in found.items() if url}


def _opened(replica: ReplicaPlan) -> tuple[LoadedModel | None, Estimate | None, str]:
    """(the model, our estimate of that replica, why there is none)."""
    from cotenant.edge.models import open_model
    from cotenant.edge.own_gpus import open_gpu
    from cotenant.engines import find_engine
    from cotenant.estimation.memory import estimate_memory
    from cotenant.estimation.served_format import served_format

    try:
        loaded = open_model(replica.model_id or replica.checkpoint)
    except CotenantError as error:
        return None, None, f"{replica.id}: {error.message}"
    try:
        engine, version = find_engine(f"{replica.engine}@{replica.engine_version}")
        # with no layer on a card it does not matter which
        card = open_gpu("A100-80GB-SXM" if replica.settings.works_on_host else replica.devices[0].type)
        served = served_format(loaded, replica.quantization or None, card, engine=engine, version=version)
        found = estimate_memory(
            loaded.spec, card, _as_run(replica), engine=engine, version=version, format=served.format,
            used_bytes=replica.beside_bytes, model_path=replica.checkpoint,
        )  # fmt: skip
    except CotenantError as error:
        return loaded, None, f"{replica.id}: {error.message}"
    return loaded, found, ""


def _as_run(replica: ReplicaPlan) -> EngineSettings:
    """Its settings, with the kind of program that would be started here where the plan tells none."""
    settings = replica.settings
    if settings.llama_cpp is None or settings.llama_cpp.program:
        return settings
    return replace(settings, llama_cpp=replace(settings.llama_cpp, program=programs.kind(replica.engine)))


def _open_questions(opened: Mapping[str, tuple[LoadedModel | None, Estimate | None, str]]) -> tuple[str, ...]:
    return tuple(f"{why}; its intervals are not known" for _, _, why in opened.values() if why)


def _unwatched(asked: Asked, together: bool) -> tuple[str, ...]:
    if not asked.watch_s or together:
        return ()
    return ("nothing was watched: the plan's models take turns, and none of them stays up",)


def _unread(source: DeviceSource, replicas: Sequence[ReplicaPlan]) -> tuple[str, ...]:
    on_cards = any(not one.settings.works_on_host for one in replicas)
    return (source.silent,) if source.silent and on_cards else ()


def _subject(
    plan: Plan, replica: ReplicaPlan, opened: tuple[LoadedModel | None, Estimate | None, str],
    request: ModelRequest | None,
) -> Subject:  # fmt: skip
    loaded, found, _ = opened
    return subject_of(plan, replica, found, request, "" if loaded is None else loaded.spec.family)


def _engine(
    replica: ReplicaPlan, urls: Mapping[str, str], asked: Asked, folder: Path, source: DeviceSource
) -> LiveEngine:
    url = urls.get(replica.id, "")
    mine = (replica.id, replica.model)
    log = next((asked.logs[name] for name in mine if name in asked.logs), None)
    pid = next((asked.pids[name] for name in mine if name in asked.pids), None)
    safe = hashlib.sha256(replica.id.encode()).hexdigest()[:12]
    path = log if url else folder / "logs" / f"{safe}.log"
    return LiveEngine(
        replace(launch_of(replica, url.rstrip("/").removesuffix("/v1")), measured=True), log=path, pid=pid,
        device_bytes=source.of(replica), key=asked.key if url else "",
    )  # fmt: skip


def _version_line(replica: ReplicaPlan, engine: LiveEngine) -> Finding | None:
    """Whether what runs is of the version that was planned, where it tells one."""
    told = version_of(engine.url, replica.engine, key=engine.key)
    if told is None:
        return None
    same = is_as_planned(told, replica.engine_version)
    if same is None:
        return None
    text = f"planned {replica.engine} {replica.engine_version}, runs {told}"
    return Finding("engine version", replica.id, Held.YES if same else Held.NO, text)


def _watched(
    engines: Mapping[str, LiveEngine], asked: Asked, progress: Callable[[str], None], results: campaign.Results
) -> dict[str, tuple[tuple[float, int], tuple[float, int]]]:
    """Low and high tide over the watch: readings only, no load of ours."""
    began = time.monotonic()
    seen: dict[str, list[tuple[float, int]]] = {name: [] for name in engines}
    while (now := time.monotonic() - began) < asked.watch_s:
        progress(f"watching, {now:.0f} of {asked.watch_s:.0f} s")
        for name, engine in engines.items():
            reading = engine.reading()
            results.series.setdefault(name, []).append(reading)
            seen[name].append((now, reading.total_bytes))
        time.sleep(min(asked.every_s, max(0.0, asked.watch_s - now)))
    return {
        name: (min(each, key=lambda one: one[1]), max(each, key=lambda one: one[1]))
        for name, each in seen.items() if each
    }  # fmt: skip


def _verification(
    plan: Plan, subjects: Sequence[Subject], results: campaign.Results, asked: Asked, began: float
) -> Verification:
    compared = {}
    verified = []
    for subject in subjects:
        mine = [point for each in results.points.values() for point in each if point.replica == subject.id]
        readings = dict(results.readings.get(subject.id, {}))
        series = results.series.get(subject.id, [])
        peaks = [point.peak for point in mine if point.peak is not None] + series
        if peaks:
            readings["peak"] = max(peaks, key=lambda one: one.total_bytes)
        found = terms.measured(subject, results.logs.get(subject.id), readings)
        compared[subject.id] = terms.compare(subject, found)
        verified.append(
            ReplicaVerified(
                subject.id,
                subject.model,
                subject.engine,
                subject.version,
                subject.gpu,
                subject.family,
                compared[subject.id],
                tuple(mine),
                readings,
                subject.ttft_s,
                subject.tpot_s,
                subject.concurrency,
                subject.tokens,
            )
        )
    lines = judge.findings(subjects, results, compared)
    series_out = {
        name: tuple(replace(one, at_s=one.at_s - began) for one in each) for name, each in results.series.items()
    }
    return Verification(
        tuple(verified), lines, series_out, seed=asked.seed, stopped=results.stopped,
        capacities={gpu.device.type: gpu.capacity_bytes for gpu in plan.gpus}, input_hash=plan.input_hash,
        warnings=plan.warnings,
    )  # fmt: skip


def _digest(plan: Plan, asked: Asked, urls: Mapping[str, str]) -> str:
    told: list[object] = [
        [one.id, one.engine, one.engine_version, one.checkpoint, str(one.settings), one.port]
        for one in plan.replicas
    ]
    told += [str(asked.rules), asked.seed, dict(urls)]
    return hashlib.sha256(json.dumps(told, sort_keys=True, default=str).encode()).hexdigest()
