"""MIG slices: which profiles a card has, and what share of the card each one is.

Shares of memory and of multiprocessors, and the most instances of a profile, are those of NVIDIA's MIG user guide
(docs.nvidia.com/datacenter/tesla/mig-user-guide, "Supported MIG Profiles" and "Supported GPUs"): A30 in quarters;
A100, H100, H200 and B200 in eighths of the memory and sevenths of the multiprocessors. A profile's name tells
its compute slices and its memory rounded (``3g.40gb``); profiles with media engines (``+me``) or graphics are
left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from cotenant.domain.gpu import GpuSpec
from cotenant.domain.interval import Interval
from cotenant.errors import InputError
from cotenant.units import GIB

_KEPT = GIB // 2
"""What an instance may lack of its share: listings of profiles (`nvidia-smi mig -lgip`) print 4.75 of 5, 9.5 of
10, 19.5 of 20 and 39.25 of 40 GiB."""


@dataclass(frozen=True, slots=True)
class MigProfile:
    """One profile: its share of the card's memory (and bandwidth) and of its multiprocessors, and how many of it
    fit on one card."""

    name: str
    memory: Fraction
    compute: Fraction
    most: int


def _sevenths(*memory_gb: int) -> tuple[MigProfile, ...]:
    """Profiles of the cards with eight memory slices and seven compute slices, by the names' sizes in GB."""
    eighth, quarter, half, whole = memory_gb
    return (
        MigProfile(f"1g.{eighth}gb", Fraction(1, 8), Fraction(1, 7), 7),
        MigProfile(f"1g.{quarter}gb", Fraction(2, 8), Fraction(1, 7), 4),
        MigProfile(f"2g.{quarter}gb", Fraction(2, 8), Fraction(2, 7), 3),
        MigProfile(f"3g.{half}gb", Fraction(4, 8), Fraction(3, 7), 2),
        MigProfile(f"4g.{half}gb", Fraction(4, 8), Fraction(4, 7), 1),
        MigProfile(f"7g.{whole}gb", Fraction(1), Fraction(1), 1),
    )


_A30 = (
    MigProfile("1g.6gb", Fraction(1, 4), Fraction(1, 4), 4),
    MigProfile("2g.12gb", Fraction(2, 4), Fraction(2, 4), 2),
    MigProfile("4g.24gb", Fraction(1), Fraction(1), 1),
)
_PROFILES: Mapping[str, tuple[MigProfile, ...]] = {
    "A30": _A30,
    "A100-40GB": _sevenths(5, 10, 20, 40),
    "A100-80GB": _sevenths(10, 20, 40, 80),
    "H100-80GB": _sevenths(10, 20, 40, 80),
    "H200": _sevenths(18, 35, 71, 141),
    "B200": _sevenths(23, 45, 90, 180),
}


def profiles_of(gpu: GpuSpec) -> tuple[MigProfile, ...]:
    """The profiles of a card; none where it is not known to have any."""
    return next((found for name, found in _PROFILES.items() if _is(gpu.name, name)), ())


def _is(card: str, name: str) -> bool:
    return card == name or card.startswith(f"{name}-")


def sliced(gpu: GpuSpec, profile: str) -> tuple[GpuSpec, MigProfile]:
    """A slice of the card as a card of its own, without links. Raises InputError naming the profiles there are."""
    known = profiles_of(gpu)
    if not known:
        raise InputError(f"{gpu.name} has no MIG profiles", hint="A30, A100, H100, H200 or B200; or whole cards")
    found = next((one for one in known if one.name == profile), None)
    if found is None:
        raise InputError(
            f"{gpu.name} has no MIG profile {profile[:40]!r}", hint=", ".join(one.name for one in known)
        )
    share = float(found.memory)
    spec = replace(
        gpu,
        name=f"{gpu.name}:{found.name}",
        driver_bytes=_part(gpu.driver_bytes, found.memory),
        cuda_bytes=_part(gpu.cuda_bytes, found.memory),
        cuda_measured=False,
        memory_bandwidth=gpu.memory_bandwidth * share,
        peak_flops={name: rate * float(found.compute) for name, rate in gpu.peak_flops.items()},
        link_bandwidth=None,
        price_per_hour=None,
        price_source="",
        aliases=(),
    )
    return spec, found


def _part(whole: Interval, share: Fraction) -> Interval:
    """A share of the bytes, of which up to half a GiB may be missing."""
    part = [int(end * share) for end in (whole.low, whole.value, whole.high)]
    return Interval(part[0] - _KEPT, part[1] - _KEPT // 2, part[2])
