"""The last request of a replica gives up: whoever waits for its place comes next, and the run goes on."""

from __future__ import annotations

from cotenant.simulation.costs import StepCosts
from cotenant.simulation.kernel import Host, Stream, run
from cotenant.simulation.load import Limits, Requests
from cotenant.simulation.replica import Replica

SECOND_FS, SECOND_NS = 10**15, 10**9


def test_a_closed_loop_goes_on_after_its_only_request_gave_up() -> None:
    """Steps of 2 s and clients that wait 1 s: every request gives up, at 2, 4, 6, 8 and 10 s, and none is lost."""
    requests = Requests.of([0] * 5, [100] * 5, [10] * 5)
    costs = StepCosts.plane(
        base=2 * SECOND_FS, per_sequence=0, per_context_token=0, prefill_base=0, prefill_per_token=0,
        per_square=0,
    )  # fmt: skip
    host = Host(Replica(requests, Limits(4, 1024, 16, 1000, 1000), costs), (0,))
    stream = Stream(requests, (0,), users=1, until_ns=300 * SECOND_NS, timeout_ns=SECOND_NS)
    run([host], [stream], until_ns=900 * SECOND_NS)
    assert stream.came_ns == [each * 2 * SECOND_NS for each in range(5)]
    assert host.last_fs // SECOND_FS == 10
