"""One replica alone in the plain core."""

from __future__ import annotations

from cotenant.simulation.caching import CachingReplica
from cotenant.simulation.costs import StepCosts
from cotenant.simulation.kernel import Host, Stream, run
from cotenant.simulation.load import NEVER, Limits, Outcome, Requests
from cotenant.simulation.replica import Replica


def simulate(requests: Requests, limits: Limits, costs: StepCosts, *, until_ns: int = NEVER) -> Outcome:
    """What becomes of `requests` on one replica that has its cards to itself, as far as it ends by `until_ns`."""
    kind = Replica if requests.prefixes is None else CachingReplica
    host = Host(kind(requests, limits, costs), (0,))
    run([host], [Stream(requests, (0,))], until_ns=until_ns)
    return host.replica.outcome(host.busy_fs, host.last_fs)
