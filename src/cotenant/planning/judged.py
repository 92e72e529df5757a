"""The estimate of a way to serve a model, made when somebody looks at it: a plan chooses few of thousands."""

from __future__ import annotations

from cotenant.domain.demand import Demand
from cotenant.domain.engine import EngineSettings
from cotenant.domain.estimate import Estimate
from cotenant.domain.fleet import GpuOffer, ModelRequest
from cotenant.engines import find_engine
from cotenant.errors import UnsupportedError
from cotenant.estimation.memory import estimate_memory
from cotenant.planning.served import Served


class Judged:
    """Called, it gives the estimate of one replica of `request` with these settings, alone on a card of `offer`;
    always the same object. It does not travel to other processes: whoever receives a way gives it a new one."""

    __slots__ = ("_demand", "_made", "_offer", "_request", "_served", "_settings")

    def __init__(
        self,
        request: ModelRequest,
        offer: GpuOffer,
        served: Served,
        settings: EngineSettings,
        demand: Demand,
        made: Estimate | None = None,
    ) -> None:
        self._request, self._offer, self._served = request, offer, served
        self._settings, self._demand, self._made = settings, demand, made

    def __call__(self) -> Estimate:
        if self._made is None:
            self._made = judged(self._request, self._offer, self._served, self._settings, self._demand)
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
