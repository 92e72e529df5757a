"""The estimate of a way to serve a model, made when somebody looks at it: a plan chooses few of thousands."""

from __future__ import annotations

from collections.abc import Mapping

from cotenant.domain.demand import Demand
from cotenant.domain.engine import EngineSettings
from cotenant.domain.estimate import Estimate
from cotenant.domain.fleet import GpuOffer, ModelRequest
from cotenant.engines import find_engine
from cotenant.estimation.memory import estimate_memory
from cotenant.planning.served import Precision, Served


class Judged:
    """Called, it gives the estimate of one replica with these settings, alone on a card of its offer; always the
    same object. It travels to other processes without what it is an estimate of, which `bind` gives back."""

    __slots__ = ("_demand", "_made", "_of", "_precision", "_settings")

    def __init__(
        self,
        settings: EngineSettings,
        demand: Demand,
        precision: Precision,
        of: tuple[ModelRequest, GpuOffer, Served] | None = None,
        made: Estimate | None = None,
    ) -> None:
        self._settings, self._demand, self._precision, self._of, self._made = settings, demand, precision, of, made

    def __reduce__(self) -> tuple[type[Judged], tuple[EngineSettings, Demand, Precision]]:
        return Judged, (self._settings, self._demand, self._precision)

    def bind(self, request: ModelRequest, offer: GpuOffer, served: Mapping[Precision, Served]) -> None:
        """Say what it is an estimate of: one of those precisions."""
        self._of = (request, offer, served[self._precision])

    def __call__(self) -> Estimate:
        """Made now, where it is not made yet."""
        if self._made is None:
            if self._of is None:
                raise ValueError("an estimate that came from elsewhere is bound before it is looked at")
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
