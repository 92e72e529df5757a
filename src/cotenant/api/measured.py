"""An answer with all that is known in force: what was measured here, and AIConfigurator where it is installed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from cotenant.domain.estimate import Estimate
    from cotenant.domain.plan import Plan

Answer = TypeVar("Answer", bound="Estimate | Plan")


def with_what_is_known(make: Callable[[], Answer], calibration: bool, aiconfigurator: bool) -> Answer:
    """What `make` gives with all that is known in force, and a word on the measurements that it used."""
    from dataclasses import replace

    from cotenant.edge.calibrations import notes_of, version_of
    from cotenant.edge.known import known

    with known(calibration, aiconfigurator) as held:
        found = make()
    version = version_of(held)
    if version is None:
        return found
    return replace(found, calibration=version, warnings=(*found.warnings, *notes_of(held)))
