"""Whether this machine is the one that the plan was made for, as far as it says: before anything is started."""

from __future__ import annotations

from typing import Any

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
    driver = cards.driver() if wanted else None
    if wanted and driver is None:
        log.event("cards_not_compared", reason="no driver answers", cards=sorted(wanted))
    elif wanted:
        faults += _card_faults(driver, wanted, fleet)
    if faults:
        raise InputErrors(faults)


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
