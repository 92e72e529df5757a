"""From a fleet to a checked plan: ways, cards, greedy, exact, reasons, check."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

from cotenant.domain.demand import Demand
from cotenant.domain.engine import EngineSettings
from cotenant.domain.estimate import Estimate
from cotenant.domain.fleet import Fleet, GpuOffer, ModelRequest
from cotenant.domain.loaded import LoadedModel
from cotenant.domain.plan import Plan, ReplicaPlan, Shortfall
from cotenant.engines import find_engine
from cotenant.errors import UnsupportedError
from cotenant.estimation.inverse import beside
from cotenant.estimation.memory import estimate_memory, replica_memory
from cotenant.estimation.served_format import served_format
from cotenant.planning.assembly import Command, Reason, Settle, assemble
from cotenant.planning.candidates import Ways, all_ways
from cotenant.planning.cards import cards_of
from cotenant.planning.check import check_plan
from cotenant.planning.greedy import place_greedily
from cotenant.planning.naive import SLOTS, usual_sizing
from cotenant.planning.nearest import shortfalls_of
from cotenant.planning.placing import place_exactly
from cotenant.planning.problem import Candidate, Placement, Problem
from cotenant.planning.warnings import warnings_of
from cotenant.planning.why import reasons_of

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Solved:
    """A fleet with everything that was found on the way to its placement.

    `calm` is the placement in which every SLO also holds beside busy neighbours, where there is one.
    """

    fleet: Fleet
    ways: tuple[Ways, ...]
    problem: Problem
    placement: Placement
    calm: Placement | None
    feasible: bool


def plan_fleet(fleet: Fleet, *, progress: Progress = lambda _: None) -> Plan:
    """The cheapest plan of the declared space, checked; where nothing fits, the nearest with its shortfalls."""
    progress("sizing candidates")
    solved = solve(fleet, progress=progress)
    progress("writing down the reasons")
    shortfalls = () if solved.feasible else shortfalls_of(fleet, solved, _feasible, progress)
    plan = _plan(solved, shortfalls)
    check_plan(plan, fleet, reestimate(fleet))
    return plan


def solve(fleet: Fleet, *, progress: Progress = lambda _: None) -> Solved:
    """The placement of a fleet: of all its models where they fit, of as many as possible where they do not.

    SLOs are held against each model alone. Of placements that cost the same, one in which they also hold beside
    busy neighbours is taken; where that would cost more, the plan warns and says how much.
    """
    ways = all_ways(fleet)
    problem = problem_of(fleet, [each.candidates for each in ways])
    progress("packing")
    strict = place_exactly(problem)
    relaxed = replace(problem, contention=False)
    if strict is not None and strict.proven and not _tight(strict):
        cheapest = strict
    else:
        cheapest = place_exactly(relaxed) or strict  # type: ignore[assignment]
    if cheapest is None:
        most = place_exactly(relaxed, optional=True) or Placement((), 0.0, 0.0, None, proven=False)
        return Solved(fleet, ways, relaxed, most, None, feasible=False)
    if strict is not None and strict.objective_value <= cheapest.objective_value + 1e-6:
        bound = min(cheapest.lower_bound, strict.objective_value)
        strict = replace(strict, lower_bound=bound, gap=cheapest.gap, proven=cheapest.proven)
        return Solved(fleet, ways, problem, strict, strict, feasible=True)
    return Solved(fleet, ways, relaxed, cheapest, strict, feasible=True)


def _tight(placement: Placement) -> bool:
    """Whether contention could have made it dearer: any SLO at all."""
    return any(assignment.candidate.slack != inf for assignment in placement.assignments)


def _feasible(fleet: Fleet) -> bool:
    """Whether every model of the fleet finds a place."""
    ways = all_ways(fleet)
    problem = replace(problem_of(fleet, [each.candidates for each in ways]), contention=False)
    return all(problem.candidates) and place_exactly(problem) is not None


def problem_of(fleet: Fleet, ways: Sequence[Sequence[Candidate]]) -> Problem:
    """Candidates, cards and wishes; the shop cut to what the greedy plan's cost buys."""
    candidates = tuple(map(tuple, ways))
    index = {request.name: number for number, request in enumerate(fleet.models)}
    problem = Problem(
        names=tuple(request.name for request in fleet.models),
        candidates=candidates,
        cards=cards_of(fleet, candidates),
        apart=frozenset(
            frozenset((number, index[other]))
            for number, request in enumerate(fleet.models)
            for other in request.apart_from
            if other in index
        ),
        alone=frozenset(
            number for number, request in enumerate(fleet.models) if "co-resident" not in request.sharing
        ),
        pins={
            number: frozenset(request.pin_gpus) for number, request in enumerate(fleet.models) if request.pin_gpus
        },
        objective=fleet.objective,
        priorities=tuple(request.priority for request in fleet.models),
    )
    greedy = place_greedily(problem)
    if not problem.priced or len(greedy.placed) < len(fleet.models):
        return problem
    return replace(problem, cards=cards_of(fleet, candidates, budget=greedy.objective_value))


def _plan(solved: Solved, shortfalls: tuple[Shortfall, ...]) -> Plan:
    fleet, problem, placement = solved.fleet, solved.problem, solved.placement
    reasons: Mapping[int, Reason] = reasons_of(fleet, problem, placement, solved.ways, _forced(solved))
    replicas, gpus = assemble(fleet, problem, placement, command_of(fleet), reasons, settle_of(fleet))
    priced = any(offer.price_per_hour is not None for offer in fleet.gpus)
    cost = sum(gpu.price_per_hour or 0.0 for gpu in gpus) if priced else None
    return Plan(
        feasible=solved.feasible,
        replicas=replicas,
        gpus=gpus,
        cost_per_hour=cost,
        objective_value=placement.objective_value,
        lower_bound=placement.lower_bound,
        gap=placement.gap,
        deterministic=True,
        headroom=fleet.headroom,
        naive=usual_sizing(fleet, _usual(fleet), cards=len(gpus), cost_per_hour=cost) if solved.feasible else None,
        shortfalls=shortfalls,
        warnings=warnings_of(solved),
        input_hash=fleet.input_hash,
    )


def _forced(solved: Solved) -> Callable[[Candidate], Placement | None] | None:
    """What the plan would be, were one model served in another way; None where not all models have a place."""
    if not solved.feasible:
        return None

    def forced(other: Candidate) -> Placement | None:
        ways = [
            (other,) if number == other.request else each.candidates for number, each in enumerate(solved.ways)
        ]
        return place_exactly(replace(problem_of(solved.fleet, ways), contention=solved.problem.contention))

    return forced


def settle_of(fleet: Fleet) -> Settle:
    """A candidate beside those that start before it: as it was, unless its engine counts what they hold."""

    def settle(request: ModelRequest, candidate: Candidate, earlier_bytes: int) -> Estimate:
        engine, version = find_engine(request.engine)
        offer, alone = fleet.gpus[candidate.offer], candidate.estimate
        if not earlier_bytes or engine.rules(version, offer.gpu).allocate is not None:
            return alone
        loaded = LoadedModel(request.model, request.model_id, request.checkpoints, request.task, "")
        served = served_format(loaded, candidate.format, offer.gpu, engine=engine, version=version)
        memory = replica_memory(
            request.model, offer.gpu, alone.settings, engine=engine, version=version, format=served.format,
            used_bytes=offer.used_bytes,
        )  # fmt: skip
        settings = beside(memory, earlier_bytes)
        if settings == alone.settings:
            return alone
        return estimate_memory(
            request.model, offer.gpu, settings, engine=engine, version=version, format=served.format,
            used_bytes=offer.used_bytes + earlier_bytes, demand=candidate.demand, model_path=candidate.checkpoint,
        )  # fmt: skip

    return settle


def command_of(fleet: Fleet) -> Command:
    """The engine's argument vector for a candidate, from its typed settings."""

    def command(
        request: ModelRequest, candidate: Candidate, settings: EngineSettings, port: int
    ) -> tuple[str, ...]:
        engine, version = find_engine(request.engine)
        gpu = fleet.gpus[candidate.offer].gpu
        loaded = LoadedModel(request.model, request.model_id, request.checkpoints, request.task, "")
        served = served_format(loaded, candidate.format, gpu, engine=engine, version=version)
        return engine.arguments(
            settings, version=version, model_path=candidate.checkpoint, port=port,
            quantization=served.format.engine_flag, served_name=request.name, adapters=request.adapters,
        )  # fmt: skip

    return command


def reestimate(fleet: Fleet) -> Callable[[ModelRequest, ReplicaPlan], Estimate]:
    """A fresh estimate of a planned replica, from what the plan says of it alone."""

    def fresh(request: ModelRequest, replica: ReplicaPlan) -> Estimate:
        engine, version = find_engine(f"{replica.engine}@{replica.engine_version}")
        offer = fleet.gpus[replica.devices[0].offer]
        loaded = LoadedModel(request.model, request.model_id, request.checkpoints, request.task, "")
        served = served_format(loaded, replica.quantization, offer.gpu, engine=engine, version=version)
        return estimate_memory(
            request.model, offer.gpu, replica.settings, engine=engine, version=version, format=served.format,
            used_bytes=offer.used_bytes + replica.beside_bytes, model_path=replica.checkpoint,
        )  # fmt: skip

    return fresh


def _usual(fleet: Fleet) -> Callable[[ModelRequest, GpuOffer, int, int], Estimate]:
    """The estimate of the usual sizing: 16 bits, the model's whole context times 16 slots."""

    def usual(request: ModelRequest, offer: GpuOffer, tensor: int, pipeline: int) -> Estimate:
        engine, version = find_engine(request.engine)
        model = request.model if not request.model.quantization else replace(request.model, stored_bytes=None)
        length = request.model.max_model_len
        slots = Demand(
            max_model_len=length, max_model_len_is_minimum=False, refused_share=0.0, max_num_seqs=SLOTS,
            mean_in_service=SLOTS, in_service_p999=SLOTS, kv_needed_tokens=length * SLOTS, kv_needed_bytes=0,
            kv_minimum_bytes=0, kv_worst_case_bytes=0, overflow=fleet.kv_overflow, busy=1.0,
        )  # fmt: skip
        settings = EngineSettings(
            tensor_parallel_size=tensor, pipeline_parallel_size=pipeline, max_model_len=length, max_num_seqs=SLOTS
        )  # fmt: skip
        from cotenant.catalogue.quantization import find_format
        from cotenant.estimation.kv_cache import cache_layout

        try:
            resolved = engine.resolve(model, offer.gpu, settings, version)
        except UnsupportedError:  # no pipeline stages there: all of the cards share each layer
            settings = replace(settings, tensor_parallel_size=tensor * pipeline, pipeline_parallel_size=1)
            resolved = engine.resolve(model, offer.gpu, settings, version)
        layout = cache_layout(model, resolved, engine.rules(version).cache)
        sized = layout.groups and engine.rules(version).allocate is None  # else its slots are its pool
        pool = SLOTS * layout.sequence_bytes(length, resolved.max_num_batched_tokens or 1) if sized else None
        return estimate_memory(
            model, offer.gpu, replace(settings, kv_cache_memory_bytes=pool), engine=engine, version=version,
            format=find_format("fp16" if model.dtype in ("fp16", "float16") else "bf16"), demand=slots,
        )  # fmt: skip

    return usual
