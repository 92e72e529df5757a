"""A replica as a container of a pod, and what its pod needs: volumes, secrets, cards big enough."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cotenant.deployment.container import (
    WORKDIR,
    after_start,
    arguments,
    entrypoint,
    image,
    mounts,
    needs_shared_memory,
    probe,
    variables,
)
from cotenant.deployment.launch import LOAD_S, Launch
from cotenant.units import GIB

PLUGIN = "nvidia.com/gpu"
"""Whole cards as NVIDIA's device plugin hands them out; also the taint of machines that are kept for them."""

PART_OF = {"app.kubernetes.io/part-of": "cotenant"}
"""The label that every object carries."""

SECRET, SECRET_KEY = "huggingface", "token"
SECRET_NOTE = (
    f"gated models need a Secret: kubectl create secret generic {SECRET} --from-literal={SECRET_KEY}=$HF_TOKEN"
)
LOCAL_CLAIM = "cotenant-local"
"""The claim that holds weights and adapters which are paths."""

_PERIOD_S = 5


def container(one: Launch, resources: dict[str, Any], *, port_name: str = "http") -> dict[str, Any]:
    """The container with probes that wait for the load, and its cards as `resources`."""
    program = entrypoint(one)
    found: dict[str, Any] = {"name": one.name, "image": image(one)}
    if program is not None:
        found["command"] = literal(program)
    found["args"] = literal(arguments(one, metrics=True))
    if one.files or one.local_paths:
        found["workingDir"] = WORKDIR
    found["env"] = _environment(one)
    found["ports"] = [{"name": port_name, "containerPort": one.replica.port}]
    found["resources"] = resources
    found["volumeMounts"] = _mounts(one)
    check = _check(one)
    found["startupProbe"] = check | {"periodSeconds": _PERIOD_S, "failureThreshold": LOAD_S // _PERIOD_S}
    found["readinessProbe"] = check | {"periodSeconds": _PERIOD_S, "timeoutSeconds": 5}
    found["livenessProbe"] = check | {"periodSeconds": 30, "timeoutSeconds": 10, "failureThreshold": 5}
    if one.after_start:
        found["lifecycle"] = {"postStart": {"exec": {"command": after_start(one)}}}
    return found


def volumes(found: Sequence[Launch], name: str, weights_bytes: int) -> list[dict[str, Any]]:
    """Downloads in a volume as long-lived as the pod; shared memory, files and local weights where needed."""
    size = -(-weights_bytes * 5 // 4 // GIB) + 10
    claim = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": f"{size}Gi"}},
    }
    made: list[dict[str, Any]] = [
        {"name": "downloads", "ephemeral": {"volumeClaimTemplate": {"spec": claim}}},
    ]
    if any(needs_shared_memory(one) for one in found):
        made.append({"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}})
    if any(one.files for one in found):
        made.append({"name": "files", "configMap": {"name": f"{name}-files"}})
    if any(one.local_paths for one in found):
        made.append({"name": "local", "persistentVolumeClaim": {"claimName": LOCAL_CLAIM, "readOnly": True}})
    return made


def large_enough(card_bytes: int) -> dict[str, Any]:
    """An affinity to machines whose cards have at least that much memory, as GPU feature discovery labels them."""
    expression = {"key": "nvidia.com/gpu.memory", "operator": "Gt", "values": [str(card_bytes // 2**20 - 1)]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def tolerations() -> list[dict[str, Any]]:
    """A pod may run where only those that need a card may."""
    return [{"key": PLUGIN, "operator": "Exists", "effect": "NoSchedule"}]


def literal(words: Sequence[str]) -> list[str]:
    """Words in which Kubernetes expands nothing: it replaces $(NAME) in commands, variables and probes, and reads
    $$ as a dollar. Hooks it takes as they are."""
    return [word.replace("$", "$$") for word in words]


def local_notes(found: Sequence[Launch]) -> tuple[str, ...]:
    """What the claim of local files must hold."""
    return tuple(
        f"{one.replica.id}: the PersistentVolumeClaim {LOCAL_CLAIM} must hold {_inside_claim(path)}"
        for one in found
        for path in one.local_paths
    )


def _environment(one: Launch) -> list[dict[str, Any]]:
    told: list[dict[str, Any]] = [
        {"name": name, "value": literal([value])[0]} for name, value in variables(one).items()
    ]
    if one.hosting.token:
        secret = {"name": SECRET, "key": SECRET_KEY, "optional": True}
        told.append({"name": one.hosting.token, "valueFrom": {"secretKeyRef": secret}})
    return told


def _mounts(one: Launch) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [{"name": "downloads", "mountPath": one.hosting.files_dir, "subPath": one.name}]
    if needs_shared_memory(one):
        found.append({"name": "shm", "mountPath": "/dev/shm"})
    for outside, inside in mounts(one):
        name = outside.removeprefix("./")
        if name in one.files:
            found.append({"name": "files", "mountPath": inside, "subPath": name, "readOnly": True})
        else:
            place = {"mountPath": inside, "subPath": _inside_claim(outside)}
            found.append({"name": "local", **place, "readOnly": True})
    return found


def _inside_claim(path: str) -> str:
    return path.removeprefix("./").lstrip("/")


def _check(one: Launch) -> dict[str, Any]:
    """An HTTP probe, but for a server that answers before it knows its model."""
    if one.after_start:
        return {"exec": {"command": literal(probe(one))}}
    return {"httpGet": {"path": one.hosting.health, "port": one.replica.port}}
