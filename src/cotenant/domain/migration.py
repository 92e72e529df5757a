"""From the plan that runs to the next one: what stays, what changes, and in which order."""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.domain.device import Device


@dataclass(frozen=True, slots=True)
class MigrationStep:
    """One action: ``start`` a replica, ``stop`` one.

    `needed_bytes` is what each of its cards must have free before a start (its load peak), `freed_bytes` what a
    stop gives back; `seconds` how long a start takes to its first answer (estimated). `downtime` marks a stop
    after which its model has fewer replicas than before until its next start.
    """

    action: str
    replica: str
    model: str
    devices: tuple[Device, ...]
    needed_bytes: int = 0
    freed_bytes: int = 0
    seconds: float = 0.0
    downtime: bool = False


@dataclass(frozen=True, slots=True)
class Migration:
    """Replicas by what happens to them (ids of the new plan; of the old one where they are stopped for good), and
    the steps in an order in which no card ever holds more than it has."""

    kept: tuple[str, ...]
    restarted: tuple[str, ...]  # same cards and weights, other flags
    moved: tuple[str, ...]  # other cards, or other weights
    started: tuple[str, ...]
    stopped: tuple[str, ...]
    steps: tuple[MigrationStep, ...]
    previous_cost: float | None = None

    @property
    def downtimes(self) -> tuple[str, ...]:
        """Models that answer less for a while."""
        return tuple(dict.fromkeys(step.model for step in self.steps if step.downtime))
