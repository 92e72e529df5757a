"""The life of engines: start, up, asleep, awake, gone; what times out, what rests before it is tried again.

A replica's bytes are held from before its start until its process is known to be gone: a stop that nobody answers
is repeated as a kill, and its place stays taken meanwhile.
"""

from __future__ import annotations

from cotenant.errors import CheckError
from cotenant.policy.refusal import backoff_ns
from cotenant.serving.effects import Probe, Sleep, Start, Stop, Wake
from cotenant.serving.floor import Floor
from cotenant.serving.replica import COMING, Replica, State


class Supervisor:
    """Moves replicas from state to state. Requests are the router's: it is told who is left without an engine."""

    __slots__ = ("floor",)

    def __init__(self, floor: Floor) -> None:
        self.floor = floor

    def start(self, replica: Replica) -> None:
        """Start it; its bytes must fit."""
        floor, host = self.floor, replica.host
        floor.ledger.hold(replica.index, host.devices, host.start_bytes)
        replica.generation += 1
        self._enter(replica, State.STARTING, self._longest_start_ns(replica))
        floor.effects.append(Start(replica.index, replica.generation))

    def adopt(self, replica: Replica, state: State) -> None:
        """Take over an engine of an earlier run as it is: READY, ASLEEP, or STARTING, which then has as long as
        one that was started now. Raises CheckError where its bytes do not fit; it then holds none."""
        floor, host = self.floor, replica.host
        asleep = state is State.ASLEEP
        if asleep and host.host_bytes > floor.ledger.free(floor.host_memory):
            raise CheckError(f"replica {replica.index} sleeps in more host memory than there is")
        held = host.asleep_bytes if asleep else host.start_bytes if state is State.STARTING else host.awake_bytes
        floor.ledger.hold(replica.index, host.devices, held)
        if asleep:
            self._hold_host(replica, host.host_bytes)
        replica.generation += 1
        replica.since_ns = replica.used_ns = floor.now_ns
        self._enter(replica, state, self._longest_start_ns(replica) if state is State.STARTING else None)

    def wake(self, replica: Replica) -> None:
        """Wake it; its bytes must fit."""
        floor, host = self.floor, replica.host
        floor.ledger.hold(replica.index, host.devices, host.awake_bytes)
        limit = max(floor.settings.least_start_ns, floor.settings.slack * host.wake_ns)
        self._enter(replica, State.WAKING, limit)
        floor.effects.append(Wake(replica.index, replica.generation))

    def make_room(self, replica: Replica, *, sleeps: bool) -> None:
        """Send it away: once its requests have ended it sleeps, or it is stopped."""
        replica.sleeps_next = sleeps
        if replica.state is State.ASLEEP:
            self.stop(replica)
            return
        self._enter(replica, State.DRAINING, None)
        self.settle(replica)

    def settle(self, replica: Replica) -> None:
        """A draining replica without requests goes on to sleep or to stop."""
        if replica.state is not State.DRAINING or replica.running:
            return
        floor, host = self.floor, replica.host
        host_place = floor.host_memory
        if replica.sleeps_next and host.host_bytes <= floor.ledger.free(host_place):
            self._hold_host(replica, host.host_bytes)
            self._enter(replica, State.FALLING_ASLEEP, max(floor.settings.least_start_ns, 4 * host.wake_ns))
            floor.effects.append(Sleep(replica.index, replica.generation))
        else:
            self.stop(replica)

    def stop(self, replica: Replica, *, kill: bool = False) -> None:
        """End its process; its bytes are held until it is gone."""
        self._enter(replica, State.STOPPING, self.floor.settings.grace_ns)
        self.floor.effects.append(Stop(replica.index, replica.generation, kill))

    def suspect(self, replica: Replica) -> None:
        """Send nothing more to it until a probe has come back."""
        if replica.state is State.READY:
            self._enter(replica, State.SUSPECT, self.floor.settings.probe_ns)
            self.floor.effects.append(Probe(replica.index, replica.generation))

    def up(self, replica: Replica) -> bool:
        """It answers: started, awake again, or cleared of suspicion. Whether that was waited for."""
        floor = self.floor
        if replica.state in COMING:
            replica.since_ns = replica.used_ns = floor.now_ns
            replica.failed_starts = 0
            floor.ledger.hold(replica.index, replica.host.devices, replica.host.awake_bytes)
            self._hold_host(replica, 0)
        elif replica.state is not State.SUSPECT:
            return False
        self._enter(replica, State.READY, None)
        return True

    def slept(self, replica: Replica) -> None:
        """It has freed its memory."""
        if replica.state is State.FALLING_ASLEEP:
            self.floor.ledger.hold(replica.index, replica.host.devices, replica.host.asleep_bytes)
            self._enter(replica, State.ASLEEP, None)

    def failed(self, replica: Replica, reason: str, *, lasting: bool = False) -> None:
        """It does not do what it should, though its process may live: it is killed. `lasting`: another try would
        fail as well, so that it counts as many."""
        if lasting:
            replica.failed_starts = self.floor.settings.broken_after
        if not replica.host.ours:
            self._rest(replica, reason)
            self._enter(
                replica, State.SUSPECT, max(self.floor.settings.probe_ns, replica.retry_ns - self.floor.now_ns)
            )
        elif replica.state not in (State.STOPPED, State.STOPPING):
            self._rest(replica, reason)
            self.stop(replica, kill=True)

    def gone(self, replica: Replica, reason: str) -> None:
        """Its process is gone: what it held is free. A death that nobody asked for counts as a failure."""
        if replica.state is State.STOPPED:
            return
        if replica.state is not State.STOPPING:
            self._rest(replica, reason)
        self.floor.ledger.hold(replica.index, replica.host.devices, 0)
        self._hold_host(replica, 0)
        self._enter(replica, State.STOPPED, None)

    def late(self, replica: Replica) -> bool:
        """Its time is up. Whether it then has to be killed, and its requests have no engine."""
        state = replica.state
        if state is State.STOPPING:
            settings = self.floor.settings
            self._enter(replica, State.STOPPING, settings.kill_every_ns)
            self.floor.effects.append(Stop(replica.index, replica.generation, kill=True))
            return False
        if state is State.SUSPECT and not replica.host.ours:
            self._enter(replica, State.SUSPECT, self.floor.settings.probe_ns)
            self.floor.effects.append(Probe(replica.index, replica.generation))
            return False
        return True

    def _longest_start_ns(self, replica: Replica) -> int:
        settings, host = self.floor.settings, replica.host
        return max(settings.least_start_ns, settings.slack * host.load_ns, host.longest_load_ns)

    def _rest(self, replica: Replica, reason: str) -> None:
        settings = self.floor.settings
        replica.failures += 1
        replica.failed_starts += replica.state in COMING
        replica.reason = reason
        rest = backoff_ns(replica.failures, settings.backoff_ns, settings.most_backoff_ns)
        replica.retry_ns = self.floor.now_ns + rest

    def _enter(self, replica: Replica, state: State, limit_ns: int | None) -> None:
        replica.state = state
        replica.until_ns = None if limit_ns is None else self.floor.now_ns + limit_ns

    def _hold_host(self, replica: Replica, wanted: int) -> None:
        """What a sleeper keeps in host memory stands in the ledger under a number of its own."""
        if replica.host.host_bytes:
            self.floor.ledger.hold(-1 - replica.index, (self.floor.host_memory,), wanted)
