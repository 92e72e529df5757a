"""The gateway's own metrics, for Prometheus."""

from __future__ import annotations

from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from cotenant.serving.replica import State
from cotenant.serving.router import Router

_PACES = (0.005, 0.01, 0.02, 0.03, 0.04, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0)
_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)


class Figures:
    """Counted as it happens; gauges are read off the router when somebody asks."""

    def __init__(self, router: Router, devices: Sequence[str]) -> None:
        self._router, self._devices = router, devices
        self._registry = CollectorRegistry(auto_describe=False)
        self._of_requests(self._registry)
        self._of_engines(self._registry)
        self._of_devices(self._registry)

    def _of_requests(self, to: CollectorRegistry) -> None:
        """Models and clients' keys are the plan's and the key file's: nobody who asks makes a new row."""
        self.requests = Counter(
            "cotenant_requests", "Requests that ended, by model and status.", ("model", "status"), registry=to
        )
        self.first_byte = Histogram(
            "cotenant_first_byte_seconds", "Arrival to first byte.", ("model",), buckets=_SECONDS, registry=to
        )
        words = "First to last event of a stream, by event after the first: engines send one a token."
        self.pace = Histogram("cotenant_event_seconds", words, ("model",), buckets=_PACES, registry=to)
        self.total = Histogram(
            "cotenant_request_seconds", "Arrival to last byte.", ("model",), buckets=_SECONDS, registry=to
        )
        words = "Requests that a higher priority took a slot from before their first byte."
        self.preemptions = Counter("cotenant_preemptions", words, ("model",), registry=to)
        self._waiting = Gauge("cotenant_waiting", "Requests that wait.", ("model",), registry=to)
        self._running = Gauge("cotenant_running", "Requests in engines.", ("replica",), registry=to)

    def _of_engines(self, to: CollectorRegistry) -> None:
        self.starts = Counter("cotenant_engine_starts", "Engines started.", ("replica",), registry=to)
        self.wakes = Counter("cotenant_engine_wakes", "Engines woken.", ("replica",), registry=to)
        words = "Engines put to sleep or stopped while requests are taken: to make room, when idle, by a new plan."
        self.evictions = Counter("cotenant_engine_evictions", words, ("replica",), registry=to)
        self.failures = Counter("cotenant_engine_failures", "Engines that failed.", ("replica",), registry=to)
        self._state = Gauge(
            "cotenant_replica_up", "1 where requests are served.", ("replica", "state"), registry=to
        )
        words = "Resident bytes of its processes."
        self.resident = Gauge("cotenant_replica_resident_bytes", words, ("replica",), registry=to)

    def _of_devices(self, to: CollectorRegistry) -> None:
        words = "Bytes that others hold, or engines beyond their place, as the driver says."
        self.foreign = Gauge("cotenant_device_foreign_bytes", words, ("device",), registry=to)
        self._held = Gauge("cotenant_device_held_bytes", "Bytes in the ledger.", ("device",), registry=to)
        words = "Bytes that are ours to give."
        self._capacity = Gauge("cotenant_device_capacity_bytes", words, ("device",), registry=to)

    def page(self) -> bytes:
        """The text that is scraped."""
        floor = self._router.floor
        for model in floor.models:
            self._waiting.labels(model.name).set(model.waiting.count)
        self._state.clear()
        self._running.clear()
        for replica in floor.replicas:
            if replica.retires and replica.state is State.STOPPED:
                continue
            self._running.labels(replica.host.id).inc(len(replica.running))
            up = float(replica.free_slots > 0 or bool(replica.running))
            self._state.labels(replica.host.id, replica.state.name.lower()).set(up)
        for place, name in enumerate(self._devices):
            self._held.labels(name).set(floor.ledger.held[place])
            self._capacity.labels(name).set(floor.ledger.capacity[place])
        return generate_latest(self._registry)
