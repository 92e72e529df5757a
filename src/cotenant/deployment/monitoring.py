"""What to watch: scraping, one name over engines for the autoscaler, and alerts on the plan's own limits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cotenant.deployment.cells import Cell
from cotenant.deployment.launch import Launch
from cotenant.deployment.pods import PART_OF
from cotenant.domain.plan import Plan
from cotenant.engines.hosting.rules import Metrics

WAITING, CACHE_USE = "cotenant_requests_waiting", "cotenant_kv_cache_use"
"""What the recording rules call the two gauges, whatever the engine calls them."""

Spec = dict[str, Any]


def monitoring(plan: Plan, found: Sequence[Cell], ports: Mapping[str, int]) -> tuple[list[Spec], tuple[str, ...]]:
    """(PodMonitors and a PrometheusRule, notes); nothing where no engine has figures to read."""
    watched = [(cell, one, page) for cell in found for one, page in _pages(cell)]
    silent = sorted({one.replica.engine for cell in found for one in cell.launches} - _engines(watched))
    notes = tuple(f"{engine} has no figures that Prometheus reads: no autoscaling, no alerts" for engine in silent)
    if not watched:
        return [], notes
    needs = (
        "monitoring.yaml needs the Prometheus operator; autoscaling also the Prometheus adapter's default rules"
    )
    made = [_pod_monitor(cell, ports) for cell in found if _pages(cell)]
    return [*made, _rule(plan, found, watched)], (needs, *notes)


def autoscaler(plan: Plan, cell: Cell) -> Spec | None:
    """From the plan's number of pods to twice that, where each pod's queue or KV pool fills: the planned number
    already carries the planned traffic. None where no engine of the cell says how many wait."""
    pages = _pages(cell)
    metrics: list[Spec] = []
    if any(page.queue for _, page in pages):
        slots = min(one.slots for one, _ in pages)
        metrics.append(_metric(WAITING, str(max(1, slots // 4))))
    if any(page.cache_use for _, page in pages):
        metrics.append(_metric(CACHE_USE, "900m"))
    if not metrics:
        return None
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": cell.name, "labels": dict(PART_OF)},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": cell.name},
            "minReplicas": cell.count,
            "maxReplicas": 2 * cell.count,
            "metrics": metrics,
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": 1800}},
        },
    }


def _metric(name: str, value: str) -> Spec:
    return {
        "type": "Pods",
        "pods": {"metric": {"name": name}, "target": {"type": "AverageValue", "averageValue": value}},
    }


def _pages(cell: Cell) -> list[tuple[Launch, Metrics]]:
    found = [(one, one.hosting.metrics(one.version)) for one in cell.launches]
    return [(one, page) for one, page in found if page is not None]


def _engines(watched: Sequence[tuple[Cell, Launch, Metrics]]) -> set[str]:
    return {one.replica.engine for _, one, _ in watched}


def _pod_monitor(cell: Cell, ports: Mapping[str, int]) -> Spec:
    points = [
        {"port": f"model-{ports[one.name]}", "path": page.path, "interval": "15s"} for one, page in _pages(cell)
    ]
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PodMonitor",
        "metadata": {"name": cell.name, "labels": dict(PART_OF)},
        "spec": {
            "selector": {"matchLabels": {"app.kubernetes.io/name": cell.name}},
            "podMetricsEndpoints": points,
        },
    }


def _rule(plan: Plan, found: Sequence[Cell], watched: Sequence[tuple[Cell, Launch, Metrics]]) -> Spec:
    groups = [
        {"name": "cotenant-gauges", "rules": list(_gauges(watched))},
        {"name": "cotenant-limits", "rules": [*_limits(watched), *_pods(found), *_memory(plan, found)]},
    ]
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "cotenant", "labels": dict(PART_OF)},
        "spec": {"groups": groups},
    }


def _gauges(watched: Sequence[tuple[Cell, Launch, Metrics]]) -> Iterator[Spec]:
    """A pod's figure for the autoscaler: all that wait in it, and its fullest pool."""
    for record, over, names in (
        (WAITING, "sum", sorted({page.queue for _, _, page in watched} - {""})),
        (CACHE_USE, "max", sorted({page.cache_use for _, _, page in watched} - {""})),
    ):
        if names:
            yield {"record": record, "expr": f"{over} by (namespace, pod) ({' or '.join(names)})"}


def _limits(watched: Sequence[tuple[Cell, Launch, Metrics]]) -> Iterator[Spec]:
    """Alerts where a replica is beyond what it was planned for."""
    for cell, one, page in watched:
        here = f'{{container="{one.name}", pod=~"{_pods_of(cell)}"}}'
        slots = one.replica.settings.max_num_seqs
        if page.queue and slots:
            text = f"as many requests wait as may run ({slots}): the traffic is above what was planned"
            yield _alert("CotenantQueue", f"{page.queue}{here} > {slots}", "5m", one, text)
        if page.cache_use:
            text = "the KV pool was sized to overflow rarely, and it has been full for ten minutes"
            yield _alert("CotenantCacheFull", f"{page.cache_use}{here} > 0.95", "10m", one, text)
        if page.first_token and one.replica.ttft_s:
            high = one.replica.ttft_s[2]
            late = f"histogram_quantile(0.95, sum by (le) (rate({page.first_token}_bucket{here}[5m])))"
            text = f"TTFT at p95 is above {high:.3g} s, the upper end of what was estimated"
            yield _alert("CotenantSlowFirstToken", f"{late} > {high:.6g}", "10m", one, text)


def _pods_of(cell: Cell) -> str:
    """Its pods' names, and no others': what its ReplicaSet adds to the Deployment's name has two parts."""
    return f"{cell.name}-[a-z0-9]+-[a-z0-9]{{5}}"


def _alert(name: str, expression: str, lasting: str, one: Launch, text: str) -> Spec:
    return {
        "alert": name,
        "expr": expression,
        "for": lasting,
        "labels": {"severity": "warning", "replica": one.name},
        "annotations": {"summary": f"{one.name}: {text}"},
    }


def _pods(found: Sequence[Cell]) -> Iterator[Spec]:
    for cell in found:
        yield {
            "alert": "CotenantTooFewPods",
            "expr": f'kube_deployment_status_replicas_available{{deployment="{cell.name}"}} < {cell.count}',
            "for": "15m",
            "labels": {"severity": "critical", "deployment": cell.name},
            "annotations": {"summary": f"{cell.name}: fewer pods answer than the {cell.count} that were planned"},
        }


def _memory(plan: Plan, found: Sequence[Cell]) -> Iterator[Spec]:
    """The plan keeps headroom free on every card; half of it gone: something takes more than it claimed."""
    if plan.headroom <= 0:
        return
    for cell in found:
        cards = set(cell.cards)
        least = min(
            (gpu.headroom_bytes for gpu in plan.gpus if (gpu.device.node, gpu.device.index) in cards), default=0
        )
        if least > 0:
            yield {
                "alert": "CotenantHeadroom",
                "expr": f'min(DCGM_FI_DEV_FB_FREE{{pod=~"{_pods_of(cell)}"}}) * 1048576 < {least // 2}',
                "for": "5m",
                "labels": {"severity": "warning", "deployment": cell.name},
                "annotations": {
                    "summary": f"{cell.name}: less than half of the planned headroom is left on a card"
                },
            }
