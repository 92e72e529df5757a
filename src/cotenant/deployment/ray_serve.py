"""Ray Serve LLM: a config of the application, and a RayService that starts it on Kubernetes.

Ray runs vLLM itself, so flags become `engine_kwargs` of the same names. Each model's workers carry a resource
named for it, and its replicas ask for that: Ray places by resources alone, and would else put a model on any card
that is free.

The labels of a worker group's template are those of its pods: ray-project/kuberay at
feeaf72facab4881ba2b179248bb67315634e229, `controllers/ray/common/pod.go` (DefaultWorkerPodTemplate, labelPod; only
`ray.io/node-type`, `ray.io/group` and `ray.io/cluster` are KubeRay's own). A replica's bundles may go anywhere
unless a strategy says more: ray-project/ray at 0206cc4547e7c50bfa133e8901413fc38a798218,
`engines/vllm/vllm_models.py` (PlacementGroupConfig).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from cotenant.deployment.cells import Cell, card_bytes, cells, weights_bytes
from cotenant.deployment.launch import Launch, launches
from cotenant.deployment.pods import PART_OF, PLUGIN, SECRET, SECRET_KEY, large_enough, tolerations, volumes
from cotenant.deployment.quoting import Lines, to_yaml
from cotenant.deployment.spreading import apart
from cotenant.domain.deployment import DeployFile
from cotenant.domain.plan import Plan
from cotenant.errors import UnsupportedError

RAY = "2.56.0"
"""The release whose image is named: ray-operator/config/samples/ray-service.high-throughput-gemma4.yaml."""

_IMAGE = f"rayproject/ray-llm:{RAY}-py312-cu130"
_RAYS_OWN = ("model", "served_model_name", "host", "port")
_DOWNLOADS = "/home/ray/.cache/huggingface"


def files(plan: Plan) -> tuple[tuple[DeployFile, ...], tuple[str, ...]]:
    """`serve.yaml` for a Ray cluster that stands, `rayservice.yaml` for one on Kubernetes.

    Raises UnsupportedError for weights that are paths, for adapters, which Ray loads from a bucket, and for models
    that were folded into another: Ray knows a model by one name.
    """
    found = cells(launches(plan))
    for cell in found:
        _check(cell.launches[0])
    serve = to_yaml({"applications": [_application(found)]})
    made = (DeployFile("serve.yaml", serve), DeployFile("rayservice.yaml", to_yaml(_service(plan, found, serve))))
    versions = ", ".join(sorted({one.replica.engine_version for cell in found for one in cell.launches}))
    own = f"Ray's image carries a vLLM of its own: see that it is the one that was planned for ({versions})"
    cluster = "a cluster for serve.yaml needs the resources that rayservice.yaml gives its workers"
    return made, (own, cluster)


def _check(one: Launch) -> None:
    if one.replica.adapters:
        raise UnsupportedError(
            f"ray-serve: {one.replica.id} has adapters, which Ray loads from a bucket", hint="use --to kubernetes"
        )
    if one.replica.also_serves:
        others = " and ".join(one.replica.also_serves)
        raise UnsupportedError(
            f"ray-serve: {one.replica.id} serves {others} too, and Ray knows a model by one name",
            hint="use --to kubernetes, which has a Service for each name",
        )
    if one.local_paths:
        raise UnsupportedError(
            f"ray-serve: {one.replica.id} loads {one.local_paths[0][:60]!r}, and workers have no such path",
            hint="use a hub id, or --to kubernetes",
        )


def _application(found: Sequence[Cell]) -> dict[str, Any]:
    return {
        "name": "cotenant",
        "import_path": "ray.serve.llm:build_openai_app",
        "route_prefix": "/",
        "args": {"llm_configs": [_config(cell) for cell in found]},
    }


def _config(cell: Cell) -> dict[str, Any]:
    (one,) = cell.launches
    slots = one.replica.settings.max_num_seqs
    deployment: dict[str, Any] = {"autoscaling_config": {"min_replicas": cell.count, "max_replicas": cell.count}}
    if slots:
        deployment["max_ongoing_requests"] = slots
    return {
        "model_loading_config": {"model_id": one.replica.model, "model_source": one.replica.checkpoint},
        "engine_kwargs": keywords(one),
        "placement_group_config": _placement(cell),
        "deployment_config": deployment,
    }


def _placement(cell: Cell) -> dict[str, Any]:
    """A replica's cards, on one machine: its ranks talk over that machine's links, as planned."""
    (one,) = cell.launches
    return {"bundles": [{"GPU": 1, _resource(cell): 1} for _ in one.cards], "strategy": "STRICT_PACK"}


def keywords(one: Launch) -> dict[str, Any]:
    """vLLM's flags as the keywords of its engine: dashes become underscores, numbers and JSON are values, a flag
    alone is true and ``--no-`` before it false, several words are a list. What Ray says itself is left out."""
    told: dict[str, list[str]] = {}
    name = ""
    for word in one.argv:
        if word.startswith("--"):
            name = word.removeprefix("--")
            told[name] = []
        elif name:
            told[name].append(word)
    found = dict(_keyword(flag, words) for flag, words in told.items())
    return {name: value for name, value in found.items() if name not in _RAYS_OWN}


def _keyword(flag: str, words: Sequence[str]) -> tuple[str, Any]:
    name = flag.replace("-", "_")
    if not words:
        return name.removeprefix("no_"), not name.startswith("no_")
    values = [_value(word) for word in words]
    return name, values[0] if len(values) == 1 else values


def _value(word: str) -> Any:
    try:
        return json.loads(word)
    except ValueError:
        return word


def _resource(cell: Cell) -> str:
    return f"cotenant-{cell.name}"


def _service(plan: Plan, found: Sequence[Cell], serve: str) -> dict[str, Any]:
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayService",
        "metadata": {"name": "cotenant", "labels": dict(PART_OF)},
        "spec": {
            "serveConfigV2": Lines(serve),
            "rayClusterConfig": {
                "rayVersion": RAY,
                "headGroupSpec": _head(),
                "workerGroupSpecs": [_workers(plan, cell) for cell in found],
            },
        },
    }


def _head() -> dict[str, Any]:
    ports = {"gcs": 6379, "dashboard": 8265, "serve": 8000}
    container = {
        "name": "ray-head",
        "image": _IMAGE,
        "ports": [{"name": name, "containerPort": port} for name, port in ports.items()],
        "resources": {"limits": {"cpu": "4", "memory": "16Gi"}, "requests": {"cpu": "4", "memory": "16Gi"}},
    }
    return {
        "rayStartParams": {"num-cpus": "0", "num-gpus": "0"},
        "template": {"spec": {"containers": [container]}},
    }  # fmt: skip


def _workers(plan: Plan, cell: Cell) -> dict[str, Any]:
    """A pod a replica, with its cards and as much of the model's resource."""
    (one,) = cell.launches
    cards = len(one.cards)
    secret = {"name": SECRET, "key": SECRET_KEY, "optional": True}
    container = {
        "name": "ray-worker",
        "image": _IMAGE,
        "env": [{"name": one.hosting.token, "valueFrom": {"secretKeyRef": secret}}],
        "resources": {
            "limits": {PLUGIN: cards},
            "requests": {"cpu": "8", "memory": "32Gi", PLUGIN: cards},
        },
        "volumeMounts": [{"name": "downloads", "mountPath": _DOWNLOADS}, {"name": "shm", "mountPath": "/dev/shm"}],
    }
    labels, constraints = apart(plan, one.replica.model)
    downloads = volumes((), cell.name, weights_bytes(plan, one.replica.id))
    shared = {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}}
    return {
        "groupName": cell.name,
        "replicas": cell.count,
        "minReplicas": cell.count,
        "maxReplicas": cell.count,
        "rayStartParams": {"num-gpus": str(cards), "resources": json.dumps(json.dumps({_resource(cell): cards}))},
        "template": {
            **({"metadata": {"labels": labels}} if labels else {}),
            "spec": {
                "containers": [container],
                **({"topologySpreadConstraints": constraints} if constraints else {}),
                "affinity": large_enough(max(card_bytes(plan, cell))),
                "tolerations": tolerations(),
                "volumes": [*downloads, shared],
            },
        },
    }
