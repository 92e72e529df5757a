"""Ways to place one fleet, side by side, each replayed: naive, greedy, optimal, with its promises kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from cotenant.domain.contender import Contender
from cotenant.domain.device import Device
from cotenant.domain.engine import EngineSettings
from cotenant.domain.fleet import Fleet, ModelRequest
from cotenant.domain.plan import GpuPlan, Plan, ReplicaPlan, Shortfall
from cotenant.engines import find_engine
from cotenant.errors import CotenantError, InputError
from cotenant.planning.candidates import all_ways
from cotenant.planning.folding import folded_as
from cotenant.planning.greedy import place_greedily
from cotenant.planning.naive import in_sixteen_bits, largest_offer, sixteen_bits, usual_settings, usual_sizing
from cotenant.planning.promise import keep_promises
from cotenant.planning.scenes import Replayer, declared_scenes, kept_by
from cotenant.planning.solve import plan_fleet, written
from cotenant.planning.solved import Progress, Solved, problem_of
from cotenant.units import plural

SIMULATED = ("elastic", "spatial", "token")
"""Ways to share a card that no engine driver runs: the optimal plan, replayed as if one did."""

STRATEGIES = ("naive", "greedy", "optimal", "promised", *SIMULATED)
_ONLY_SIMULATED = "simulated only: no engine is driven so"
_NO_SPARE = "keeps no spare"
_WITHOUT_SPARE = ("naive", "greedy")


def compare(
    fleet: Fleet, strategies: Sequence[str], replayer: Replayer, *, progress: Progress = lambda _: None
) -> tuple[Contender, ...]:
    """Each strategy's cards, cost, headroom and attainment. Raises InputError for one that there is not."""
    unknown = [name for name in strategies if name not in STRATEGIES]
    if unknown or not strategies:
        named = f"no strategy {', '.join(repr(name[:40]) for name in unknown)}" if unknown else "none is named"
        raise InputError(named, hint=f"some of {', '.join(STRATEGIES)}")
    if "naive" in strategies and any(offer.is_cut for offer in fleet.gpus):
        raise InputError("the usual sizing knows whole cards, not slices", hint="greedy,optimal")
    makers: dict[str, Callable[[Fleet, Progress], Plan]] = {
        "naive": lambda fleet, _: usual_plan(fleet), "greedy": greedy_plan,
        "promised": lambda fleet, tell: keep_promises(fleet, replayer, progress=tell),
    }  # fmt: skip
    best: Plan | None = None  # that of `optimal` and of those that are only simulated
    found = []
    for name in dict.fromkeys(strategies):
        progress(f"planning: {name}")
        asked = fleet if name != "naive" else _unquantised(fleet)
        if name in makers:
            plan = makers[name](asked, progress)
        else:
            plan = best = best or plan_fleet(asked, progress=progress)
        found.append(_contender(asked, name, plan, replayer))
    return tuple(found)


def greedy_plan(fleet: Fleet, progress: Progress = lambda _: None) -> Plan:
    """Largest first, each in its cheapest way; checked as every plan, without a bound, and without a spare."""
    fleet = replace(fleet, spare="none")
    ways = all_ways(fleet)
    problem = replace(problem_of(fleet, [each.candidates for each in ways]), contention=False)
    placement = place_greedily(problem)
    missing = [name for number, name in enumerate(problem.names) if number not in placement.placed]
    short = tuple(Shortfall(name, 0, "no card is left that takes it", ()) for name in missing)
    return written(Solved(fleet, ways, problem, placement, None, feasible=not missing), short)


def usual_plan(fleet: Fleet) -> Plan:
    """The usual sizing as replicas on cards, whatever there is to own or to hire; not checked, only to compare."""
    number = largest_offer(fleet)
    offer = fleet.gpus[number]
    replicas: list[ReplicaPlan] = []
    gpus: list[GpuPlan] = []
    for request in fleet.models:
        settings = usual_settings(request, offer)
        size = settings.tensor_parallel_size * settings.pipeline_parallel_size
        for copy in range(request.min_replicas):
            name = f"{request.name}-{copy}" if request.min_replicas > 1 else request.name
            devices = tuple(Device(offer.gpu.name, len(replicas), index, number) for index in range(size))
            replicas.append(_usual_replica(request, name, devices, settings, len(replicas)))
            gpus += [
                GpuPlan(device, offer.gpu.cuda_bytes.value, offer.used_bytes, (), offer.price_per_hour)
                for device in devices
            ]
    naive = usual_sizing(fleet, cards=len(gpus), cost_per_hour=None)
    return Plan(
        feasible=True, replicas=tuple(replicas), gpus=tuple(gpus), cost_per_hour=naive.cost_per_hour,
        objective_value=naive.cost_per_hour or float(naive.cards), lower_bound=0.0, gap=None, deterministic=True,
        headroom=0.0, naive=None, input_hash=fleet.input_hash,
    )  # fmt: skip


def _usual_replica(
    request: ModelRequest, name: str, devices: tuple[Device, ...], settings: EngineSettings, order: int
) -> ReplicaPlan:
    engine, version = find_engine(request.engine)
    return ReplicaPlan(
        id=name, model=request.name, model_id=request.model.name, checkpoint=request.model_id,
        quantization=sixteen_bits(request.model), engine=engine.name, engine_version=str(version),
        settings=settings, devices=devices, port=8000, adapters=request.adapters,
        sharing="alone", start_order=order, command=(), environment={}, why="", runner_up="", kv_needed_bytes=0,
        kv_worst_case_bytes=0,
    )  # fmt: skip


def _unquantised(fleet: Fleet) -> Fleet:
    models = tuple(replace(model, model=in_sixteen_bits(model.model)) for model in fleet.models)
    return replace(fleet, models=models)


def _contender(fleet: Fleet, strategy: str, plan: Plan, replayer: Replayer) -> Contender:
    fleet = folded_as(fleet, plan)
    attainment: dict[str, float] | None = {}
    missed: tuple[str, ...] = ()
    note, policy = (_ONLY_SIMULATED, strategy) if strategy in SIMULATED else ("", "static")
    if strategy in _WITHOUT_SPARE and fleet.spare != "none":
        note = _NO_SPARE
    if strategy == "naive":
        note = ", ".join(filter(None, (note, _beyond_all(fleet, plan))))
    try:
        placed = {replica.model for replica in plan.replicas}
        kept = kept_by(plan, declared_scenes(fleet), replayer, policy)
        attainment = {name: share for name, share in kept.attainment.items() if name in placed}
        missed = tuple(name for name in kept.missed if name in placed)
    except CotenantError as error:
        attainment, note = None, f"not replayed: {error.message}"
    shares = [gpu.headroom_bytes / gpu.capacity_bytes for gpu in plan.gpus if gpu.shares]
    return Contender(
        strategy=strategy,
        cards=Counter(gpu.device.type for gpu in plan.gpus),
        cost_per_hour=plan.cost_per_hour,
        lower_bound=plan.lower_bound if plan.gap is not None else None,
        headroom=min(shares, default=None),
        attainment=attainment,
        missed=missed,
        unplaced=tuple(short.model for short in plan.shortfalls),
        note=note,
        promised=any(one.slo is not None for one in fleet.models),
    )


def _beyond_all(fleet: Fleet, plan: Plan) -> str:
    """A word where the usual sizing takes more cards than there are."""
    offer = fleet.gpus[largest_offer(fleet)]
    most = offer.count if offer.count is not None else offer.maximum
    return f"the fleet has {plural(most, 'such card')}" if most is not None and len(plan.gpus) > most else ""
