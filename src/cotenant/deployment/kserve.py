"""KServe: an InferenceService a model, each replica a pod with whole cards of its own.

The engine's own container is the predictor, so what was planned is what runs; KServe adds the route. A predictor
is one model to KServe, so replicas that share a card belong to `kubernetes`.

What KServe does by itself is read from kserve/kserve at aaac4e294dae2c7b1aa1886447793f3aa1c30912 (0.20):
`components/predictor.go` (buildObjectMeta: every pod is labelled with its service's name), `reconcilers/hpa`
(without a metric of one's own it scales by CPU), `inference_service_defaults.go` (whoever states no CPU and memory
gets 1 CPU and 2 GiB, as charts/kserve-resources has them), `reconcilers/deployment` (it rolls by a quarter more
pods).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cotenant.deployment.cells import Cell, card_bytes, cells, weights_bytes
from cotenant.deployment.kubernetes import config_map, mig_machine_notes, whole_cards
from cotenant.deployment.launch import Launch, launches
from cotenant.deployment.pods import (
    PART_OF,
    SECRET_NOTE,
    container,
    large_enough,
    local_notes,
    tolerations,
    volumes,
)
from cotenant.deployment.quoting import to_yaml
from cotenant.deployment.spreading import apart
from cotenant.domain.deployment import DeployFile
from cotenant.domain.plan import Plan
from cotenant.units import GIB

_MODE = {"serving.kserve.io/deploymentMode": "RawDeployment"}
"""Without Knative; releases that call it `Standard` read this name as that (constants.go, ParseDeploymentMode)."""

_SCALING = "KServe scales by CPU, which says nothing of a card: each service stays at the plan's number of pods"
_CPUS, _MEMORY_GIB, _LIMIT_CPUS, _BESIDE_WEIGHTS_GIB = 4, 16, 16, 32


def files(plan: Plan) -> tuple[tuple[DeployFile, ...], tuple[str, ...]]:
    """`NAME.yaml` for each model (and each kind of card that it runs on)."""
    found = cells(launches(plan))
    made = [DeployFile(f"{cell.name}.yaml", _documents(plan, cell)) for cell in found]
    notes = (
        SECRET_NOTE,
        _SCALING,
        *mig_machine_notes(found),
        *_names_notes(found),
        *local_notes([one for cell in found for one in cell.launches]),
    )
    return tuple(made), notes


def _names_notes(found: Sequence[Cell]) -> tuple[str, ...]:
    """KServe makes one host a service; folded models and adapters have none, and are asked for there."""
    return tuple(
        f"{' and '.join(names)}: asked for at {cell.name}, by that name"
        for cell in found
        for one in cell.launches
        for names in (one.replica.also_serves, [adapter.name for adapter in one.replica.adapters])
        if names
    )


def _documents(plan: Plan, cell: Cell) -> str:
    (one,) = cell.launches
    found = [config_map(cell)] if one.files else []
    return "---\n".join(to_yaml(document) for document in [*found, _service(plan, cell)])


def _resources(one: Launch, weights: int) -> dict[str, Any]:
    """Its cards, and limits that are in nobody's way: what is not stated here KServe holds to 1 CPU and 2 GiB, in
    which no engine loads. The page cache of the weights counts as the container's memory."""
    cards = len(one.cards)
    memory = -(-weights // GIB) + _BESIDE_WEIGHTS_GIB * cards
    limits = {"cpu": str(_LIMIT_CPUS * cards), "memory": f"{memory}Gi"} | whole_cards(one)["limits"]
    requests = {"cpu": str(_CPUS), "memory": f"{_MEMORY_GIB}Gi"}
    return {"limits": limits, "requests": requests}


def _service(plan: Plan, cell: Cell) -> dict[str, Any]:
    """As many pods as planned; a second one for an update would need a second set of cards."""
    (one,) = cell.launches
    weights = weights_bytes(plan, one.replica.id)
    labels, constraints = apart(plan, one.replica.model)
    predictor = container(one, _resources(one, weights), port_name="http1")
    spec: dict[str, Any] = {
        "minReplicas": cell.count,
        "maxReplicas": cell.count,
        "deploymentStrategy": {"type": "Recreate"},
        "containers": [predictor | {"name": "kserve-container"}],
        **({} if one.mig_profiles else {"affinity": large_enough(max(card_bytes(plan, cell)))}),
        **({"labels": labels, "topologySpreadConstraints": constraints} if constraints else {}),
        "tolerations": tolerations(),
        "terminationGracePeriodSeconds": 120,
        "volumes": volumes(cell.launches, cell.name, weights),
    }
    return {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {
            "name": cell.name,
            "annotations": dict(_MODE),
            "labels": dict(PART_OF),
        },
        "spec": {"predictor": spec},
    }
