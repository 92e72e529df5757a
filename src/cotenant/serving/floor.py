"""What the parts of the router share: the time, the replicas, the models, the bytes, and what is to be done."""

from __future__ import annotations

from collections.abc import Sequence

from cotenant.serving.effects import Effect
from cotenant.serving.ledger import Ledger
from cotenant.serving.replica import Model, Replica
from cotenant.serving.settings import Hosted, Served, Settings
from cotenant.serving.waiting import Request


class Floor:
    """The state. Device `host_memory` of the ledger is where sleepers keep their weights.

    `now_ns` never goes back, whatever a clock says.
    """

    __slots__ = (
        "by_name", "draining_ns", "effects", "host_memory", "ledger", "models", "now_ns", "replicas", "requests",
        "review_ns", "settings",
    )  # fmt: skip

    def __init__(
        self, hosts: Sequence[Hosted], models: Sequence[Served], capacity: Sequence[int], settings: Settings
    ) -> None:
        self.settings = settings
        self.now_ns = 0
        self.draining_ns: int | None = None  # when the drain ends, once it has begun
        self.review_ns: int | None = None  # when a decision that waits for time alone is looked at again
        self.effects: list[Effect] = []
        self.requests: dict[int, Request] = {}
        self.ledger = Ledger([*capacity, settings.host_bytes])
        self.host_memory = len(capacity)
        self.models = [
            Model(place, one.name, one.priority, one.limit_ns, one.service_ns) for place, one in enumerate(models)
        ]
        self.by_name = {one.name: one for one in self.models}
        self.replicas = [
            Replica(place, self.by_name[host.model].index, host) for place, host in enumerate(hosts)
        ]  # fmt: skip
        for replica in self.replicas:
            self.models[replica.model].replicas.append(replica)

    def wanted(self, replica: Replica) -> bool:
        """Whether it may take more work: one that retires may not, unless its model has left the plan with it."""
        return not replica.retires or not self.serves(self.models[replica.model])

    def serves(self, model: Model) -> bool:
        """Whether the plan has the model still."""
        return self.by_name.get(model.name) is model

    def review_at(self, moment_ns: int) -> None:
        """Look at the decisions again at that moment, or sooner."""
        if moment_ns > self.now_ns and (self.review_ns is None or moment_ns < self.review_ns):
            self.review_ns = moment_ns
