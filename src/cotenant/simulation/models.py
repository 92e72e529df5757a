"""One model on its way through a replay: its request, its work, the numbers of its hosts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cotenant.domain.conditions import Conditions
from cotenant.domain.fleet import ModelRequest
from cotenant.domain.workload import SILENT
from cotenant.simulation.best_fit import ENDLESS, Targets
from cotenant.simulation.clock import silent
from cotenant.simulation.costs import FS_PER_S, NS_PER_S
from cotenant.simulation.hosting import Hosting
from cotenant.simulation.kernel import Stream
from cotenant.simulation.workload import Workload, workload


@dataclass(slots=True, eq=False)
class Model:
    """`hosts` are the places of its replicas among the plan's; `work` is told anew once a closed loop has run."""

    request: ModelRequest
    work: Workload
    hosts: tuple[int, ...]

    @property
    def targets(self) -> Targets:
        """What best fit is told of it: its SLO, and how long its answers are on average."""
        slo, outputs = self.request.slo, self.work.requests.output_tokens
        mean = max(1, round(float(outputs.mean()))) if len(outputs) else 1
        if slo is None:
            return Targets(output_tokens=mean)
        ttft, tpot = (
            ENDLESS if target is None else round(target * FS_PER_S) for target in (slo.ttft_s, slo.tpot_s)
        )  # fmt: skip
        return Targets(ttft, tpot, mean)

    def as_it_came(self, stream: Stream) -> None:
        """A closed loop's requests with the times at which they came; those that never came are dropped."""
        kept = self.work.requests.take(slice(0, len(stream.came_ns)))
        said = self.work.warnings
        if len(stream.came_ns) == len(self.work.requests) and len(kept):
            last = stream.came_ns[-1] / NS_PER_S
            said = (
                *said,
                f"all {len(kept):,} requests that were drawn were asked by {last:,.3g} s: none after that",
            )
        self.work = replace(
            self.work, requests=replace(kept, arrival_ns=np.array(stream.came_ns, np.int64)), warnings=said
        )


def drawn(
    number: int, request: ModelRequest, hostings: Sequence[Hosting], *, seed: int, span_s: float,
    start: int | None, conditions: Conditions,
) -> Model:  # fmt: skip
    """The `number`-th model with its requests of `span_s` seconds; `start` is the hour at which they begin."""
    hosts = tuple(place for place, one in enumerate(hostings) if one.model == request.name)
    step = min((hostings[one].times.decode_step_s(1, 1) for one in hosts), default=1.0)
    work = workload(
        request.traffic, seed=seed, model=number, duration_s=span_s, step_s=step, priority=request.priority,
        start_hour=start, timeout_s=conditions.timeout_s,
        answers=request.task not in SILENT and not request.model.encoder_only,
    )  # fmt: skip
    if start is not None and silent(request.traffic, start, span_s):
        quiet = f"nobody asks it from {start:02}:00 on, when the fleet is busiest; ask --duration 24h for a day"
        work = replace(work, warnings=(*work.warnings, quiet))
    if conditions.timeout_s is not None and not work.users:
        leaves = work.requests.arrival_ns + round(conditions.timeout_s * NS_PER_S)
        work = replace(work, requests=replace(work.requests, cancel_ns=leaves))
    return Model(request, work, hosts)
