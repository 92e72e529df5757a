"""Whether this machine is the one that the plan was made for, as far as it says: before anything is started."""

from __future__ import annotations

from typing import Any

from cotenant.domain.engine import is_as_planned
from cotenant.domain.running import Launch
from cotenant.edge.engines import installed
from cotenant.edge.gateway import cards
from cotenant.edge.gateway.log import Log
from cotenant.edge.gateway.memory import memory_bytes
from cotenant.errors import InputError, InputErrors
from cotenant.serving.from_plan import Fleet
from cotenant.units import format_bytes


def check_hardware(fleet: Fleet, log: Log) -> None:
    """Raises InputErrors with every card that is not here or smaller than planned, and for more host memory than
    there is. Where no driver answers, the log says that nothing was compared."""
    wanted = {
        card: device
        for launch, host in zip(fleet.launches, fleet.hosts, strict=True)
        for device, card in zip(host.devices, launch.devices, strict=False)
        if host.ours
    }
    in_memory = {
        device
        for launch, host in zip(fleet.launches, fleet.hosts, strict=True)
        if host.ours and not launch.devices
        for device in host.devices
    }
    faults = _memory_faults(sum(fleet.devices.bytes[device] for device in in_memory))
    driver, reason = cards.driver() if wanted else (None, "")
    if wanted and driver is None:
        log.event("cards_not_compared", reason=reason, cards=sorted(wanted))
    elif wanted:
        faults += _card_faults(driver, wanted, fleet)
    if faults:
        raise InputErrors(faults)


def check_engines(fleet: Fleet, log: Log) -> None:
    """Raises InputErrors where nothing of the plan can run: no engine's program is here, and none runs elsewhere.
    Where one of several is missing, or of another version than planned, the log says so."""
    ours: dict[str, list[Launch]] = {}
    for launch in fleet.launches:
        if not launch.url:
            ours.setdefault(launch.engine, []).append(launch)
    absent: dict[str, InputError] = {}
    for engine in ours:
        try:
            installed.check_engine(engine)
        except InputError as error:
            absent[engine] = error
    if absent and len(absent) == len(ours) and all(not launch.url for launch in fleet.launches):
        raise InputErrors(absent.values())
    for engine, launches in ours.items():
        if engine in absent:
            told, replicas = absent[engine], [one.id for one in launches]
            log.event("engine_missing", engine=engine, replicas=replicas, reason=told.message, hint=told.hint)
        else:
            _compare_versions(engine, launches, log)


def _compare_versions(engine: str, launches: list[Launch], log: Log) -> None:
    runs = installed.version(engine)
    for version in dict.fromkeys(one.version for one in launches) if runs is not None else ():
        if is_as_planned(str(runs), version) is False:
            replicas = [one.id for one in launches if one.version == version]
            log.event("engine_version_differs", engine=engine, replicas=replicas, planned=version, installed=runs)


def _card_faults(driver: Any, wanted: dict[int, int], fleet: Fleet) -> list[InputError]:
    found: list[InputError] = []
    sizes = cards.sizes(driver)
    for card, device in sorted(wanted.items()):
        name, planned = fleet.devices.names[device], fleet.devices.bytes[device]
        if card not in sizes:
            found.append(
                InputError(f"the plan wants card {card} ({name}); the driver knows {len(sizes)} here", hint=_HINT)
            )
        elif sizes[card][1] < planned:
            called, size = sizes[card]
            found.append(
                InputError(
                    f"the plan gives {format_bytes(planned)} of card {card} ({name}); here it is a {called} of "
                    f"{format_bytes(size)}",
                    hint=_HINT,
                )
            )
    return found


def _memory_faults(planned: int) -> list[InputError]:
    have = memory_bytes() if planned else 0
    if planned <= have:
        return []
    words = f"the plan gives {format_bytes(planned)} of host memory; here there are {format_bytes(have)}"
    return [InputError(words, hint=_HINT)]


_HINT = "plan for this machine, or serve the plan where it belongs"
