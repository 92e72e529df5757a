"""Replicas that stand on different machines in the plan do so wherever a scheduler places them."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from cotenant import api
from cotenant.deployment.spreading import spread_models
from cotenant.deployment.targets import export
from cotenant.domain.plan import Plan
from cotenant.readers.plan_document import read_plan
from cotenant.report.document import plan_document
from tests.deployment.test_schemas import check_kubernetes


def _plan(*, size: int, spread: bool) -> Plan:
    model: dict[str, Any] = {
        "name": "chat",
        "model": "meta-llama/Llama-3.1-8B-Instruct",
        "traffic": {"concurrent": 4, "context_tokens": {"p95": 2048}},
        "replicas": {"min": 2, "max": 2},
    }
    if spread:
        model["spread"] = "node"
    gpus = [{"type": "A100-80GB-SXM", "count": 4, "node": {"size": size}}]
    return api.plan({"engine": "vllm", "gpus": gpus, "models": [model]})


def _pods(document: Any) -> list[dict[str, Any]]:
    """Every mapping that has containers: a pod's spec, wherever it stands."""
    if isinstance(document, list):
        return [pod for one in document for pod in _pods(one)]
    if not isinstance(document, dict):
        return []
    inside = [pod for one in document.values() for pod in _pods(one)]
    return [document, *inside] if "containers" in document else inside


def _constraints(plan: Plan, target: str) -> list[dict[str, Any]]:
    documents = [one for file in export(plan, target).files for one in yaml.safe_load_all(file.text)]
    for one in documents:
        if "kind" in one:
            check_kubernetes(one)
    return [one for pod in _pods(documents) for one in pod.get("topologySpreadConstraints", [])]


@pytest.mark.parametrize("target", ["kubernetes", "kserve", "ray-serve"])
def test_a_scheduler_keeps_apart_what_the_plan_keeps_apart(target: str) -> None:
    plan = _plan(size=2, spread=True)
    assert spread_models(plan) == {"chat": 2}
    (one,) = _constraints(plan, target)
    assert (one["topologyKey"], one["maxSkew"], one["minDomains"]) == ("kubernetes.io/hostname", 1, 2)
    assert one["whenUnsatisfiable"] == "DoNotSchedule"
    assert one["labelSelector"]["matchLabels"]


def test_the_selector_finds_the_pods_of_the_model() -> None:
    plan = _plan(size=2, spread=True)
    (one,) = _constraints(plan, "kubernetes")
    documents = [each for file in export(plan, "kubernetes").files for each in yaml.safe_load_all(file.text)]
    (deployment,) = (each for each in documents if each["kind"] == "Deployment")
    assert (
        one["labelSelector"]["matchLabels"].items() <= deployment["spec"]["template"]["metadata"]["labels"].items()
    )
    (group,) = yaml.safe_load(
        next(file.text for file in export(plan, "ray-serve").files if file.name == "rayservice.yaml")
    )["spec"]["rayClusterConfig"]["workerGroupSpecs"]
    pods = group["template"]
    (one,) = pods["spec"]["topologySpreadConstraints"]
    assert one["labelSelector"]["matchLabels"].items() <= pods["metadata"]["labels"].items()


@pytest.mark.parametrize("target", ["kubernetes", "kserve", "ray-serve"])
def test_replicas_on_other_kinds_of_card_are_kept_apart_too(target: str) -> None:
    """Two services or groups of one model: each pod bears the label by which all of them are counted."""
    document = plan_document(_plan(size=2, spread=True), catalogue="test")
    for replica in document["replicas"][1:]:
        for device in replica["devices"]:
            device["type"] = "H100-80GB-SXM"
            for gpu in document["gpus"]:
                if (gpu["node"], gpu["index"]) == (device["node"], device["index"]):
                    gpu["type"] = "H100-80GB-SXM"
    plan = read_plan(document)
    first, second = _constraints(plan, target)
    assert first == second
    assert first["minDomains"] == 2
    files = [one for file in export(plan, target).files for one in yaml.safe_load_all(file.text)]
    labels = [one for one in _labels(files) if first["labelSelector"]["matchLabels"].items() <= one.items()]
    assert len(labels) >= 2


def _labels(document: Any) -> list[dict[str, str]]:
    """Every mapping of labels of pods: of a template's metadata, or of a service's predictor."""
    if isinstance(document, list):
        return [found for one in document for found in _labels(one)]
    if not isinstance(document, dict):
        return []
    inside = [found for key, one in document.items() if key != "labelSelector" for found in _labels(one)]
    return [document["labels"], *inside] if isinstance(document.get("labels"), dict) else inside


@pytest.mark.parametrize("target", ["kubernetes", "kserve", "ray-serve"])
def test_replicas_of_one_machine_are_not_driven_apart(target: str) -> None:
    plan = _plan(size=4, spread=False)
    assert spread_models(plan) == {}
    assert _constraints(plan, target) == []
