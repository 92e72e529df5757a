"""From a plan to what the router and the drivers need: bytes by device, slots, launches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cotenant.catalogue.gpus import all_gpus
from cotenant.domain.device import Device
from cotenant.domain.engine import Version
from cotenant.domain.fleet import ModelRequest
from cotenant.domain.plan import GpuPlan, GpuShare, Plan, ReplicaPlan
from cotenant.domain.running import Launch
from cotenant.engines.hosting import slots_of
from cotenant.engines.sleeping import RESTART, SLEEP_1, SLEEP_2, kept_bytes, sleep_modes
from cotenant.engines.starting import starting
from cotenant.errors import InputError
from cotenant.estimation.cold_start import Kept, cold_start
from cotenant.estimation.swapping import swap_seconds
from cotenant.serving.settings import SECOND, Hosted, Served
from cotenant.units import format_bytes

_MODES = (RESTART, SLEEP_1, SLEEP_2)  # by level


@dataclass(frozen=True, slots=True)
class Devices:
    """The plan's devices in their order in the ledger, and how many bytes of each are ours to give."""

    names: tuple[str, ...]
    bytes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Fleet:
    """What is served: hosts and launches go by the same numbers. `names` maps every name that a client may ask
    for (models, and the adapters on them) to its model; `sleep_levels` by replica, 0 where it is stopped."""

    hosts: tuple[Hosted, ...]
    models: tuple[Served, ...]
    launches: tuple[Launch, ...]
    devices: Devices
    names: Mapping[str, str]
    sleep_levels: tuple[int, ...]
    hours: tuple[Hours, ...] = ()


@dataclass(frozen=True, slots=True)
class Hours:
    """When a model's traffic comes: 24 weights from midnight in `timezone`."""

    model: str
    weights: tuple[float, ...]
    timezone: str


def fleet_of(
    plan: Plan, requests: Sequence[ModelRequest] = (), *, urls: Mapping[str, str] | None = None,
    priorities: bool = False,
) -> Fleet:  # fmt: skip
    """The plan as it is served. `requests` (the fleet's models) add priorities and SLOs; `urls` name replicas, or
    models, whose engines run already and are not ours; `priorities`: clients differ in them. Raises
    InputError where the plan cannot be served."""
    if not plan.feasible or not plan.replicas:
        raise InputError("this plan is not feasible: it cannot be served", hint="see its shortfalls")
    ordered = sorted(plan.replicas, key=lambda one: (one.start_order, one.id))
    elsewhere = _elsewhere(ordered, urls or {})
    asked = {one.name: one for one in requests}
    modes = {model: turns.mode for turns in plan.turns for model in turns.models}
    numbers = {gpu.device: place for place, gpu in enumerate(plan.gpus)}
    shares = _shares(plan.gpus)
    hosts, launches, levels = [], [], []
    for replica in ordered:
        url = elsewhere.get(replica.id, "")
        level = 0 if url else _sleep_level(replica, modes.get(replica.model, ""))
        hosts.append(_host(replica, shares, numbers, level, ours=not url))
        differ = priorities or (replica.model in asked and asked[replica.model].priority != 0)
        launches.append(launch_of(replica, url, level, priorities=differ))
        levels.append(level)
    devices = Devices(
        tuple(gpu.device.label for gpu in plan.gpus),
        tuple(gpu.capacity_bytes - gpu.used_bytes for gpu in plan.gpus),
    )
    for host in hosts:
        _check_room(host, devices)
    models = tuple(_served(name, asked.get(name)) for name in dict.fromkeys(one.model for one in ordered))
    names = _names(ordered)
    hours = tuple(
        Hours(names[one.name], one.traffic.by_hour, one.traffic.timezone)
        for one in requests
        if one.traffic.by_hour and one.name in names  # under another's name where it was folded onto its engine
    )
    return Fleet(tuple(hosts), models, tuple(launches), devices, names, tuple(levels), hours)


def _elsewhere(replicas: Sequence[ReplicaPlan], urls: Mapping[str, str]) -> dict[str, str]:
    """The addresses of replicas whose engines run already. Raises InputError for one that is of nothing in the
    plan, and for a replica without one that cannot be started here."""
    unknown = sorted(set(urls) - {one.id for one in replicas} - {one.model for one in replicas})
    if unknown:
        raise InputError(f"no replica or model {unknown[0][:60]!r} in the plan")
    found = {one.id: urls.get(one.id) or urls.get(one.model, "") for one in replicas}
    ours = [one for one in replicas if not found[one.id]]
    for one in ours:
        hint = f"start it, and give --url {one.id}=http://..."
        if any(device.is_slice for device in one.devices):
            raise InputError(f"{one.id}: engines on MIG slices are not started yet", hint=hint)
        if one.devices[0].node != min(each.devices[0].node for each in ours):
            where = f"{one.id} stands on another machine (node {one.devices[0].node})"
            raise InputError(
                f"{where}: engines are started on one only",
                hint=f"start it there (cotenant deploy --listen ADDRESS), and give --url {one.id}=http://...",
            )
    return found


def _names(replicas: Sequence[ReplicaPlan]) -> dict[str, str]:
    """Every name that a client may ask for, and its model: where two claim one, the model's own comes first."""
    found = {one.model: one.model for one in replicas}
    for replica in replicas:
        further = (*replica.also_serves, *(adapter.name for adapter in replica.adapters))
        found |= {name: replica.model for name in further if name not in found}
    return found


def launch_of(
    replica: ReplicaPlan, url: str = "", sleep_level: int = 0, *, priorities: bool = False
) -> Launch:  # fmt: skip
    """The replica's typed fields, from which a driver builds its command."""
    return Launch(
        replica.id, replica.model, replica.engine, replica.engine_version, replica.checkpoint, replica.settings,
        replica.port, quantization=replica.quantization_flag, adapters=replica.adapters,
        devices=() if replica.settings.works_on_host else tuple(device.index for device in replica.devices),
        url=url, sleep_level=sleep_level, also_serves=replica.also_serves, priorities=priorities,
    )  # fmt: skip


def _shares(gpus: Sequence[GpuPlan]) -> dict[tuple[str, Device], tuple[GpuShare, int, int]]:
    """(share, bytes asleep, bytes in host memory) by replica and card."""
    found = {(share.replica, gpu.device): (share, 0, 0) for gpu in gpus for share in gpu.shares}
    for gpu in gpus:
        for one in gpu.sleepers:
            found[one.share.replica, gpu.device] = (one.share, one.asleep_bytes, one.host_bytes)
    return found


def _host(
    replica: ReplicaPlan,
    shares: Mapping[tuple[str, Device], tuple[GpuShare, int, int]],
    numbers: Mapping[Device, int],
    level: int,
    *,
    ours: bool,
) -> Hosted:
    mine = [shares[replica.id, device] for device in replica.devices if (replica.id, device) in shares]
    if len(mine) != len(replica.devices):
        raise InputError(f"the plan does not say what {replica.id} takes of its cards")
    version = Version.parse(replica.engine_version)
    slots = slots_of(replica.engine, version, replica.settings)
    if not ours:
        return Hosted(replica.id, replica.model, (), 0, slots, load_ns=0, ours=False)
    share = max((one[0] for one in mine), key=lambda one: one.claimed_bytes)
    weights = max(one[0].weights_bytes for one in mine)
    how = starting(replica.engine, version, enforce_eager=replica.settings.enforce_eager)
    gpu = next((one for one in all_gpus() if one.name == replica.devices[0].type), None)
    swaps_s = swap_seconds(weights, gpu, max(one[0].kv_cache_bytes for one in mine), starting=how)
    first = cold_start(weights, how, kept=Kept.NOTHING, gpu=gpu)
    return Hosted(
        replica.id, replica.model, tuple(numbers[device] for device in replica.devices), share.claimed_bytes,
        slots,
        load_ns=int(swaps_s[RESTART][1] * SECOND),
        longest_load_ns=int(first.interval_s[2] * SECOND),
        load_peak_bytes=max(one[0].load_peak_bytes for one in mine),
        asleep_bytes=max(one[1] or kept_bytes(_MODES[level], one[0].runtime_bytes) for one in mine),
        host_bytes=sum(one[2] or one[0].weights_bytes for one in mine) if level == 1 else 0,
        wake_ns=int(swaps_s[_MODES[level]][1] * SECOND) if level else 0,
        can_sleep=level > 0,
    )  # fmt: skip


def _check_room(host: Hosted, devices: Devices) -> None:
    """Raises InputError for a replica that could not be started on a device that has nothing else on it."""
    for device in host.devices:
        if host.start_bytes > devices.bytes[device]:
            needs, has = format_bytes(host.start_bytes), format_bytes(devices.bytes[device])
            raise InputError(
                f"{host.id} takes {needs} while it starts, and {devices.names[device]} has {has} to give",
                hint="plan again: this plan cannot be served",
            )


def _sleep_level(replica: ReplicaPlan, planned: str) -> int:
    """How the plan lets it give memory back: level 1, 2, or 0 where it is stopped. `planned` is the mode in which
    its models take turns, if they do; without one, an engine that is told to sleep does so in its quickest way."""
    if planned:
        return 1 if planned == SLEEP_1 else 0 if planned == RESTART else 2
    if not (replica.settings.enable_sleep_mode or replica.sharing.startswith("sleep")):
        return 0
    modes = sleep_modes(replica.engine, Version.parse(replica.engine_version), adapters=bool(replica.adapters))
    mode = replica.sharing if replica.sharing in modes else modes[0]
    return 0 if mode == RESTART else 1 if mode == SLEEP_1 else 2


def _served(name: str, request: ModelRequest | None) -> Served:
    if request is None:
        return Served(name)
    ttft = None if request.slo is None else request.slo.ttft_s
    limit = None if ttft is None else int(ttft * SECOND)
    return Served(name, request.priority, limit)
