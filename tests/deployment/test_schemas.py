"""Every target's output against the target's own schema (tests/contracts)."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from cotenant.deployment.targets import export
from tests.deployment.conftest import ENGINES, plan_of, trio

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
