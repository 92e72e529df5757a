"""Replicas that the plan has on different machines stay on different machines where a scheduler places them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cotenant.deployment.launch import slugs
from cotenant.domain.plan import Plan


def spread_models(plan: Plan) -> dict[str, int]:
    """The replicas of each model that has two or more, no two of them on one machine."""
    nodes: dict[str, set[int]] = {}
    for gpu in plan.gpus:
        for share in (*gpu.shares, *(one.share for one in gpu.sleepers)):
            nodes.setdefault(share.replica, set()).add(gpu.device.node)
    machines: dict[str, list[set[int]]] = {}
    for one in plan.replicas:
        machines.setdefault(one.model, []).append(nodes.get(one.id, set()))
    return {
        model: len(found)
        for model, found in machines.items()
        if len(found) > 1 and sum(map(len, found)) == len(set().union(*found))
    }


def model_label(plan: Plan, model: str) -> dict[str, str]:
    """What the pods of all replicas of a model are labelled with, whichever kind of card each is on."""
    models = list(dict.fromkeys(one.model for one in plan.replicas))
    return {"cotenant/model": slugs(models)[models.index(model)]}


def apart(plan: Plan, model: str) -> tuple[dict[str, str], list[dict[str, Any]]]:
    """(labels, constraints) of the pods of a model's replicas; both empty where they may stand on one machine."""
    counts = spread_models(plan)
    if model not in counts:
        return {}, []
    label = model_label(plan, model)
    return label, [on_different_machines(counts[model], label)]


def on_different_machines(count: int, labels: Mapping[str, str]) -> dict[str, Any]:
    """A pod's constraint: no second of the pods with `labels` on a machine while there are not `count` machines
    with one. More pods than that, of an autoscaler, are then dealt out evenly.

    `minDomains` is on by default since Kubernetes 1.27 and stable since 1.30: kubernetes/website at 0a59de21d836,
    content/en/docs/reference/command-line-tools-reference/feature-gates/min-domains-in-pod-topology-spread.md.
    Below it a scheduler that lacks machines would put a second pod beside the first.
    """
    return {
        "maxSkew": 1,
        "minDomains": count,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": dict(labels)},
    }
