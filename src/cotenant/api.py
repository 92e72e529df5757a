"""The Python face: opens what must be opened, then calls the rooms.

Each function takes a path, a mapping or the value itself and returns the value that its JSON prints. Words are
those of the command line; an engine's own options keep the engine's names. Everything else is imported when it
is needed, so that `import cotenant` and a single estimate stay light.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from os import PathLike

    from cotenant.domain.conditions import Conditions
    from cotenant.domain.contender import Contender
    from cotenant.domain.deployment import Deployment
    from cotenant.domain.estimate import Estimate
    from cotenant.domain.explanation import Explanation
    from cotenant.domain.fleet import Fleet, ModelRequest
    from cotenant.domain.gpu import GpuSpec
    from cotenant.domain.loaded import LoadedModel
    from cotenant.domain.model import ModelSpec
    from cotenant.domain.plan import Plan
    from cotenant.domain.replay import Replay
    from cotenant.domain.verification import Verification
    from cotenant.domain.what_if import Sweep, WhatIfPoint
    from cotenant.domain.workload import Adapter, Trace
    from cotenant.planning.scenes import Replayer

    ModelSource = str | PathLike[str] | Mapping[str, Any] | ModelSpec | LoadedModel
    FleetSource = str | PathLike[str] | Mapping[str, Any] | Fleet
    PlanSource = FleetSource | Plan

Answer = TypeVar("Answer", bound="Estimate | Plan")

__all__ = [
    "compare_plans",
    "deploy",
    "estimate",
    "explain",
    "load_fleet",
    "load_model",
    "plan",
    "simulate",
    "simulate_many",
    "verify",
    "what_if",
]


def load_model(source: ModelSource) -> LoadedModel:
    """The model that `source` names: a catalogue name or alias, a hub id, a folder, a config.json, a
    .safetensors or .gguf file, raw figures, a parsed config, or the value itself.

    Raises UnknownModelError naming the nearest, UnknownArchitectureError, FormatError, HubError.
    """
    from cotenant.edge.models import open_model

    return open_model(source)


def load_fleet(source: FleetSource) -> Fleet:
    """The fleet in a YAML or JSON file, a mapping, or the value itself. Raises InputErrors with every fault."""
    from cotenant.domain.fleet import Fleet

    if isinstance(source, Fleet):
        return source
    from cotenant.edge.models import open_model
    from cotenant.edge.own_gpus import own_gpus
    from cotenant.edge.traces import trace_opener
    from cotenant.readers.fleet import fleet_from, read_fleet

    if isinstance(source, Mapping):
        return fleet_from(source, load_model=open_model, load_trace=trace_opener(), extra=own_gpus())
    from cotenant.edge.text import read_text

    return read_fleet(
        read_text(source),
        load_model=open_model,
        load_trace=trace_opener(source),
        path=str(source),
        extra=own_gpus(),
    )


def estimate(
    model: ModelSource,
    *,
    gpu: str | Mapping[str, Any] | GpuSpec,
    engine: str = "vllm",
    quantization: str | None = None,
    used: str | int = 0,
    tensor_parallel_size: int = 1,
    pipeline_parallel_size: int = 1,
    decode_context_parallel_size: int = 1,
    dtype: str = "auto",
    kv_cache_dtype: str = "auto",
    max_model_len: int | None = None,
    max_num_seqs: int | None = None,
    max_num_batched_tokens: int | None = None,
    gpu_memory_utilization: float | None = None,
    kv_cache_memory_bytes: int | None = None,
    block_size: int | None = None,
    enforce_eager: bool = False,
    enable_expert_parallel: bool = False,
    enable_prefix_caching: bool | None = None,
    enable_lora: bool = False,
    max_loras: int | None = None,
    max_lora_rank: int | None = None,
    speculative_config: Mapping[str, Any] | str | None = None,
    adapters: Sequence[Adapter | Mapping[str, Any]] = (),
    concurrent: int | None = None,
    requests_per_second: float | None = None,
    context_tokens: Mapping[str, int] | None = None,
    input_tokens: Mapping[str, int] | None = None,
    output_tokens: Mapping[str, int] | None = None,
    ttft: str | None = None,
    tpot: str | None = None,
    percentile: float = 95.0,
    kv_overflow: str = "1%",
    options: Mapping[str, Any] | None = None,
    calibration: bool = True,
    aiconfigurator: bool = True,
) -> Estimate:
    """What one replica takes of `gpu`, term by term, and whether it fits.

    `engine` may carry a version (``vllm@0.21``); `quantization` is a format's name, by default the one that the
    model is stored in. `used` (``11GiB``) is held on each card by others. Engine options are read as the engine
    reads them; those left out take its defaults, or follow from the traffic where some is given: `concurrent`
    with `context_tokens`, or `requests_per_second` with `input_tokens` and `output_tokens`, each
    ``{p50: ..., p95: ..., max: ...}``. `options` are the engine's own, in its words:
    ``{mem_fraction_static: 0.85}``, ``{max_input_tokens: 3072, max_total_tokens: 4096}``,
    ``{ctx_size: 32768, parallel: 4}``, ``{num_ctx: 8192, OLLAMA_NUM_PARALLEL: 4}``. `speculative_config` is
    vLLM's: ``{method: mtp, num_speculative_tokens: 2}``, ``{model: OWNER/DRAFT, num_speculative_tokens: 3}``.
    Terms follow what was measured of that engine, version, card and model family (`verify`, `explain --save`),
    unless `calibration` is false; step times are combined with AIConfigurator's where it is installed, unless
    `aiconfigurator` is false. Raises InputErrors and its kin for anything that cannot be used.
    """
    from dataclasses import replace

    from cotenant.edge.own_gpus import open_gpu
    from cotenant.engines import find_engine, read_words
    from cotenant.engines.speculative import read_speculative, refuse_elsewhere, split_speculative
    from cotenant.estimation.options import adapters_from, engine_settings, overflow_from, slo_from, traffic_from
    from cotenant.estimation.question import Question, answer
    from cotenant.readers.draft_model import open_speculation
    from cotenant.units import parse_bytes

    rules, version = find_engine(engine)
    tuned = adapters_from(adapters)
    common = {
        "tensor_parallel_size": tensor_parallel_size,
        "pipeline_parallel_size": pipeline_parallel_size,
        "decode_context_parallel_size": decode_context_parallel_size,
        "dtype": dtype,
        "kv_cache_dtype": kv_cache_dtype,
        "max_model_len": max_model_len,
        "max_num_seqs": max_num_seqs,
        "max_num_batched_tokens": max_num_batched_tokens,
        "gpu_memory_utilization": gpu_memory_utilization,
        "kv_cache_memory_bytes": kv_cache_memory_bytes,
        "block_size": block_size,
        "enforce_eager": enforce_eager,
        "enable_expert_parallel": enable_expert_parallel,
        "enable_prefix_caching": enable_prefix_caching,
        "enable_lora": enable_lora,
        "max_loras": max_loras,
        "max_lora_rank": max_lora_rank,
    }
    asked, words = split_speculative(rules.name, {} if options is None else options)
    told, own = read_words(rules, words)
    quantization = quantization or told.pop("quantization", None)
    asked = asked or read_speculative(speculative_config)
    settings = engine_settings(common | told, tuned)
    refuse_elsewhere(rules.name, rules.title, asked, settings.decode_context_parallel_size)
    loaded = load_model(model)
    drafted = open_speculation(asked, loaded.spec, load_model)
    question = Question(
        settings=replace(settings, llama_cpp=own, speculation=drafted),
        traffic=traffic_from(
            concurrent=concurrent,
            requests_per_second=requests_per_second,
            context_tokens=context_tokens,
            input_tokens=input_tokens,
            output_tokens=output_tokens,
        ),
        slo=slo_from(ttft, tpot, percentile),
        overflow=overflow_from(kv_overflow),
        adapters=tuned,
        gpu=open_gpu(gpu),
        used_bytes=parse_bytes(used),
        engine=rules,
        version=version,
        quantization=quantization,
        model=loaded,
    )
    return _calibrated(lambda: answer(question), calibration, aiconfigurator)


def plan(
    fleet: FleetSource,
    *,
    replay: bool = False,
    why: bool = False,
    seed: int = 0,
    previous: PlanSource | None = None,
    time_limit: str | None = None,
    workers: int | None = 1,
    calibration: bool = True,
    aiconfigurator: bool = True,
    progress: Callable[[str], None] | None = None,
) -> Plan:
    """Who runs where, in what precision, with which flags: placed, checked, with its cost, bound and gap.

    With `replay` its traffic is replayed (drawn from `seed`); where an SLO breaks, that model gets more room or
    less company and all is planned again, until every SLO holds or nothing does (`promises_held`). With
    `previous`, a plan that runs (a value, a path, a mapping), of the cheapest plans one near it is taken, and
    `migration` says what stays, what moves and in which order. With `why` each wish is dropped once to see what it
    costs (`relaxations`). After `time_limit` (``10s``) the best plan known by then is taken; `deterministic` is
    then false, since another machine may know another. Estimates follow what was measured, unless `calibration` is
    false, and step times are combined with AIConfigurator's where it is installed, unless `aiconfigurator` is
    false. Fleets of hundreds are sized and packed by `workers` processes (None: as many as cores), with the same
    plan; a script that asks for several needs ``if __name__ == "__main__"``. `progress` is told what is being
    done. Where nothing fits the nearest plan comes back, with `feasible` false and what each model without a
    place lacks.
    """
    from cotenant.edge.crews import crew_of
    from cotenant.planning.change import plan_change
    from cotenant.planning.crew import working
    from cotenant.planning.promise import keep_promises
    from cotenant.planning.solve import plan_fleet

    tell = progress or (lambda _: None)
    tell("reading the fleet")
    question = load_fleet(fleet)

    def made() -> Plan:
        if previous is not None:
            return plan_change(question, _running(previous, replay), progress=tell)
        if time_limit is not None:
            return _planned_within(question, time_limit, tell, (calibration, aiconfigurator))
        if not replay:
            return plan_fleet(question, priced=why, progress=tell)
        return keep_promises(question, _replayer(question, seed, tell), progress=tell)

    with crew_of(workers) as crew, working(crew):
        return _calibrated(made, calibration, aiconfigurator)


def _calibrated(make: Callable[[], Answer], calibration: bool, aiconfigurator: bool) -> Answer:
    """What `make` gives with all that is known in force, and a word on the measurements that it used."""
    from dataclasses import replace

    from cotenant.edge.calibrations import notes_of, version_of
    from cotenant.edge.known import known

    with known(calibration, aiconfigurator) as held:
        found = make()
    version = version_of(held)
    if version is None:
        return found
    return replace(found, calibration=version, warnings=(*found.warnings, *notes_of(held)))


def _planned_within(fleet: Fleet, time_limit: str, tell: Callable[[str], None], wanted: tuple[bool, bool]) -> Plan:
    from dataclasses import replace
    from functools import partial

    from cotenant.edge.deadline import within
    from cotenant.edge.known import with_known
    from cotenant.errors import InputError
    from cotenant.planning.hurried import hurried_plan
    from cotenant.planning.solve import plan_fleet
    from cotenant.units import parse_seconds

    seconds = parse_seconds(time_limit)
    if seconds <= 0:
        raise InputError("a time limit above zero is needed", hint="10s")
    tell(f"packing, for {time_limit} at most")
    found = within(seconds, partial(with_known, *wanted, plan_fleet, fleet))
    return hurried_plan(fleet, tell) if found is None else replace(found, deterministic=False)


def what_if(
    fleet: FleetSource,
    sweep: str,
    *,
    points: int = 8,
    workers: int | None = None,
    calibration: bool = True,
    aiconfigurator: bool = True,
    progress: Callable[[str], None] | None = None,
) -> tuple[Sweep, tuple[WhatIfPoint, ...]]:
    """The fleet planned again with more or less of something: ``traffic=0.5..4``, ``slo=0.5..2``,
    ``price:L4=0.8..1.5``, at `points` equal ratios, each in a process of its own (`workers` at once).
    `calibration` and `aiconfigurator` are as in `plan`.
    """
    from functools import partial

    from cotenant.edge.apart import each_apart
    from cotenant.edge.known import with_known
    from cotenant.planning.what_if import point, read_sweep

    tell = progress or (lambda _: None)
    question = load_fleet(fleet)
    asked = read_sweep(sweep, question, points=points)
    function = partial(with_known, calibration, aiconfigurator, point, question, asked)
    found = []
    for one in each_apart(function, asked.factors, workers=workers):
        found.append(one)
        tell(f"{len(found)} of {len(asked.factors)} planned")
    return asked, tuple(found)


def _running(previous: PlanSource, replay: bool) -> Plan:
    from cotenant.edge.plans import given_plan
    from cotenant.errors import InputError

    if replay:
        raise InputError("a change of plans is not replayed yet", hint="give one of previous and replay")
    found = given_plan(previous)
    if found is None:
        named = f"{previous} is" if isinstance(previous, str) else "what runs is"
        raise InputError(f"{named} not a plan", hint="cotenant plan FLEET -o plan.json writes one")
    return found


def compare_plans(
    fleet: FleetSource,
    strategies: Sequence[str] = ("naive", "greedy", "optimal"),
    *,
    seed: int = 0,
    calibration: bool = True,
    aiconfigurator: bool = True,
    progress: Callable[[str], None] | None = None,
) -> tuple[Contender, ...]:
    """Ways to place one fleet side by side: cards, cost, headroom, and what each attains when its traffic is
    replayed. ``naive``: each model alone, 16 bits, full context x 16 slots; ``greedy``: largest first, where it
    costs least; ``optimal``: as `plan`; ``promised``: as `plan` with `replay`; ``elastic``, ``spatial``: the
    optimal plan if engines lent each other KV cache, and multiprocessors too (simulated only: no engine is driven
    so). `calibration` and `aiconfigurator` are as in `plan`.
    """
    from cotenant.edge.known import known
    from cotenant.planning.compare import compare

    tell = progress or (lambda _: None)
    question = load_fleet(fleet)
    with known(calibration, aiconfigurator):
        return compare(question, strategies, _replayer(question, seed, tell), progress=tell)


def _replayer(fleet: Fleet, seed: int, tell: Callable[[str], None]) -> Replayer:
    """The simulator as the planner may ask it; neither room knows the other."""
    from cotenant.planning.launch import reestimate
    from cotenant.simulation.hosting import hosting
    from cotenant.simulation.run import replay

    fresh = reestimate(fleet)

    def replayer(
        plan: Plan, models: Sequence[ModelRequest], seconds: float, /, *, policy: str = "static"
    ) -> Replay:
        by_name = {model.name: model for model in models}
        hostings = [hosting(by_name[one.model], one, fresh(by_name[one.model], one)) for one in plan.replicas]
        return replay(plan, models, hostings, seed=seed, policy=policy, duration_s=seconds, progress=tell)

    return replayer


def simulate(
    fleet: FleetSource | PlanSource,
    *,
    traces: Sequence[str] | Mapping[str, str | PathLike[str] | Trace] = (),
    duration: str | None = None,
    arrivals: str | None = None,
    seed: int = 0,
    policy: str = "static",
    patience: str = "10s",
    conditions: Conditions | None = None,
    calibration: bool = True,
    aiconfigurator: bool = True,
    progress: Callable[[str], None] | None = None,
) -> Replay:
    """The plan of `fleet` replayed token by token against its traffic, the same for the same `seed`.

    `fleet` may be a plan too (itself or its JSON, which holds the fleet that it was made for). `traces` are
    replayed instead of the fleet's own traffic: a mapping from names, or ``NAME=FILE`` (``FILE`` where the fleet
    has one model). `duration` (``600s``) is how long requests come: by default the traces whole, else 300 s.
    `arrivals` says how rates come: ``poisson``, ``gamma:2`` (bursts), ``on-off:30s/90s``; the plan is made for it.
    `policy`: ``static`` is the plan as it stands, ``elastic`` lets its replicas lend each other KV cache,
    ``spatial`` multiprocessors too; with ``swap``, ``swap-2`` and ``restart`` each model is planned as if alone,
    and they take turns in the cards' memory (sleep level 1, level 2, a new process), a busy one only after
    `patience`. `conditions` (`cotenant.simulation.conditions.conditions_of`): clients that leave, replicas that
    fail, how long a model stays awake, who takes a request, who gives way. Step times follow what was measured,
    unless `calibration` is false, and are combined with AIConfigurator's where it is installed, unless
    `aiconfigurator` is false. Raises InputErrors and its kin for bad input; a model without a place has all
    its requests unfinished.
    """
    (found,) = simulate_many(
        fleet, policies=(policy,), seeds=(seed,), traces=traces, duration=duration, arrivals=arrivals,
        patience=patience, conditions=conditions, workers=1, calibration=calibration,
        aiconfigurator=aiconfigurator, progress=progress,
    )  # fmt: skip
    return found


def simulate_many(
    fleet: FleetSource | PlanSource,
    *,
    policies: Sequence[str] = ("static",),
    seeds: Sequence[int] = (0,),
    traces: Sequence[str] | Mapping[str, str | PathLike[str] | Trace] = (),
    duration: str | None = None,
    arrivals: str | None = None,
    patience: str = "10s",
    conditions: Conditions | None = None,
    workers: int | None = None,
    ray: str | None = None,
    calibration: bool = True,
    aiconfigurator: bool = True,
    progress: Callable[[str], None] | None = None,
) -> tuple[Replay, ...]:
    """Every policy with every seed (`simulate` says what they are): policies in order, seeds within them.

    Replays run in `workers` processes (None: one a core) or on the Ray cluster at `ray`: the answers are the same.
    """
    from dataclasses import replace

    from cotenant.domain.conditions import USUAL
    from cotenant.edge.calibrations import notes_of, version_of
    from cotenant.edge.known import known
    from cotenant.edge.plans import plan_and_fleet
    from cotenant.edge.simulations import Run, prepare, replays, with_arrivals
    from cotenant.errors import InputError
    from cotenant.estimation.options import arrivals_from
    from cotenant.simulation.run import check_policy
    from cotenant.simulation.together import TOGETHER
    from cotenant.units import parse_seconds

    tell = progress or (lambda _: None)
    tell("reading the fleet")
    span, waits = None if duration is None else parse_seconds(duration), parse_seconds(patience)
    if not policies or not seeds:
        raise InputError("a policy and a seed at least are needed")
    for policy in policies:
        check_policy(policy)
    how = arrivals_from(arrivals)
    found, question = plan_and_fleet(fleet) or (None, load_fleet(fleet))  # type: ignore[arg-type]
    question = with_arrivals(question, how)
    with known(calibration, aiconfigurator) as held:
        kinds = {
            apart: prepare(question, found, traces, apart=apart, progress=tell)
            for apart in dict.fromkeys(policy not in TOGETHER for policy in policies)
        }
    prepared = {policy: kinds[policy not in TOGETHER] for policy in policies}
    runs = [Run(policy, seed) for policy in policies for seed in seeds]
    done = replays(
        prepared, runs, duration_s=span, patience_s=waits, workers=workers, ray=ray,
        conditions=conditions or USUAL, progress=tell,
    )  # fmt: skip
    version, notes = version_of(held), notes_of(held)
    return tuple(replace(one, calibration=version, warnings=(*one.warnings, *notes)) for one in done)


def deploy(source: PlanSource, *, to: str, progress: Callable[[str], None] | None = None) -> Deployment:
    """A plan as files that start it on the target `to`: ``compose``, ``kubernetes``, ``systemd`` and their kin.

    `source` is a plan, its JSON (a path, a mapping, or ``-`` for standard input), or a fleet, which is planned
    first. Every command is rendered anew from the plan's typed fields. Raises InputError for an unknown target,
    UnsupportedError where the target cannot hold the plan.
    """
    from cotenant.deployment.targets import export, find_target
    from cotenant.domain.fleet import Fleet
    from cotenant.edge.plans import given_plan

    find_target(to)
    found = None if isinstance(source, Fleet) else given_plan(source)
    if found is None:
        found = plan(source, progress=progress)  # type: ignore[arg-type] # what is no plan is a fleet
    return export(found, to)


def verify(
    plan: PlanSource,
    *,
    urls: Mapping[str, str] | None = None,
    logs: Mapping[str, str | PathLike[str]] | None = None,
    pids: Mapping[str, int | str] | None = None,
    fleet: FleetSource | None = None,
    quick: bool = False,
    max_kv: str = "90%",
    max_errors: int = 2,
    max_tokens: int | None = None,
    max_concurrency: int | None = None,
    rounds: int = 1,
    seed: int = 0,
    traffic: str | None = None,
    key_env: str | None = None,
    metrics: str = "auto",
    watch: str | None = None,
    every: str = "10s",
    state: str | PathLike[str] | None = None,
    fresh: bool = False,
    calibration: bool = True,
    progress: Callable[[str], None] | None = None,
) -> Verification:
    """A plan measured on its live engines: predicted beside measured, a verdict a line of the checklist.

    `plan` is a plan, its JSON, or a fleet, which is planned first. Engines run already at `urls` (by replica or
    model), with their `logs` and `pids` where these are at hand and a key in the environment's `key_env`; the
    others are started here and stopped again. Load comes from the plan's own traffic (`fleet`, where the plan does
    not hold it), drawn from `seed`, up to the plan's limits, then as it comes for `traffic` (``60s``). A pool
    fuller than `max_kv` ends the steps of its replica, more than `max_errors` failed requests in a step the whole.
    What was done is kept in `state`, so that a run that broke off goes on (unless `fresh`). With `calibration`
    what was measured is kept for later estimates. Raises InputError for a plan for other hardware, an engine that
    is missing; EngineError for one that does not come up.
    """
    from cotenant.edge.verifying.asked import asked_from
    from cotenant.edge.verifying.run import verify_plan

    tell = progress or (lambda _: None)
    asked = asked_from(
        urls=urls, logs=logs, pids=pids, quick=quick, max_kv=max_kv, max_errors=max_errors, max_tokens=max_tokens,
        max_concurrency=max_concurrency, rounds=rounds, seed=seed, metrics=metrics, watch=watch, every=every,
        state=state, fresh=fresh, calibration=calibration, traffic=traffic, key_env=key_env,
    )  # fmt: skip
    return verify_plan(*plan_and_requests(plan, fleet, tell), asked, progress=tell)


def plan_and_requests(
    source: PlanSource, fleet: FleetSource | None, tell: Callable[[str], None]
) -> tuple[Plan, tuple[ModelRequest, ...]]:
    """A plan, read or made, and the requests of its fleet where that is at hand."""
    from contextlib import suppress

    from cotenant.edge.plans import given_plan, plan_and_fleet
    from cotenant.errors import InputError

    found = given_plan(source)
    if found is not None and fleet is None:
        with suppress(InputError):  # made without a fleet, or its models are not at hand: its limits are enough
            both = plan_and_fleet(source)
            return (found, both[1].models) if both is not None else (found, ())
    if found is None:
        fleet = fleet or source  # type: ignore[assignment] # what is no plan is a fleet
        found = plan(fleet, progress=tell)  # type: ignore[arg-type]
    return found, load_fleet(fleet).models if fleet is not None else ()


def explain(
    log: str | PathLike[str],
    *,
    model: ModelSource | None = None,
    gpu: str | Mapping[str, Any] | GpuSpec | None = None,
    progress: Callable[[str], None] | None = None,
) -> Explanation:
    """Where every byte of a running or crashed engine went, from its own log: printed beside predicted.

    `log` is a path (also of a .gz file), "-" for standard input, or the text itself. `model`, `gpu` are taken
    from the log where they are None; a model that the catalogue does not know is not predicted. Of several
    services in one log one that failed is explained, of several starts the last; the others are listed. Raises
    FormatError where nothing of an engine stands in the log, InputError where it cannot be read or says nothing
    about memory.
    """
    from cotenant.diagnosis import explain as diagnose
    from cotenant.edge.logs import known_cards, known_model, log_chunks
    from cotenant.edge.own_gpus import open_gpu
    from cotenant.readers.logs import read_log

    name, size, chunks = log_chunks(log)
    tell = progress or (lambda _: None)
    whole = f" of {size / 2**20:,.0f}" if size else ""
    reading = read_log(chunks, name=name, progress=lambda read: tell(f"{read / 2**20:,.0f}{whole} MiB read"))
    found = reading.foremost
    others = [other for other in reading.measurements if other is not found]
    return diagnose(
        found,
        model=load_model(model) if model is not None else known_model(found.model),
        gpu=None if gpu is None else open_gpu(gpu),
        cards=known_cards(),
        others=others,
        notes=reading.notes,
        input_hash=reading.digest,
    )
