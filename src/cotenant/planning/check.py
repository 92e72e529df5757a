"""The independent verifier of plans.

It shares nothing with the solver's model: it reads the plan as a user would, asks the estimator afresh for
every replica, and adds up. A plan that fails is a fault of ours and is never shown (CheckError).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from math import isclose

from cotenant.domain.device import Device
from cotenant.domain.estimate import Estimate
from cotenant.domain.fleet import Fleet, ModelRequest
from cotenant.domain.plan import GpuPlan, GpuShare, Plan, ReplicaPlan, Turns
from cotenant.errors import CheckError

Reestimate = Callable[[ModelRequest, ReplicaPlan], Estimate]


def check_plan(plan: Plan, fleet: Fleet, reestimate: Reestimate) -> None:
    """Raise CheckError naming every promise that the plan breaks; silent when it keeps them all."""
    faults = tuple(find_faults(plan, fleet, reestimate))
    if faults:
        raise CheckError(
            "the plan failed its check: " + "; ".join(faults), hint="this is a fault of Cotenant: report it"
        )


def find_faults(plan: Plan, fleet: Fleet, reestimate: Reestimate) -> Iterator[str]:
    """Each broken promise as a sentence."""
    yield from _counts(plan, fleet)
    yield from _devices(plan, fleet)
    yield from _shares(plan)
    yield from _replicas(plan, fleet, reestimate)
    yield from _headroom(plan, fleet)
    yield from _loading(plan)
    yield from _turns(plan, fleet)
    yield from _spare(plan, fleet)
    yield from _wishes(plan, fleet)
    yield from _money(plan, fleet)


def _counts(plan: Plan, fleet: Fleet) -> Iterator[str]:
    count = Counter(replica.model for replica in plan.replicas)
    for request in fleet.models:
        number = count.pop(request.name, 0)
        missing = number == 0 and request.name in {short.model for short in plan.shortfalls}
        most = request.max_replicas or number
        if not missing and not request.min_replicas <= number <= most:
            yield f"{request.name} has {number} replicas, asked {request.min_replicas} to {most}"
    for name in count:
        yield f"{name} is not in the fleet"
    for what, values in (
        ("id", [replica.id for replica in plan.replicas]),
        ("start order", [replica.start_order for replica in plan.replicas]),
        ("port", [(replica.devices[0].node, replica.port) for replica in plan.replicas if replica.devices]),
    ):
        if len(set(values)) != len(values):
            yield f"two replicas share a {what}"
    if plan.feasible == bool(plan.shortfalls):
        yield "the plan is feasible and short at once"


def _devices(plan: Plan, fleet: Fleet) -> Iterator[str]:
    used: dict[int, set[Device]] = defaultdict(set)
    for replica in plan.replicas:
        size = replica.settings.tensor_parallel_size * replica.settings.pipeline_parallel_size
        if len(set(replica.devices)) != size:
            yield f"{replica.id} needs {size} cards and has {len(set(replica.devices))}"
        if size > 1 and any(fleet.gpus[device.offer].slice_of is not None for device in replica.devices):
            yield f"{replica.id} has several ranks on MIG slices"
        if size > 1 and any(fleet.gpus[device.offer].time_slices is not None for device in replica.devices):
            yield f"{replica.id} has several ranks on slices of time, which may be of one card"
        if len({(device.node, device.offer) for device in replica.devices}) != 1:
            yield f"{replica.id} crosses nodes"
        for device in replica.devices:
            used[device.offer].add(device)
    for gpu in plan.gpus:
        used[gpu.device.offer].add(gpu.device)
        places = fleet.gpus[gpu.device.offer].time_slices
        if places is not None and len(every_share(gpu)) > places:
            yield f"{_name(gpu)}: {len(every_share(gpu))} processes, {places} slices of its time"
    if len({gpu.device for gpu in plan.gpus}) != len(plan.gpus):
        yield "a card is listed twice"
    for number, devices in used.items():
        offer = fleet.gpus[number]
        limit = offer.count if offer.count is not None else offer.maximum
        if limit is not None and len(devices) > limit:
            yield f"{len(devices)} x {offer.gpu.name} used, {limit} available"
        for device in devices:
            if device.type != offer.gpu.name or not 0 <= device.index < offer.node_size:
                yield f"{device} is not a card of the fleet"


def _shares(plan: Plan) -> Iterator[str]:
    """Every rank stands on its card once, and nowhere else."""
    wanted = {
        (replica.id, rank): device for replica in plan.replicas for rank, device in enumerate(replica.devices)
    }
    seen = Counter((share.replica, share.rank) for gpu in plan.gpus for share in every_share(gpu))
    for key in seen.keys() | wanted.keys():
        if seen[key] != 1 or key not in wanted:
            yield f"rank {key[1]} of {key[0]} is listed {seen[key]} times"
    for gpu in plan.gpus:
        for share in every_share(gpu):
            if wanted.get((share.replica, share.rank)) != gpu.device:
                yield f"rank {share.rank} of {share.replica} stands on another card than its replica says"


def _replicas(plan: Plan, fleet: Fleet, reestimate: Reestimate) -> Iterator[str]:
    requests = {request.name: request for request in fleet.models}
    shares = {(share.replica, share.rank): share for gpu in plan.gpus for share in every_share(gpu)}
    for replica in plan.replicas:
        request = requests.get(replica.model)
        if request is None:
            continue
        if request.formats and replica.quantization not in request.formats:
            yield f"{replica.id} runs {replica.quantization}, asked {', '.join(request.formats)}"
        step, wanted = replica.settings.max_num_batched_tokens, request.max_num_batched_tokens
        if wanted is not None and step != wanted:
            yield f"{replica.id} reads {step} tokens a step, asked {wanted}"
        if {adapter.name for adapter in replica.adapters} != {adapter.name for adapter in request.adapters}:
            yield f"{replica.id} does not carry the adapters that were asked"
        estimate = reestimate(request, replica)
        if not estimate.fits:
            yield f"{replica.id} {estimate.verdict}: {estimate.reason}"
        for fresh in estimate.per_gpu:
            share = shares.get((replica.id, fresh.rank))
            told = share and (
                share.weights_bytes,
                share.kv_cache_bytes,
                share.activations_bytes,
                share.runtime_bytes,
            )
            truth = tuple(term.bytes.value for term in fresh.terms.values())
            if told != truth:
                yield f"{replica.id} rank {fresh.rank}: bytes {told} in the plan, {truth} by the estimator"
            budget = fresh.budget.value if fresh.fills else fresh.claimed_bytes
            if share and share.budget_bytes != budget:
                yield f"{replica.id} rank {fresh.rank}: budget differs from the estimator's"
        if not estimate.holds(replica.kv_needed_bytes):
            yield f"{replica.id}: pool smaller than its traffic needs"


def _headroom(plan: Plan, fleet: Fleet) -> Iterator[str]:
    for gpu in plan.gpus:
        offer = fleet.gpus[gpu.device.offer]
        if gpu.capacity_bytes != offer.gpu.cuda_bytes.value:
            yield f"{_name(gpu)}: capacity {gpu.capacity_bytes}, CUDA reports {offer.gpu.cuda_bytes.value}"
        if gpu.used_bytes != offer.used_bytes:
            yield f"{_name(gpu)}: {gpu.used_bytes} bytes held by others, the fleet says {offer.used_bytes}"
        taken = most_taken(plan, gpu, [share.replica for share in every_share(gpu)])
        free, asked = gpu.capacity_bytes - offer.used_bytes - taken, fleet.headroom * gpu.capacity_bytes
        if free < 0:
            yield f"{_name(gpu)}: {_gib(-free)} more than it has"
        elif free < asked:
            yield f"{_name(gpu)}: less headroom than asked, {_gib(free)} of {_gib(asked)}"


def _loading(plan: Plan) -> Iterator[str]:
    """In start order, each engine's load peak beside those already running stays within the card."""
    order = {replica.id: replica.start_order for replica in plan.replicas}
    for gpu in plan.gpus:
        started: list[str] = []
        for share in sorted(every_share(gpu), key=lambda one: order.get(one.replica, 0)):
            running = gpu.used_bytes + most_taken(plan, gpu, started, loading=share.replica)
            if running + share.load_peak_bytes > gpu.capacity_bytes:
                yield f"{_name(gpu)}: {share.replica} does not fit while it loads"
            started.append(share.replica)


def every_share(gpu: GpuPlan) -> tuple[GpuShare, ...]:
    """Of those drawn awake and of those drawn asleep."""
    return (*gpu.shares, *(sleeper.share for sleeper in gpu.sleepers))


def most_taken(plan: Plan, gpu: GpuPlan, present: Sequence[str], *, loading: str = "") -> int:
    """What those of the `present` replicas that stand on a card ever take of it together: of those that take turns
    one is awake, whichever takes most; none of those that take turns with who is `loading`."""
    awake = {
        one.replica: max(
            one.budget_bytes, one.weights_bytes + one.kv_cache_bytes + one.activations_bytes + one.runtime_bytes
        )
        for one in every_share(gpu)
    }
    model_of = {replica.id: replica.model for replica in plan.replicas}
    for one in every_share(gpu):
        turns_of = _group(plan, model_of.get(one.replica, ""))
        if turns_of is not None and turns_of.mode == "restart":  # it loads anew whenever it wakes
            awake[one.replica] = max(awake[one.replica], one.load_peak_bytes)
    present = [name for name in present if name in awake]
    total = sum(awake[name] for name in present if _group(plan, model_of.get(name, "")) is None)
    for turns in plan.turns:
        mine = [name for name in present if model_of.get(name) in turns.models]
        asleep = {name: _asleep(plan, gpu, turns, name) for name in mine}
        total += sum(asleep.values())
        if mine and model_of.get(loading) not in turns.models:
            total += max(awake[name] - asleep[name] for name in mine)
    return total


def _group(plan: Plan, model: str) -> Turns | None:
    return next((turns for turns in plan.turns if model in turns.models), None)


def _asleep(plan: Plan, gpu: GpuPlan, turns: Turns, replica: str) -> int:
    """What it keeps of the card: all that is neither weights, cache nor activations, unless it is stopped."""
    if turns.mode == "restart":
        return 0
    return max(
        share.runtime_bytes for card in plan.gpus for share in every_share(card) if share.replica == replica
    )


def _spare(plan: Plan, fleet: Fleet) -> Iterator[str]:
    """Empty cards in one node for each type in use: what stood on any one card, or node, can start again there."""
    for gpu in plan.gpus:
        if gpu.spare and (gpu.shares or gpu.sleepers):
            yield f"{_name(gpu)}: spare, and in use"
    if fleet.spare == "none" or not plan.feasible:
        return
    for number in {gpu.device.offer for gpu in plan.gpus if not gpu.spare}:
        sizes = [len(replica.devices) for replica in plan.replicas if replica.devices[0].offer == number]
        needed = fleet.gpus[number].node_size if fleet.spare == "node" else max(sizes, default=1)
        empty = Counter(gpu.device.node for gpu in plan.gpus if gpu.spare and gpu.device.offer == number)
        if max(empty.values(), default=0) < needed:
            yield f"{fleet.gpus[number].gpu.name}: {needed} spare cards in one node are asked for"


def _turns(plan: Plan, fleet: Fleet) -> Iterator[str]:
    """Who takes turns may, on the same cards, and the host holds what sleeps in it."""
    requests = {request.name: request for request in fleet.models}
    held: dict[tuple[int, int], int] = defaultdict(int)
    for turns in plan.turns:
        mine = [replica for replica in plan.replicas if replica.model in turns.models]
        if len({replica.devices for replica in mine}) != 1 or len(mine) != len(turns.models):
            yield f"{' and '.join(turns.models)} take turns, but not on the same cards"
        for replica in mine:
            if replica.model in requests and "sleep" not in requests[replica.model].sharing:
                yield f"{replica.id} takes turns and may not"
            if replica.settings.enable_sleep_mode == (turns.mode == "restart"):
                yield f"{replica.id} is not told to sleep as its turns ask"
            for device in replica.devices if turns.mode == "sleep-1" else ():
                held[device.offer, device.node] += sum(
                    share.weights_bytes
                    for gpu in plan.gpus
                    if gpu.device == device
                    for share in every_share(gpu)
                    if share.replica == replica.id
                )
    for offer, node in {(gpu.device.offer, gpu.device.node) for gpu in plan.gpus if gpu.spare}:
        moving = _moving(plan, offer, node)
        if moving:
            held[offer, node] += moving
    for (offer, node), size in held.items():
        limit = fleet.gpus[offer].host_memory_bytes
        if limit is None or size > limit:
            yield f"node {node}: sleepers take {size} bytes of host memory, {limit} are there"
    for gpu in plan.gpus:
        for sleeper in gpu.sleepers:
            models = [one.model for one in plan.replicas if one.id == sleeper.share.replica]
            of = _group(plan, models[0]) if models else None
            if of is None or sleeper.asleep_bytes != _asleep(plan, gpu, of, sleeper.share.replica):
                yield f"{_name(gpu)}: {sleeper.share.replica} sleeps otherwise than its turns say"


def _moving(plan: Plan, offer: int, node: int) -> int:
    """The most host memory that sleepers of one lost card bring to another node with a spare for it."""
    hosted = {name for turns in plan.turns if turns.mode == "sleep-1" for name in turns.models}
    weights: dict[str, int] = defaultdict(int)
    for gpu in plan.gpus:
        for share in every_share(gpu):
            weights[share.replica] += share.weights_bytes
    model_of = {replica.id: replica.model for replica in plan.replicas}
    lost = [
        sum(weights[share.replica] for share in every_share(gpu) if model_of.get(share.replica) in hosted)
        for gpu in plan.gpus
        if gpu.device.offer == offer and gpu.device.node != node
    ]
    return max(lost, default=0)


def _wishes(plan: Plan, fleet: Fleet) -> Iterator[str]:
    model_of = {replica.id: replica.model for replica in plan.replicas}
    for gpu in plan.gpus:
        present = [model_of.get(share.replica, "") for share in every_share(gpu)]
        if len(set(present)) != len(present):
            yield f"{_name(gpu)}: two replicas of one model"
        for request in fleet.models:
            if request.name not in present:
                continue
            for other in set(request.apart_from) & set(present):
                yield f"{_name(gpu)}: {request.name} and {other} must be apart"
            group = _group(plan, request.name)
            others = [name for name in present if group is None or name not in group.models]
            if "co-resident" not in request.sharing and len(others) > (group is None):
                yield f"{_name(gpu)}: {request.name} must be alone"
    yield from _pins(plan, fleet)
    for request in fleet.models:
        nodes = [one.devices[0].node for one in plan.replicas if one.model == request.name]
        if request.spread and len(set(nodes)) < len(nodes):
            yield f"{request.name} has two replicas on one node"


def _pins(plan: Plan, fleet: Fleet) -> Iterator[str]:
    first_of_offer: dict[int, int] = {}
    node_of_offer: dict[int, int] = {}
    index = node = 0
    for number, offer in enumerate(fleet.gpus):
        if offer.count is not None:
            first_of_offer[number], node_of_offer[number] = index, node
            index += offer.count
            node += -(-offer.count // offer.node_size)
    requests = {request.name: request for request in fleet.models}
    for replica in plan.replicas:
        pins = requests[replica.model].pin_gpus if replica.model in requests else ()
        for device in replica.devices if pins else ():
            start = first_of_offer.get(device.offer)
            if start is None:
                yield f"{replica.id} is pinned to the pool and stands on a bought card"
                continue
            offset = (device.node - node_of_offer[device.offer]) * fleet.gpus[device.offer].node_size
            if start + offset + device.index not in pins:
                yield f"{replica.id} stands on a card that its pin excludes"


def _money(plan: Plan, fleet: Fleet) -> Iterator[str]:
    prices = [fleet.gpus[gpu.device.offer].price_per_hour for gpu in plan.gpus if gpu.shares or gpu.spare]
    priced = any(offer.price_per_hour is not None for offer in fleet.gpus)
    cost = sum(price or 0.0 for price in prices) if priced else None
    if (cost is None) != (plan.cost_per_hour is None):
        yield "the cost is stated without prices, or withheld with them"
    elif (
        cost is not None and plan.cost_per_hour is not None and not isclose(cost, plan.cost_per_hour, abs_tol=1e-6)
    ):
        yield f"the cards cost {cost}, the plan says {plan.cost_per_hour}"
    if plan.feasible and plan.lower_bound > plan.objective_value + 1e-6:
        yield "the lower bound is above the value"


def _gib(size: float) -> str:
    return f"{size / 2**30:,.2f} GiB"


def _name(gpu: GpuPlan) -> str:
    return gpu.device.label
