"""The only reading and writing of sizes, times, shares, prices and counts.

Inside the program bytes are `int`, seconds `float`, shares fractions 0..1. GB (10^9) and GiB (2^30) are never
mixed, and a bare number where a unit matters is refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import isfinite

from cotenant.errors import InputError

KIB, MIB, GIB, TIB = 2**10, 2**20, 2**30, 2**40

_BYTES = {
    "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
    "kib": KIB, "mib": MIB, "gib": GIB, "tib": TIB,
}  # fmt: skip
_SECONDS = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_COUNTS = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9, "t": 10**12}
_QUANTITY = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?)\s*([A-Za-zµ%]*)\s*")
_LARGEST_BYTES = 2**60
_LONGEST_S = 10 * 366 * 86400.0
_LARGEST_PRICE = 1e6


def _split(text: object, what: str, example: str) -> tuple[float, str]:
    """The number and the unit of `text`; raises InputError naming `what` and an `example`."""
    if isinstance(text, bool) or not isinstance(text, (str, int, float)):
        raise InputError(f"{what} must be text such as {example}, not {type(text).__name__}")
    if isinstance(text, int) and abs(text) >= 10**40:  # str() of a huge int is slow, then refused by Python
        raise InputError(f"a number of that size is not {what}", hint=f"write it as {example}")
    match = _QUANTITY.fullmatch(str(text).replace("μ", "µ")) if len(str(text)) <= 40 else None
    if match is None:
        raise InputError(f"{str(text)[:60]!r} is not {what}", hint=f"write it as {example}")
    number = float(match.group(1))
    if not isfinite(number):
        raise InputError(f"{str(text)[:60]!r} is not {what}: the number is absurd", hint=f"write it as {example}")
    return number, match.group(2)


def parse_bytes(text: object) -> int:
    """A size with its unit: ``80GB`` is 80 * 10^9, ``80GiB`` 80 * 2^30. A bare number other than 0 is refused."""
    number, unit = _split(text, "a size", "80GB or 80GiB")
    if not unit and number == 0:
        return 0
    factor = _BYTES.get(unit.lower())
    if factor is None:
        problem = "has no unit" if not unit else f"has an unknown unit {unit!r}"
        raise InputError(f"size {str(text)!r} {problem}", hint="GB is 10^9 bytes, GiB 2^30: write 80GB or 80GiB")
    size = round(number * factor)
    if size > _LARGEST_BYTES:
        raise InputError(f"size {str(text)!r} is absurd: above 1 EiB", hint="check the unit")
    return size


def parse_percent(text: object) -> float:
    """A share as ``12%``, returned as the fraction 0.12. A fraction never stands for a percentage."""
    number, unit = _split(text, "a percentage", "12%")
    if unit != "%":
        likely = number * 100 if number < 1 else number  # 0.12 was surely meant as 12%
        raise InputError(f"{str(text)!r} is not a percentage", hint=f"did you mean {likely:g}%? write the sign")
    if number > 100:
        raise InputError(f"{str(text)!r} is above 100%")
    return number / 100


def parse_seconds(text: object) -> float:
    """A time with its unit: ``2s``, ``80ms``, ``1.5h``."""
    number, unit = _split(text, "a time", "2s or 80ms")
    factor = _SECONDS.get(unit.lower())
    if factor is None:
        problem = "has no unit" if not unit else f"has an unknown unit {unit!r}"
        raise InputError(f"time {str(text)!r} {problem}", hint="write 2s, 80ms or 1h")
    if number * factor > _LONGEST_S:
        raise InputError(f"time {str(text)!r} is absurd: above ten years", hint="check the unit")
    return number * factor


def parse_price(text: object) -> float:
    """Dollars an hour, written ``$1.29/h``."""
    if isinstance(text, str):
        match = re.fullmatch(r"\s*\$\s*([0-9]+(?:\.[0-9]+)?)\s*/\s*(?:h|hr|hour)\s*", text)
        if match is not None and len(text) < 40 and float(match.group(1)) <= _LARGEST_PRICE:
            return float(match.group(1))
    raise InputError(f"{str(text)[:60]!r} is not a price", hint="write it as $1.29/h")


def parse_count(text: object) -> int:
    """A number of parameters: ``7B``, ``405b``, ``350M`` or a bare integer."""
    number, unit = _split(text, "a count", "7B")
    factor = _COUNTS.get(unit.lower())
    if factor is None:
        raise InputError(f"{str(text)!r} is not a count", hint="write it as 7B or 350M")
    count = round(number * factor)
    if count > 10**15:
        raise InputError(f"{str(text)!r} is absurd: above 10^15", hint="check the suffix: M, B or T")
    return count


def format_bytes(size: int, *, digits: int = 2) -> str:
    """GiB from half a GiB up, else MiB, KiB or B: ``16.00 GiB``."""
    magnitude = abs(size)
    if magnitude >= GIB // 2:
        return f"{size / GIB:,.{digits}f} GiB"
    if magnitude >= MIB:
        return f"{size / MIB:,.{digits}f} MiB"
    if magnitude >= KIB:
        return f"{size / KIB:,.{digits}f} KiB"
    return f"{size} B"


def format_gib(size: int, *, digits: int = 2) -> str:
    """Always GiB, for columns that must line up: ``0.13 GiB``."""
    return f"{size / GIB:,.{digits}f} GiB"


def format_seconds(seconds: float) -> str:
    """``1.23 s``, ``80 ms``, ``12 us`` or ``2.5 h``, three significant digits."""
    if seconds >= 7200:
        hours = seconds / 3600
        return f"{hours:.3g} h" if hours < 999.5 else f"{hours:.0f} h"
    if seconds >= 1:
        return f"{seconds:.3g} s" if seconds < 999.5 else f"{seconds:.0f} s"
    if seconds >= 1e-3:
        return f"{seconds * 1e3:.3g} ms"
    return f"{seconds * 1e6:.3g} us"


def format_percent(share: float, *, digits: int = 0) -> str:
    """The fraction 0.12 as ``12%``."""
    return f"{share * 100:.{digits}f}%"


def format_price(dollars: float) -> str:
    """``$1.29/h``."""
    return f"${dollars:,.2f}/h"


def listed(names: Sequence[str]) -> str:
    """``a, b and c``."""
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def plural(count: int, noun: str, several: str = "") -> str:
    """``1 card``, ``2 cards``, ``1,024 cards``; `several` where an s does not make it: ``2 policies``."""
    return f"{count:,} {noun if count == 1 else several or noun + 's'}"


def format_count(count: int) -> str:
    """``8.03B``, ``350M``, ``1,024``."""
    for suffix, factor in (("T", 10**12), ("B", 10**9), ("M", 10**6)):
        if count >= factor:
            return f"{count / factor:.3g}{suffix}"
    return f"{count:,}"
