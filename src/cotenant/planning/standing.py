"""What the running replicas of one plan hold of each card."""

from __future__ import annotations

from collections.abc import Mapping

from cotenant.domain.device import Device
from cotenant.domain.plan import GpuShare, Plan
from cotenant.engines.sleeping import RESTART
from cotenant.planning.check import every_share
from cotenant.planning.turn_bytes import Running, Taken

Place = tuple[str, int, int]  # type, node, index


def place_of(device: Device) -> Place:
    """A card by what two plans have in common."""
    return device.type, device.node, device.index


class Standing:
    """A plan of which the replicas in `running` run."""

    def __init__(self, plan: Plan) -> None:
        self.running: set[str] = set()
        turns_of = {name: number for number, turns in enumerate(plan.turns) for name in turns.models}
        self._group = {one.id: turns_of.get(one.model) for one in plan.replicas}
        self._restarts = {number for number, turns in enumerate(plan.turns) if turns.mode == RESTART}
        shares = [(place_of(gpu.device), share) for gpu in plan.gpus for share in every_share(gpu)]
        keeps = {one.id: max((share.runtime_bytes for _, share in shares if share.replica == one.id), default=0)
                 for one in plan.replicas}  # fmt: skip
        self._taken: dict[str, dict[Place, Taken]] = {one.id: {} for one in plan.replicas}
        for place, share in shares:
            self._taken[share.replica][place] = self._of(share, keeps[share.replica])

    def _of(self, share: GpuShare, keeps: int) -> Taken:
        group = self._group[share.replica]
        peak = max(share.load_peak_bytes, share.claimed_bytes)
        if group is None:
            return Taken(share.claimed_bytes, peak, 0)
        if group in self._restarts:
            return Taken(peak, peak, 0)
        return Taken(share.claimed_bytes, peak, keeps)

    def of(self, replica: str) -> Mapping[Place, Taken]:
        """What it takes of each of its cards."""
        return self._taken[replica]

    def held(self, place: Place, loading: str = "") -> int:
        """What those that run ever hold of a card; while one is `loading`, who takes turns with it is asleep."""
        running = Running()
        for name in self.running:
            one = self._taken[name].get(place)
            if one is not None:
                running.add(place, one.claim_bytes, self._group[name], one.asleep_bytes)
        return running.beside(place, self._group.get(loading))
