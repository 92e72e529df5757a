"""KServe: an InferenceService a model, each replica a pod with whole cards of its own.

The engine's own container is the predictor, so what was planned is what runs; KServe adds the route and the
scaling. A predictor is one model to KServe, so replicas that share a card belong to `kubernetes`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cotenant.deployment.cells import Cell, card_bytes, cells, weights_bytes
from cotenant.deployment.kubernetes import config_map, mig_machine_notes, whole_cards
from cotenant.deployment.launch import launches
from cotenant.deployment.pods import PART_OF, SECRET_NOTE, container, large_enough, local_notes, volumes
from cotenant.deployment.quoting import to_yaml
from cotenant.deployment.spreading import on_different_machines, spread_models
from cotenant.domain.deployment import DeployFile
from cotenant.domain.plan import Plan

_MODE = {"serving.kserve.io/deploymentMode": "RawDeployment"}


def files(plan: Plan) -> tuple[tuple[DeployFile, ...], tuple[str, ...]]:
    """`NAME.yaml` for each model (and each kind of card that it runs on)."""
    found = cells(launches(plan))
    made = [DeployFile(f"{cell.name}.yaml", _documents(plan, cell)) for cell in found]
    notes = (
        SECRET_NOTE,
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


def _apart(plan: Plan, cell: Cell) -> dict[str, Any]:
    """KServe labels the pods of a service with its name; a second cell of the model is on other kinds of card."""
    if cell.count < 2 or cell.launches[0].replica.model not in spread_models(plan):
        return {}
    label = {"serving.kserve.io/inferenceservice": cell.name}
    return {"topologySpreadConstraints": [on_different_machines(cell.count, label)]}


def _documents(plan: Plan, cell: Cell) -> str:
    (one,) = cell.launches
    found = [config_map(cell)] if one.files else []
    return "---\n".join(to_yaml(document) for document in [*found, _service(plan, cell)])


def _service(plan: Plan, cell: Cell) -> dict[str, Any]:
    """Scaling goes from the planned number to twice that, by KServe's own concurrency."""
    (one,) = cell.launches
    predictor = container(one, whole_cards(one), port_name="http1")
    spec: dict[str, Any] = {
        "minReplicas": cell.count,
        "maxReplicas": 2 * cell.count,
        "containers": [predictor | {"name": "kserve-container"}],
        **({} if one.mig_profiles else {"affinity": large_enough(max(card_bytes(plan, cell)))}),
        **_apart(plan, cell),
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        "terminationGracePeriodSeconds": 120,
        "volumes": volumes(cell.launches, cell.name, weights_bytes(plan, one.replica.id)),
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
