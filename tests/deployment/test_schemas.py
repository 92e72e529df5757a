"""Every target's output against the target's own schema (tests/contracts)."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from cotenant.deployment.cells import weights_bytes
from cotenant.deployment.launch import launches
from cotenant.deployment.targets import export
from cotenant.domain.plan import Plan
from cotenant.errors import UnsupportedError
from cotenant.readers.plan_document import read_plan
from cotenant.units import GIB
from tests.deployment.conftest import ENGINES, document, plan_of, trio
from tests.deployment.flag_lists import known_to

CONTRACTS = Path(__file__).parents[1] / "contracts"


@cache
def validator(name: str) -> Any:
    schema = json.loads((CONTRACTS / name).read_text(encoding="utf-8"))
    kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft7Validator)
    return kind(schema)


def documents(plan: Any, target: str) -> list[Any]:
    """Every YAML document of the target's main files."""
    return [
        found
        for file in export(plan, target).files
        if file.name.endswith(".yaml") and not file.name.endswith("options.yaml")
        for found in yaml.safe_load_all(file.text)
        if found is not None
    ]


@pytest.mark.parametrize("engine", ENGINES)
def test_compose(engine: str) -> None:
    (found,) = documents(plan_of(engine), "compose")
    validator("compose.schema.json").validate(found)


def test_compose_starts_in_order_on_the_plans_cards() -> None:
    (found,) = documents(trio(), "compose")
    services = found["services"]
    assert list(services) == ["chat", "triage", "code"]
    assert services["code"]["depends_on"] == {"triage": {"condition": "service_healthy"}}
    for service in services.values():
        (device,) = service["deploy"]["resources"]["reservations"]["devices"]
        assert device["device_ids"] == ["0"]
        assert service["environment"] == {"HF_TOKEN": None}
        assert all(port.startswith("127.0.0.1:") for port in service["ports"])


def test_compose_keeps_the_order_after_a_reboot() -> None:
    """Docker restarts in no order: what waits is left to `docker compose up`, which a unit runs."""
    found = export(trio(), "compose")
    files = {file.name: file.text for file in found.files}
    services = yaml.safe_load(files["compose.yaml"])["services"]
    assert {service["restart"] for service in services.values()} == {"on-failure"}
    assert "ExecStart=/usr/bin/env docker compose up --detach --no-recreate" in files["cotenant-compose.service"]
    assert any("after a reboot" in note for note in found.notes)
    alone = export(spread("vllm"), "compose")
    assert [file.name for file in alone.files] == ["compose.yaml"]
    assert {one["restart"] for one in yaml.safe_load(alone.files[0].text)["services"].values()} == {
        "unless-stopped"
    }
    assert not any("reboot" in note for note in alone.notes)


@pytest.mark.parametrize("engine", [engine for engine in ENGINES if engine != "ollama"])
def test_llama_swap(engine: str) -> None:
    (found,) = documents(plan_of(engine), "llama-swap")
    validator("llama-swap.schema.json").validate(found)


def test_llama_swap_lets_the_plan_run_together() -> None:
    (found,) = documents(trio(), "llama-swap")
    matrix = found["routing"]["router"]["settings"]["matrix"]
    assert matrix["vars"] == {"m0": "chat", "m1": "triage", "m2": "code"}
    assert matrix["sets"] == {"set0": "m0 & m1 & m2"}
    assert matrix["evict_costs"]["m0"] == 37  # GiB of weights
    assert found["hooks"]["on_startup"]["preload"] == ["chat", "triage", "code"]
    slots = {one.model: one.settings.max_num_seqs or 0 for one in trio().replicas}
    for name, model in found["models"].items():  # beyond its limit llama-swap refuses; engines queue
        assert model["concurrencyLimit"] > 100 + slots[name]


def check_kubernetes(found: dict[str, Any]) -> None:
    """A built-in kind strictly against Kubernetes 1.34, a custom one against its own definition."""
    custom = CONTRACTS / "crds" / f"{found['kind']}.json"
    if custom.exists():
        schema = json.loads(custom.read_text(encoding="utf-8"))["schema"]
        jsonschema.Draft202012Validator(schema).validate(found)
        return
    kubernetes_validate.validate(found, "1.34", strict=True)


@pytest.mark.parametrize("target", ["kubernetes", "kubernetes-time-slicing"])
@pytest.mark.parametrize("engine", ENGINES)
def test_kubernetes(engine: str, target: str) -> None:
    found = documents(plan_of(engine), target)
    for each in found:
        check_kubernetes(each)
    kinds = {each["kind"] for each in found}
    assert {"Deployment", "Service", "PodDisruptionBudget"} <= kinds
    names = [(each["kind"], each["metadata"]["name"]) for each in found]
    assert len(names) == len(set(names))


def test_a_field_that_kubernetes_does_not_know_is_noticed() -> None:
    found = documents(trio(), "kubernetes")
    deployment = next(each for each in found if each["kind"] == "Deployment")
    deployment["spec"]["template"]["spec"]["containers"][0]["imagePolicy"] = "x"
    with pytest.raises(kubernetes_validate.ValidationError):
        check_kubernetes(deployment)
    rule = next(each for each in found if each["kind"] == "PrometheusRule")
    rule["spec"]["groups"][0]["rule"] = []
    with pytest.raises(jsonschema.ValidationError):
        check_kubernetes(rule)


def test_one_pod_starts_its_engines_in_order_on_one_claimed_card() -> None:
    found = {each["kind"]: each for each in documents(trio(), "kubernetes")}
    pod = found["Deployment"]["spec"]["template"]["spec"]
    assert [each["name"] for each in (*pod["initContainers"], *pod["containers"])] == ["chat", "triage", "code"]
    assert all(each["restartPolicy"] == "Always" for each in pod["initContainers"])
    for each in (*pod["initContainers"], *pod["containers"]):
        assert each["resources"] == {"claims": [{"name": "cards", "request": "card-0"}]}
        assert each["startupProbe"]["httpGet"] == {"path": "/health", "port": each["ports"][0]["containerPort"]}
        assert not any("value" in one for one in each["env"])
    (request,) = found["ResourceClaimTemplate"]["spec"]["spec"]["devices"]["requests"]
    assert "quantity('85034983751')" in request["exactly"]["selectors"][0]["cel"]["expression"]


def test_services_reach_the_ports_of_their_model() -> None:
    found = documents(trio(), "kubernetes")
    deployment = next(each for each in found if each["kind"] == "Deployment")
    template = deployment["spec"]["template"]
    ports = {
        port["name"]: each["name"]
        for each in (*template["spec"]["initContainers"], *template["spec"]["containers"])
        for port in each["ports"]
    }
    for service in (each for each in found if each["kind"] == "Service"):
        assert service["spec"]["selector"].items() <= template["metadata"]["labels"].items()
        assert ports[service["spec"]["ports"][0]["targetPort"]] == service["metadata"]["name"]


def test_replicas_alone_take_whole_cards_and_equal_ones_are_one_deployment() -> None:
    told = document()
    first = told["replicas"][0]
    twin = first | {
        "id": "code-1",
        "port": 8001,
        "start_order": 1,
        "devices": [first["devices"][0] | {"index": 1}],
    }
    share, card = told["gpus"][0]["replicas"][0], told["gpus"][0]
    told["replicas"] = [first | {"start_order": 0}, twin]
    told["gpus"] = [card | {"replicas": [share]}, card | {"index": 1, "replicas": [share | {"id": "code-1"}]}]
    found = documents(read_plan(told), "kubernetes")
    (deployment,) = [each for each in found if each["kind"] == "Deployment"]
    assert deployment["spec"]["replicas"] == 2
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["resources"] == {"limits": {"nvidia.com/gpu": 1}}
    assert not any(each["kind"] == "ResourceClaimTemplate" for each in found)
    (scaler,) = [each for each in found if each["kind"] == "HorizontalPodAutoscaler"]
    assert (scaler["spec"]["minReplicas"], scaler["spec"]["maxReplicas"]) == (2, 4)


def test_time_slicing_is_refused_where_it_cannot_name_the_card() -> None:
    told = document()
    told["replicas"][0]["devices"].append(told["replicas"][0]["devices"][0] | {"index": 1})
    with pytest.raises(UnsupportedError, match="which of 2 cards"):
        export(read_plan(told), "kubernetes-time-slicing")


def spread(engine: str) -> Plan:
    """The plan of two models with each on a card of its own."""
    told = document(engine)
    card = told["gpus"][0]
    told["gpus"] = []
    for number, replica in enumerate(told["replicas"]):
        replica["devices"][0]["index"] = number
        share = next(one for one in card["replicas"] if one["id"] == replica["id"])
        told["gpus"].append(card | {"index": number, "replicas": [share]})
    return read_plan(told)


@pytest.mark.parametrize("engine", ENGINES)
def test_kserve(engine: str) -> None:
    found = documents(spread(engine), "kserve")
    for each in found:
        check_kubernetes(each)
    services = [each for each in found if each["kind"] == "InferenceService"]
    assert {each["metadata"]["name"] for each in services} == {"code", "triage"}
    for each in services:
        predictor = each["spec"]["predictor"]
        (container,) = predictor["containers"]
        assert container["resources"]["limits"]["nvidia.com/gpu"] == 1
        assert predictor["minReplicas"] == predictor["maxReplicas"] == 1
        assert predictor["deploymentStrategy"] == {"type": "Recreate"}


def test_kserve_leaves_an_engine_the_memory_that_its_weights_need() -> None:
    """Where a service states no limits KServe sets 1 CPU and 2 GiB, and an engine ends while it loads."""
    plan = spread("vllm")
    for each in documents(plan, "kserve"):
        (container,) = each["spec"]["predictor"]["containers"]
        found = container["resources"]
        (replica,) = [one for one in plan.replicas if one.model == each["metadata"]["name"]]
        weights = weights_bytes(plan, replica.id) / GIB
        assert int(found["limits"]["memory"].removesuffix("Gi")) >= weights + 16
        assert int(found["limits"]["cpu"]) >= int(found["requests"]["cpu"]) > 1
        assert int(found["requests"]["memory"].removesuffix("Gi")) > 2


def test_ray_serve() -> None:
    plan = spread("vllm")
    found = {each.get("kind", "serve"): each for each in documents(plan, "ray-serve")}
    check_kubernetes(found["RayService"])
    assert yaml.safe_load(found["RayService"]["spec"]["serveConfigV2"]) == found["serve"]
    flags = known_to("vllm", launches(plan)[0].version)
    groups = {
        group["groupName"]: group for group in found["RayService"]["spec"]["rayClusterConfig"]["workerGroupSpecs"]
    }
    for config in found["serve"]["applications"][0]["args"]["llm_configs"]:
        assert set(config) == {
            "model_loading_config",
            "engine_kwargs",
            "placement_group_config",
            "deployment_config",
        }
        assert {f"--{name.replace('_', '-')}" for name in config["engine_kwargs"]} <= flags
        (replica,) = [one for one in plan.replicas if one.model == config["model_loading_config"]["model_id"]]
        assert config["engine_kwargs"]["max_model_len"] == replica.settings.max_model_len
        assert config["deployment_config"]["max_ongoing_requests"] == replica.settings.max_num_seqs
        (bundle,) = config["placement_group_config"]["bundles"]
        assert config["placement_group_config"]["strategy"] == "STRICT_PACK"
        started = groups[replica.id]["rayStartParams"]
        assert json.loads(json.loads(started["resources"])) == {name: 1 for name in bundle if name != "GPU"}


@pytest.mark.parametrize("target", ["kserve", "ray-serve"])
def test_shared_cards_are_refused_where_they_cannot_be(target: str) -> None:
    with pytest.raises(UnsupportedError, match=r"cards of its own, and .* share A100-80GB-SXM #0"):
        export(trio(), target)


def test_ray_serve_starts_vllm_alone() -> None:
    with pytest.raises(UnsupportedError, match="cannot start sglang"):
        export(spread("sglang"), "ray-serve")
