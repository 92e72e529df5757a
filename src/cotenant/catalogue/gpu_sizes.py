"""The two capacities of a card where no public log shows one of them.

Both rules take their figures from the cards of the catalogue that were measured.

Gap. CUDA reports less than the driver: page tables, firmware and bookkeeping stay with the driver. What it keeps
grows slowly with the card's size and changes with the architecture and the driver's release. So a card whose
`cuda_bytes` nobody printed gets [driver - largest gap, driver - smallest gap] of the measured cards most like it:
same vendor, same architecture and 2/3 to 3/2 of its size; where fewer than two are, same vendor and like size;
else same vendor. Read the other way, the same gap gives `driver_bytes` from `cuda_bytes`, never above the
marketed size.

Share. A card with neither figure gets `driver_bytes` as its marketed GiB times the range of driver / marketed
over the same cards (ECC on GDDR takes 1/16; the rest is what the driver never shows).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from cotenant.domain.interval import Interval


@dataclass(frozen=True, slots=True)
class Sizes:
    """What is known of one card's memory, in bytes. `marketed` counts GiB: chips come in powers of two."""

    vendor: str
    architecture: str
    marketed: int | None
    driver: Interval | None
    cuda: Interval | None
    cuda_measured: bool = False

    @property
    def nominal(self) -> int:
        """A size to compare cards by."""
        if self.marketed:
            return self.marketed
        known = self.driver or self.cuda
        return known.value if known is not None else 0


def completed(card: Sizes, measured: Sequence[Sizes]) -> tuple[Interval, Interval]:
    """(driver, cuda) of `card`; what it lacks comes from the `measured` cards (which have both)."""
    if card.driver is not None and card.cuda is not None:
        return card.driver, card.cuda
    like = _alike(card, measured)
    gaps = [gap for other in like for gap in _gaps(other)]
    if card.cuda is not None:
        ceiling = max(card.marketed or card.cuda.high + max(gaps), card.cuda.high)
        driver = _spread(
            card.cuda.low + min(gaps), card.cuda.value + round(median(gaps)), card.cuda.high + max(gaps)
        )
        return _between(driver, 0, ceiling), card.cuda
    driver = card.driver or _scaled(card.nominal, like)
    cuda = _spread(driver.low - max(gaps), driver.value - round(median(gaps)), driver.high - min(gaps))
    return driver, _between(cuda, 0, driver.high)


def _alike(card: Sizes, measured: Sequence[Sizes]) -> Sequence[Sizes]:
    vendor = [other for other in measured if other.vendor == card.vendor] or list(measured)
    low, high = card.nominal * 2 / 3, card.nominal * 3 / 2
    near = [other for other in vendor if low <= other.nominal <= high]
    same = [other for other in near if other.architecture == card.architecture]
    return next((group for group in (same, near) if len(group) >= 2), vendor)


def _gaps(other: Sizes) -> Iterable[int]:
    if other.driver is None or other.cuda is None:
        return ()
    return (other.driver.value - other.cuda.high, other.driver.value - other.cuda.low)


def _scaled(marketed: int, like: Sequence[Sizes]) -> Interval:
    shares = [o.driver.value / o.marketed for o in like if o.driver is not None and o.marketed]
    low, high = min(shares, default=0.9), min(1.0, max(shares, default=1.0))
    return _spread(*(round(marketed * share) for share in (low, min(high, median(shares or [1.0])), high)))


def _spread(low: int, value: int, high: int) -> Interval:
    return Interval(min(low, high), min(max(low, value), high), max(low, high))


def _between(size: Interval, floor: int, ceiling: int) -> Interval:
    low, value, high = (min(max(part, floor), ceiling) for part in (size.low, size.value, size.high))
    return Interval(low, value, high)
