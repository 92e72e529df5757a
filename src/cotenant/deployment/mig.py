"""MIG slices: they have no number that survives a reboot, so files name a variable that must be set."""

from __future__ import annotations

from collections.abc import Iterable

from cotenant.deployment.launch import Launch


def mig_variable(index: int) -> str:
    """Whoever starts the plan says in it which slice of their machine the plan's `index`-th one is."""
    return f"COTENANT_SLICE_{index}"


def mig_reference(one: Launch) -> str:
    """Its slices as a shell and Compose write a variable that must be set: they end where it is not."""
    return ",".join(f"${{{mig_variable(index)}:?the UUID of a {profile} slice, by nvidia-smi -L}}"
                    for index, profile in zip(one.cards, one.mig_profiles, strict=True))  # fmt: skip


def mig_notes(found: Iterable[Launch], where: str) -> tuple[str, ...]:
    """Which slices there must be, and who is told their UUIDs."""
    wanted = {
        (one.node, index): profile
        for one in found
        for index, profile in zip(one.cards, one.mig_profiles, strict=False)  # none where cards are whole
    }
    return tuple(
        f"make a {profile} slice and give its UUID (nvidia-smi -L) as {mig_variable(index)} {where}"
        for (_, index), profile in sorted(wanted.items())
    )
