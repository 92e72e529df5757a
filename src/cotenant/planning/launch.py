"""How a planned replica is told to its engine, and what it takes: alone, beside others, and asked afresh."""

from __future__ import annotations

from collections.abc import Callable

from cotenant.domain.engine import EngineSettings
from cotenant.domain.estimate import Estimate
from cotenant.domain.fleet import Fleet, GpuOffer, ModelRequest
from cotenant.domain.gpu import GpuSpec
from cotenant.domain.loaded import LoadedModel
from cotenant.domain.plan import ReplicaPlan
from cotenant.engines import find_engine
from cotenant.engines.names import also_named
from cotenant.estimation.inverse import beside
from cotenant.estimation.memory import estimate_memory
from cotenant.estimation.memory_terms import replica_memory
from cotenant.estimation.served_format import ServedFormat, served_format
from cotenant.planning.assembly import Command, Settle
from cotenant.planning.problem import Candidate


def served_as(request: ModelRequest, name: str, gpu: GpuSpec) -> ServedFormat:
    """The format called `name` as the request's engine serves it on that card."""
    engine, version = find_engine(request.engine)
    loaded = LoadedModel(request.model, request.model_id, request.checkpoints, request.task, "")
    return served_format(loaded, name, gpu, engine=engine, version=version)


def told_beside(
    request: ModelRequest, offer: GpuOffer, name: str, settings: EngineSettings, engine: str, earlier_bytes: int
) -> EngineSettings:
    """The settings of a replica in the format `name` where others hold `earlier_bytes` of its cards already: as
    they were, unless its engine counts those as its own."""
    rules, version = find_engine(engine)
    if not earlier_bytes or rules.rules(version, offer.gpu).allocate is not None:
        return settings
    served = served_as(request, name, offer.gpu)
    memory = replica_memory(
        request.model, offer.gpu, settings, engine=rules, version=version, format=served.format,
        used_bytes=offer.used_bytes,
    )  # fmt: skip
    return beside(memory, earlier_bytes)


def settle_of(fleet: Fleet) -> Settle:
    """A candidate beside those that start before it: as it was, unless its engine counts what they hold."""

    def settle(request: ModelRequest, candidate: Candidate, earlier_bytes: int) -> Estimate:
        engine, version = find_engine(request.engine)
        offer, alone = fleet.gpus[candidate.offer], candidate.estimate
        settings = told_beside(request, offer, candidate.format, alone.settings, request.engine, earlier_bytes)
        if settings == alone.settings:
            return alone
        served = served_as(request, candidate.format, offer.gpu)
        return estimate_memory(
            request.model, offer.gpu, settings, engine=engine, version=version, format=served.format,
            used_bytes=offer.used_bytes + earlier_bytes, demand=candidate.demand, model_path=candidate.checkpoint,
        )  # fmt: skip

    return settle


def command_of(fleet: Fleet) -> Command:
    """The engine's argument vector for a candidate, from its typed settings, and what quantisation it is told."""

    def command(
        request: ModelRequest, candidate: Candidate, settings: EngineSettings, port: int
    ) -> tuple[tuple[str, ...], str]:
        gpu = fleet.gpus[candidate.offer].gpu
        return told(request, gpu, candidate.format, candidate.checkpoint, settings, request.engine, port)

    return command


def told(
    request: ModelRequest,
    gpu: GpuSpec,
    name: str,
    checkpoint: str,
    settings: EngineSettings,
    engine: str,
    port: int,
) -> tuple[tuple[str, ...], str]:
    """(the argument vector of a replica in the format `name`, what quantisation its engine is told)."""
    rules, version = find_engine(engine)
    flag = served_as(request, name, gpu).format.engine_flag
    argv = rules.arguments(
        settings, version=version, model_path=checkpoint, port=port, quantization=flag, served_name=request.name,
        adapters=request.adapters,
    )  # fmt: skip
    return also_named(argv, request.also_serves), flag


def reestimate(fleet: Fleet) -> Callable[[ModelRequest, ReplicaPlan], Estimate]:
    """A fresh estimate of a planned replica, from what the plan says of it alone."""

    def fresh(request: ModelRequest, replica: ReplicaPlan) -> Estimate:
        engine, version = find_engine(f"{replica.engine}@{replica.engine_version}")
        offer = fleet.gpus[replica.devices[0].offer]
        served = served_as(request, replica.quantization, offer.gpu)
        return estimate_memory(
            request.model, offer.gpu, replica.settings, engine=engine, version=version, format=served.format,
            used_bytes=offer.used_bytes + replica.beside_bytes, model_path=replica.checkpoint,
        )  # fmt: skip

    return fresh
