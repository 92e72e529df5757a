"""The simulator's residency with `cotenant serve`'s `--hold`: an idle model makes room only once another's request
has waited so long. The decision is `policy.eviction.may_go`, as the gateway calls it."""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.policy.eviction import may_go
from cotenant.simulation.costs import FS_PER_NS
from cotenant.simulation.residency import Residency, Resident, State


@dataclass(frozen=True, slots=True, eq=False)
class Held(Residency):
    """`hold_fs` as above."""

    hold_fs: int = 0

    def next_change(self, now: int) -> int | None:
        """Also when a sleeper's oldest request has waited for the hold."""
        found = Residency.next_change(self, now)
        moments = [] if found is None else [found]
        for one in self.residents:
            oldest = one.replica.oldest_ns if one.state is State.ASLEEP else None
            if oldest is not None and oldest * FS_PER_NS + self.hold_fs > now:
                moments.append(oldest * FS_PER_NS + self.hold_fs)
        return min(moments, default=None)

    def _may_go(self, one: Resident, comer: Resident, now: int) -> bool:
        return may_go(
            one.replica.has_work,
            comer.priority,
            one.priority,
            resident=now - one.since_fs,
            minimum=self.minimum_fs,
            wait=_waited(comer, now),
            own_wait=_waited(one, now),
            patience=self.patience_fs,
            hold=self.hold_fs,
        )


def _waited(one: Resident, now: int) -> int:
    """Femtoseconds that its oldest waiting request has waited; -1 where none waits."""
    oldest = one.replica.oldest_ns
    return -1 if oldest is None else now - oldest * FS_PER_NS
