"""After a restart: engines of an earlier run are taken over, or stopped, and nothing else is touched."""

from __future__ import annotations

from dataclasses import replace

from cotenant.domain.running import Health
from cotenant.edge.engines import processes
from cotenant.edge.engines.calls import address
from cotenant.edge.engines.llama_router import RoutedLlama
from cotenant.edge.engines.strays import strays
from cotenant.edge.gateway.core import Core
from cotenant.edge.gateway.hands import EngineHands
from cotenant.edge.gateway.journal import Entry, Journal, Stage
from cotenant.edge.gateway.routed import ROUTER
from cotenant.errors import CotenantError
from cotenant.serving.replica import State


def adopt(core: Core, hands: EngineHands, journal: Journal) -> None:
    """Take over engines of an earlier run that are what the plan wants; stop those that are not, and nothing else.

    An engine is ours where pid, start time and command are those of the journal. The plan wants it where its
    command is the one that would be built now. One that was on its way to sleep or back is stopped.
    """
    wanted = {launch.id: place for place, launch in enumerate(core.fleet.launches) if not launch.url}
    for entry in journal.entries():
        process = entry.process
        if not processes.alive(process) or not processes.same_command(process):
            journal.drop(process)
            continue
        place = wanted.get(entry.replica)
        if hands.router is not None and entry.replica == ROUTER and hands.router.adopt(entry):
            continue
        try:
            state = None if place is None else _taken_over_as(core, hands, place, entry)
            if place is not None and state is not None:
                hands.adopt(place, entry, core.router.adopted(core.now_ns, place, state))
                continue
        except CotenantError as error:
            core.log.event("engine_not_adopted", replica=entry.replica, reason=error.message)
        core.log.event("orphan_stopped", replica=entry.replica, pid=process.pid)
        processes.stop(process)
        journal.drop(process)
    for process in strays(journal.folder / "logs", {entry.process.pid for entry in journal.entries()}):
        core.log.event("orphan_stopped", replica="", pid=process.pid)
        processes.stop(process)


def _taken_over_as(core: Core, hands: EngineHands, place: int, entry: Entry) -> State | None:
    """In which state an engine can be taken over: it runs as the plan would start it, its port apart, and is as
    the journal says. None where it cannot."""
    if core.router.floor.replicas[place].state is not State.STOPPED:
        return None
    driver, url = hands.engines[place].driver, entry.process.url
    launch = replace(core.fleet.launches[place], port=address(url).port)
    if isinstance(driver, RoutedLlama):
        if hands.router is None or hands.router.url != url or driver.section not in entry.process.argv:
            return None
    elif driver.command(launch, key=entry.key).argv != entry.process.argv:
        return None
    if entry.stage is Stage.LOADING:
        return State.STARTING
    health = driver.health(url, key=entry.key)
    if entry.stage is Stage.ASLEEP:
        known = entry.reference and entry.level == core.fleet.sleep_levels[place]
        return State.ASLEEP if known and health is Health.ASLEEP else None
    return State.READY if entry.stage is Stage.AWAKE and health is Health.READY else None
