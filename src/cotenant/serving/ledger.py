"""Bytes of each device: who holds how much. Ask with `fits`, then `hold`; `check` may be called anywhere."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from cotenant.errors import CheckError


class Ledger:
    """What each replica holds of each device. Nobody is ever given what is not there."""

    __slots__ = ("capacity", "held", "holders", "others")

    def __init__(self, capacity: Sequence[int]) -> None:
        self.capacity = list(capacity)
        self.held = [0] * len(self.capacity)
        self.others = [0] * len(self.capacity)  # bytes that the driver says others hold
        self.holders: dict[int, tuple[tuple[int, ...], int]] = {}

    def resize(self, device: int, capacity: int) -> None:
        """What is ours to give of a device from now on; the next number is a new device's."""
        if device == len(self.capacity):
            self.capacity.append(capacity)
            self.held.append(0)
            self.others.append(0)
        self.capacity[device] = capacity

    def free(self, device: int) -> int:
        """What is left; negative where others have taken more than we left them."""
        return self.capacity[device] - self.others[device] - self.held[device]

    def holds(self, replica: int) -> int:
        """Bytes that the replica holds of each of its devices."""
        found = self.holders.get(replica)
        return 0 if found is None else found[1]

    def fits(self, replica: int, devices: tuple[int, ...], wanted: int) -> bool:
        """Whether the replica may hold `wanted` bytes of each of `devices`."""
        more = wanted - self.holds(replica)
        if more > 0:
            for device in devices:
                if more > self.free(device):
                    return False
        return True

    def hold(self, replica: int, devices: tuple[int, ...], wanted: int) -> None:
        """Let it hold `wanted` bytes of each device in the place of what it held. Raises CheckError where that
        does not fit: whoever asks first never sees it."""
        if not self.fits(replica, devices, wanted):
            raise CheckError(f"replica {replica} would overrun a device: {wanted:,} bytes")
        more = wanted - self.holds(replica)
        for device in devices:
            self.held[device] += more
        if wanted:
            self.holders[replica] = (devices, wanted)
        else:
            self.holders.pop(replica, None)

    def beyond(
        self, device: int, free_bytes: int, ours: Mapping[int, int | None], moving: Container[int] = ()
    ) -> int:
        """Bytes of a device that are not ours to give, by what its driver says: what others hold, and what our
        replicas hold beyond their entries. `ours`: what each holds by its pid; None, or no entry, where that is
        not known. Then its entry counts; one of those that are `moving` (that load, wake or go) holds anything up
        to its entry, so that others hold what they were last seen to hold, as far as the sum allows. A replica
        that is known to hold less than its entry hides nothing."""
        held = unsure = excess = 0
        for replica, (devices, booked) in self.holders.items():
            if device in devices:
                actual = ours.get(replica)
                if actual is not None:
                    held += actual
                    excess += max(0, actual - booked)
                elif replica in moving:
                    unsure += booked
                else:
                    held += booked
        most = max(0, self.capacity[device] - free_bytes - held)
        return min(most, max(most - unsure, self.others[device] - excess, 0)) + excess

    def check(self) -> None:
        """Add up all over again. Raises CheckError where the sums differ, or a device is overrun by us alone."""
        sums = [0] * len(self.capacity)
        for devices, wanted in self.holders.values():
            for device in devices:
                sums[device] += wanted
        if sums != self.held:
            raise CheckError(f"the ledger's sums are {self.held}, its entries add up to {sums}")
        for device, total in enumerate(sums):
            if total > self.capacity[device]:
                raise CheckError(f"device {device} holds {total:,} of {self.capacity[device]:,} bytes")
