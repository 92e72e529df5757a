"""What is known beyond the rules while an answer is worked out: the user's measurements, others' step times."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from cotenant.edge.aiconfigurator import consulted
from cotenant.edge.calibrations import in_force
from cotenant.estimation.calibrated import InForce

R = TypeVar("R")


@contextmanager
def known(calibration: bool = True, aiconfigurator: bool = True) -> Iterator[InForce]:
    """Estimates made inside follow what was measured and are combined with AIConfigurator, unless not wanted."""
    with in_force(calibration) as held, consulted(aiconfigurator):
        yield held


def with_known(calibration: bool, aiconfigurator: bool, function: Callable[..., R], *args: Any) -> R:
    """What `function` returns inside `known`; for another process, which starts knowing nothing of it."""
    with known(calibration, aiconfigurator):
        return function(*args)
