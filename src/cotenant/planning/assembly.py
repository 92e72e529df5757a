"""From a placement to a plan: ports, start order, devices, commands."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from cotenant.domain.device import Device
from cotenant.domain.engine import EngineSettings
from cotenant.domain.estimate import Estimate
from cotenant.domain.fleet import Fleet, ModelRequest
from cotenant.domain.plan import GpuPlan, GpuShare, ReplicaPlan, Sleeper
from cotenant.planning.problem import Assignment, Candidate, Card, Placement, Problem
from cotenant.planning.turn_bytes import Running, TurnBytes

FIRST_PORT = 8000

Command = Callable[[ModelRequest, Candidate, EngineSettings, int], tuple[tuple[str, ...], str]]
"""(request, candidate, settings, port) -> (the engine's argument vector from typed fields, the quantisation that
it names there)."""

Settle = Callable[[ModelRequest, Candidate, int], Estimate]
"""(request, candidate, bytes that earlier replicas hold on its cards) -> its estimate beside them."""


@dataclass(frozen=True, slots=True)
class Reason:
    """Why this choice, and what the next one would have meant."""

    why: str
    runner_up: str


def assemble(
    fleet: Fleet,
    problem: Problem,
    placement: Placement,
    command: Command,
    reasons: Mapping[int, Reason],
    settle: Settle,
    names: Mapping[int, int] | None = None,
    own_ports: Mapping[str, int] | None = None,
) -> tuple[tuple[ReplicaPlan, ...], tuple[GpuPlan, ...]]:
    """The replicas and cards of a placement, in the fleet's order; `names`: what its nodes are called.

    `own_ports`: where to listen, by replica (None: from FIRST_PORT on, node by node).
    """
    turns = TurnBytes(problem.names, placement)
    order = start_order(placement, turns)
    earlier = _earlier(placement, order, turns)
    nodes = names or _nodes(problem, placement)
    ports: dict[int, int] = defaultdict(lambda: FIRST_PORT)
    replicas: list[ReplicaPlan] = []
    shares: dict[int, list[GpuShare]] = defaultdict(list)
    sleepers: dict[int, list[Sleeper]] = defaultdict(list)
    for assignment in placement.assignments:
        model = assignment.candidate.request
        request = fleet.models[model]
        for number, cards in enumerate(assignment.cards):
            name = f"{request.name}-{number}" if len(assignment.cards) > 1 else request.name
            node = problem.cards[cards[0]].node
            port, ports[node] = ports[node], ports[node] + 1
            port = port if own_ports is None else own_ports[name]
            places = tuple(_device(fleet, problem.cards[card], nodes) for card in cards)
            position = order[model, number]
            reason = reasons.get(model, Reason("", ""))
            beside = earlier[model, number]
            estimate = settle(request, assignment.candidate, beside)
            written = _replica(
                request, assignment, estimate, beside, name, places, port, position, command, reason, turns
            )
            replicas.append(written)
            for rank, card in enumerate(cards):
                share = share_of(name, rank, estimate)
                if turns.is_drawn_asleep(model):
                    sleepers[card].append(Sleeper(share, turns.asleep(model), turns.host(model, rank)))
                else:
                    shares[card].append(share)
    gpus = tuple(
        _gpu(fleet, problem.cards[card], tuple(shares[card]), tuple(sleepers[card]), nodes)
        for card in sorted({*shares, *placement.spare})
    )
    return tuple(replicas), gpus


def start_order(placement: Placement, turns: TurnBytes) -> dict[tuple[int, int], int]:
    """(model, replica) -> position. Whoever overshoots most while loading starts first, when room is widest."""
    replicas = [(one.candidate, number) for one in placement.assignments for number in range(len(one.cards))]
    replicas.sort(key=lambda each: (turns.start_key(each[0]), each[0].request, each[1]))
    return {(candidate.request, number): position for position, (candidate, number) in enumerate(replicas)}


def _earlier(
    placement: Placement, order: Mapping[tuple[int, int], int], turns: TurnBytes
) -> dict[tuple[int, int], int]:
    """(model, replica) -> bytes that replicas before it claim on its cards, the fullest card deciding."""
    running = Running()
    found: dict[tuple[int, int], int] = {}
    each = [
        (one.candidate, number, cards) for one in placement.assignments for number, cards in enumerate(one.cards)
    ]
    for candidate, number, cards in sorted(each, key=lambda one: order[one[0].request, one[1]]):
        group = turns.group(candidate.request)
        found[candidate.request, number] = max((running.beside(card, group) for card in cards), default=0)
        asleep = 0 if group is None else turns.asleep(candidate.request)
        for card in cards:
            running.add(card, candidate.claim_bytes, group, asleep)
    return found


def _nodes(problem: Problem, placement: Placement) -> Mapping[int, int]:
    """Numbers for the nodes in use: the pool's keep theirs, hired ones follow without gaps."""
    used = {card for assignment in placement.assignments for card in assignment.each_card()} | {*placement.spare}
    owned = {card.node for card in problem.cards if card.pool_index is not None}
    hired = sorted({problem.cards[card].node for card in used} - owned)
    first = max(owned, default=-1) + 1
    return {node: node for node in owned} | {node: first + number for number, node in enumerate(hired)}


def _device(fleet: Fleet, card: Card, nodes: Mapping[int, int]) -> Device:
    return Device(type=fleet.gpus[card.offer].gpu.name, node=nodes[card.node], index=card.index, offer=card.offer)


def _replica(
    request: ModelRequest,
    assignment: Assignment,
    estimate: Estimate,
    beside: int,
    name: str,
    devices: tuple[Device, ...],
    port: int,
    order: int,
    command: Command,
    reason: Reason,
    turns: TurnBytes,
) -> ReplicaPlan:
    candidate = assignment.candidate
    settings, environment = estimate.settings, {}
    if turns.sleeps_in_process(candidate.request):
        settings = replace(settings, enable_sleep_mode=True)
        environment = {"VLLM_SERVER_DEV_MODE": "1"}
    demand = candidate.demand
    visible = ",".join(str(device.index) for device in devices)
    argv, told = command(request, candidate, settings, port)
    return ReplicaPlan(
        id=name,
        model=request.name,
        model_id=request.model.name,
        checkpoint=candidate.checkpoint,
        quantization=candidate.format,
        engine=estimate.engine,
        engine_version=estimate.engine_version,
        settings=settings,
        devices=devices,
        port=port,
        adapters=request.adapters,
        sharing=_sharing(request, turns.group(candidate.request) is not None),
        start_order=order,
        command=argv,
        environment={"CUDA_VISIBLE_DEVICES": visible, **environment},
        why=reason.why,
        runner_up=reason.runner_up,
        kv_needed_bytes=demand.kv_needed_bytes,
        kv_worst_case_bytes=demand.kv_worst_case_bytes,
        beside_bytes=beside if estimate is not candidate.estimate else 0,
        ttft_s=demand.ttft_s,
        tpot_s=demand.tpot_s,
        quantization_flag=told,
        also_serves=request.also_serves,
        times_from=demand.times_from,
    )


def _sharing(request: ModelRequest, takes_turns: bool) -> str:
    if takes_turns:
        return "sleep"
    return "co-resident" if "co-resident" in request.sharing else "alone"


def share_of(replica: str, rank: int, estimate: Estimate) -> GpuShare:
    """What one rank takes of its card, as the plan tells it."""
    figures = estimate.per_gpu[rank]
    return GpuShare(
        replica=replica,
        rank=rank,
        budget_bytes=figures.budget.value if figures.fills else figures.claimed_bytes,
        weights_bytes=figures.weights.bytes.value,
        kv_cache_bytes=figures.kv_cache.bytes.value,
        activations_bytes=figures.activations.bytes.value,
        runtime_bytes=figures.runtime.bytes.value,
        load_peak_bytes=figures.load_peak.value,
    )


def _gpu(
    fleet: Fleet, card: Card, shares: tuple[GpuShare, ...], sleepers: tuple[Sleeper, ...], nodes: Mapping[int, int]
) -> GpuPlan:
    return GpuPlan(
        device=_device(fleet, card, nodes),
        capacity_bytes=card.capacity_bytes,
        used_bytes=card.used_bytes,
        shares=shares,
        price_per_hour=card.price_per_hour,
        sleepers=sleepers,
        spare=not shares and not sleepers,
    )
