"""The estimate of a way to serve a model, made when somebody looks at it: a plan chooses few of thousands."""

from __future__ import annotations

from cotenant.domain.demand import Demand
from cotenant.domain.engine import EngineSettings
from cotenant.domain.estimate import Estimate
from cotenant.domain.fleet import GpuOffer, ModelRequest
from cotenant.engines import find_engine
from cotenant.estimation.memory import estimate_memory
from cotenant.planning.served import Precision, Served


class Judged:
    """Called, it gives the estimate of one replica with these settings, alone on a card of its offer; always the
    same object. `precision` tells which of the model's on that card it is of."""

    __slots__ = ("_demand", "_made", "_of", "_settings", "precision")

    def __init__(
        self,
        settings: EngineSettings,
        demand: Demand,
        precision: Precision,
        of: tuple[ModelRequest, GpuOffer, Served],
        made: Estimate | None = None,
    ) -> None:
        self._settings, self._demand, self._of, self._made = settings, demand, of, made
        self.precision = precision

    def __call__(self) -> Estimate:
        """Made now, where it is not made yet."""
        if self._made is None:
            self._made = judged(*self._of, self._settings, self._demand)
        return self._made


def judged(
    request: ModelRequest, offer: GpuOffer, served: Served, settings: EngineSettings, asked: Demand | None
) -> Estimate:
    """The estimate of one replica of `request` with these settings, alone on a card of `offer`."""
    engine, version = find_engine(request.engine)
    return estimate_memory(
        request.model, offer.gpu, settings, engine=engine, version=version, format=served.served.format,
        used_bytes=offer.used_bytes, demand=asked, model_path=served.served.model_path,
    )  # fmt: skip
