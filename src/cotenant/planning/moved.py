"""A plan with one replica moved by hand: sized anew on its new cards, everybody beside it told of the change.

Nothing is searched. What breaks is for `check.find_faults` and `slower_there` to say.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from cotenant.domain.device import Device
from cotenant.domain.estimate import Estimate
from cotenant.domain.fleet import Fleet, ModelRequest
from cotenant.domain.plan import GpuPlan, GpuShare, Plan, ReplicaPlan, Sleeper, Turns
from cotenant.engines import find_engine
from cotenant.engines.sleeping import RESTART
from cotenant.errors import CotenantError, InputError, UnsupportedError
from cotenant.estimation.inverse import settings_for_pool
from cotenant.planning.assembly import FIRST_PORT, share_of
from cotenant.planning.candidates import ways_of
from cotenant.planning.launch import reestimate, served_as, told, told_beside
from cotenant.planning.loading import start_key
from cotenant.planning.splits import split_of
from cotenant.planning.startable import counts_others, free_at_start
from cotenant.planning.turn_bytes import Running, Taken, turn_start_key


@dataclass(frozen=True, slots=True)
class Moved:
    """The plan afterwards, and what became clear on the way, a sentence each."""

    plan: Plan
    faults: tuple[str, ...]


def moved(plan: Plan, fleet: Fleet, replica: str, node: int, index: int, card: str = "") -> Moved:
    """`plan` with `replica` on the card (`node`, `index`), of the type `card` where the plan does not hold it yet.

    A replica of several ranks takes the cards after it in its node too.

    Raises InputError for a replica or a card that there is not.
    """
    found = next((one for one in plan.replicas if one.id == replica), None)
    if found is None:
        raise InputError(
            f"the plan has no replica {replica[:60]!r}", hint=", ".join(one.id for one in plan.replicas)
        )
    offer = _offer(plan, fleet, node, index, card)
    devices = _devices(plan, fleet, offer, node, index, len(found.devices))
    changed = replace(found, devices=devices, port=_port(plan, found, node))
    replicas = [changed if one is found else one for one in plan.replicas]
    return resettled(replace(plan, replicas=tuple(replicas)), fleet, changed, offer != found.devices[0].offer)


def _offer(plan: Plan, fleet: Fleet, node: int, index: int, card: str) -> int:
    """The number of the offer that a card belongs to: as the plan says it, as the name says it, or as its node."""
    standing = {(gpu.device.node, gpu.device.index): gpu.device.offer for gpu in plan.gpus}
    if (node, index) in standing:
        return standing[node, index]
    named = [number for number, one in enumerate(fleet.gpus) if card in (one.gpu.name, *one.gpu.aliases)]
    if named:
        return named[0]
    beside_it = [offer for (other, _), offer in standing.items() if other == node]
    found = beside_it or [number for number, first, last in _pool_nodes(fleet) if first <= node < last]
    found = found or [number for number, one in enumerate(fleet.gpus) if one.is_shop]
    if not found:
        raise InputError(f"the fleet has no card {node}.{index}")
    return found[0]


def _pool_nodes(fleet: Fleet) -> Iterator[tuple[int, int, int]]:
    """(offer, its first node, the one after its last) of what is owned; the same order as `cards.cards_of`."""
    node = 0
    for number, offer in enumerate(fleet.gpus):
        if offer.count is not None:
            nodes = -(-offer.count // offer.node_size)
            yield number, node, node + nodes
            node += nodes


def _devices(plan: Plan, fleet: Fleet, offer: int, node: int, index: int, count: int) -> tuple[Device, ...]:
    one = fleet.gpus[offer]
    if index >= one.node_size or count > one.node_size:
        raise InputError(
            f"a node has {one.node_size} x {one.gpu.name}: there is no place for {count} from {index} on"
        )
    places = [(index + step) % one.node_size for step in range(count)]
    return tuple(Device(one.gpu.name, node, place, offer) for place in places)


def _port(plan: Plan, moving: ReplicaPlan, node: int) -> int:
    """Its own, unless somebody on its new node listens there."""
    others = {
        one.port for one in plan.replicas if one is not moving and one.devices and one.devices[0].node == node
    }
    if moving.port not in others:
        return moving.port
    return next(port for port in range(FIRST_PORT, FIRST_PORT + len(others) + 1) if port not in others)


def resettled(plan: Plan, fleet: Fleet, moving: ReplicaPlan | None = None, resize: bool = False) -> Moved:
    """Every replica estimated in its start order beside those before it; the cards and the cost added up anew.

    `moving` is sized for its cards first where `resize`. What cannot be sized keeps its settings, and is a fault.
    """
    requests = {request.name: request for request in fleet.models}
    faults: list[str] = []
    alone: dict[str, ReplicaPlan] = {}
    for one in plan.replicas:
        try:
            anew = one.beside_bytes > 0 or (moving is not None and one.id == moving.id and resize)
            alone[one.id] = _alone(requests[one.model], one, fleet) if anew else one
        except UnsupportedError as error:
            faults.append(f"{one.id} on {one.devices[0].type}: {error.message}")
            alone[one.id] = replace(one, beside_bytes=0)
    estimated = reestimate(fleet)
    sizes = {name: estimated(requests[one.model], one) for name, one in alone.items()}
    placed: dict[str, ReplicaPlan] = {}
    running = Running()
    turns_of = {one.id: next((each for each in plan.turns if one.model in each.models), None)
                for one in plan.replicas}  # fmt: skip
    taken = {
        name: _taken(sizes[name], turns_of[name], _free_at_start(requests[one.model], one, fleet, sizes[name]))
        for name, one in alone.items()
    }
    for position, name in enumerate(sorted(alone, key=lambda name: _order(name, plan, taken, turns_of))):
        one, turns = alone[name], turns_of[name]
        group = None if turns is None else turns.models
        earlier = max(running.beside(device, group) for device in one.devices)
        placed[name] = replace(_beside(requests[one.model], one, fleet, earlier), start_order=position)
        for rank, device in zip(sizes[name].per_gpu, one.devices, strict=False):
            running.add(device, rank.claimed_bytes, group, taken[name].asleep_bytes)
    final = {
        name: sizes[name] if one.settings == alone[name].settings else estimated(requests[one.model], one)
        for name, one in placed.items()
    }
    replicas = tuple(_told(requests[one.model], placed[one.id], fleet) for one in plan.replicas)
    gpus = _gpus(plan, fleet, replicas, final, taken)
    return Moved(_counted(replace(plan, replicas=replicas, gpus=gpus), fleet), tuple(faults))


def _free_at_start(request: ModelRequest, replica: ReplicaPlan, fleet: Fleet, alone: Estimate) -> int:
    """What must be free when an engine starts that counts what others hold (`startable`); 0 where none does."""
    offer = fleet.gpus[replica.devices[0].offer]
    engine = f"{replica.engine}@{replica.engine_version}"
    if not alone.fits or not counts_others(engine, offer.gpu, replica.settings):
        return 0

    def starts(earlier: int) -> bool:
        found = reestimate(fleet)(request, _beside(request, replica, fleet, earlier))
        return found.fits and found.holds(replica.kv_needed_bytes)

    return free_at_start(offer, fleet.headroom, max(rank.claimed_bytes for rank in alone.per_gpu), starts)


def _taken(size: Estimate, turns: Turns | None, free_at_start: int) -> Taken:
    """Of each card at most; asleep, what `check` lets a process keep."""
    keeps = turns is not None and turns.mode != RESTART
    return Taken(
        claim_bytes=max(rank.claimed_bytes for rank in size.per_gpu),
        load_peak_bytes=max(free_at_start, *(rank.load_peak.value for rank in size.per_gpu)),
        asleep_bytes=max(rank.runtime.bytes.value for rank in size.per_gpu) if keeps else 0,
    )


def _order(
    name: str, plan: Plan, taken: Mapping[str, Taken], turns_of: Mapping[str, Turns | None]
) -> tuple[int, ...]:
    """Whoever overshoots most while loading starts first, as in `assembly.start_order`."""
    names, own, turns = [one.id for one in plan.replicas], taken[name], turns_of[name]
    if turns is None:
        return (*start_key(own.claim_bytes, own.load_peak_bytes), names.index(name))
    mine = [each for each in names if turns_of[each] is turns]
    first, second, *within = turn_start_key(own, [taken[each] for each in mine], turns.mode)
    return (first, second, names.index(mine[0]), *within, names.index(name))


def _alone(request: ModelRequest, replica: ReplicaPlan, fleet: Fleet) -> ReplicaPlan:
    """Sized for what its traffic needs on an empty card of its kind."""
    engine, version = find_engine(f"{replica.engine}@{replica.engine_version}")
    offer = fleet.gpus[replica.devices[0].offer]
    served = served_as(request, replica.quantization, offer.gpu)
    settings = replace(replica.settings, gpu_memory_utilization=None, kv_cache_tokens=None)
    sized = settings_for_pool(
        request.model, offer.gpu, settings, engine=engine, version=version, format=served.format,
        kv_bytes=replica.kv_needed_bytes, used_bytes=offer.used_bytes,
    )  # fmt: skip
    return replace(replica, settings=sized.settings, beside_bytes=0)


def _beside(request: ModelRequest, replica: ReplicaPlan, fleet: Fleet, earlier: int) -> ReplicaPlan:
    """As it must be told where `earlier` bytes of its cards are taken already."""
    offer, engine = fleet.gpus[replica.devices[0].offer], f"{replica.engine}@{replica.engine_version}"
    settings = told_beside(request, offer, replica.quantization, replica.settings, engine, earlier)
    return replica if settings == replica.settings else replace(replica, settings=settings, beside_bytes=earlier)


def _told(request: ModelRequest, replica: ReplicaPlan, fleet: Fleet) -> ReplicaPlan:
    """With the command that its settings mean now."""
    command, flag = told(
        request, fleet.gpus[replica.devices[0].offer].gpu, replica.quantization, replica.checkpoint,
        replica.settings, f"{replica.engine}@{replica.engine_version}", replica.port,
    )  # fmt: skip
    visible = ",".join(str(device.index) for device in replica.devices)
    environment = {**replica.environment, "CUDA_VISIBLE_DEVICES": visible}
    return replace(replica, command=command, environment=environment, quantization_flag=flag)


def _gpus(
    plan: Plan,
    fleet: Fleet,
    replicas: Sequence[ReplicaPlan],
    sizes: Mapping[str, Estimate],
    taken: Mapping[str, Taken],
) -> tuple[GpuPlan, ...]:
    """The cards in use, and those that stay empty on purpose. Who slept keeps sleeping."""
    asleep = {sleeper.share.replica: sleeper for gpu in plan.gpus for sleeper in gpu.sleepers}
    spare = {gpu.device for gpu in plan.gpus if gpu.spare}
    prices = {gpu.device: gpu.price_per_hour for gpu in plan.gpus}
    shares: dict[Device, list[GpuShare]] = defaultdict(list)
    sleepers: dict[Device, list[Sleeper]] = defaultdict(list)
    for one in replicas:
        for rank, device in enumerate(one.devices):
            share = share_of(one.id, rank, sizes[one.id])
            if one.id in asleep:
                host = share.weights_bytes if asleep[one.id].host_bytes else 0
                sleepers[device].append(Sleeper(share, taken[one.id].asleep_bytes, host))
            else:
                shares[device].append(share)
    used = sorted({*shares, *sleepers, *spare}, key=lambda device: (device.node, device.index))
    return tuple(
        GpuPlan(
            device=device,
            capacity_bytes=fleet.gpus[device.offer].gpu.cuda_bytes.value,
            used_bytes=fleet.gpus[device.offer].used_bytes,
            shares=tuple(shares[device]),
            price_per_hour=prices.get(device, fleet.gpus[device.offer].price_per_hour),
            sleepers=tuple(sleepers[device]),
            spare=not shares[device] and not sleepers[device],
        )
        for device in used
    )


def _counted(plan: Plan, fleet: Fleet) -> Plan:
    """With what its cards cost; nothing vouches for a bound any longer beyond that of the plan it was."""
    priced = any(offer.price_per_hour is not None for offer in fleet.gpus)
    cost = sum(gpu.price_per_hour or 0.0 for gpu in plan.gpus) if priced else None
    value = cost if cost is not None else float(len(plan.gpus))
    return replace(
        plan, cost_per_hour=cost, objective_value=value, lower_bound=min(plan.lower_bound, value), gap=None,
        naive=None, warnings=(),
    )  # fmt: skip


def slower_there(fleet: Fleet, replica: ReplicaPlan) -> tuple[str, ...]:
    """Why the planner would not serve it so on that type of card: an SLO, a kernel; nothing where it would."""
    number = next((at for at, one in enumerate(fleet.models) if one.name == replica.model), None)
    if number is None:
        return ()
    only = replace(fleet, gpus=(fleet.gpus[replica.devices[0].offer],))
    try:
        refusals = ways_of(only, number).refusals
    except CotenantError as error:
        return (f"{replica.id}: {error.message}",)
    split = split_of(replica.settings)
    return tuple(
        dict.fromkeys(
            f"{replica.id} on {replica.devices[0].type}: {one.reason}"
            for one in refusals
            if one.format == replica.quantization
            and (one.tensor_parallel_size, one.pipeline_parallel_size) in ((0, 1), (split.size, split.pipeline))
        )
    )
