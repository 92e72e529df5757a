"""MIG slices: named by a variable that must be set, by the device plugin's resource, or by a claim; and plans that
were moved by hand."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from cotenant import api
from cotenant.deployment.targets import TARGETS, export
from cotenant.domain.plan import Plan
from cotenant.errors import UnsupportedError
from cotenant.readers.plan_document import read_plan
from cotenant.report.document import plan_document
from tests.deployment.test_schemas import check_kubernetes, documents, validator

SMALL = {"concurrent": 2, "context_tokens": {"p95": 1024}}
MISTRAL, LLAMA = "mistralai/Mistral-7B-Instruct-v0.3", "meta-llama/Llama-3.1-8B-Instruct"


@cache
def sliced(count: int) -> Plan:
    """Two models: on two slices of their own, or together on one."""
    how = "alone" if count == 2 else "co-resident"
    fleet = {
        "headroom": "2%",
        "gpus": [{"type": "A100-80GB-SXM", "count": count, "mig": "3g.40gb"}],
        "models": [
            {"name": "code", "model": MISTRAL, "traffic": SMALL, "sharing": [how]},
            {"name": "triage", "model": LLAMA, "traffic": SMALL},
        ],
    }  # fmt: skip
    found = api.plan(fleet)
    assert found.feasible
    assert len(found.gpus) == count
    return read_plan(plan_document(found, catalogue="test"))


def pods(plan: Plan) -> dict[str, Any]:
    """The pods by the name of their Deployment, each valid."""
    found = documents(plan, "kubernetes")
    for each in found:
        check_kubernetes(each)
    return {
        each["metadata"]["name"]: each["spec"]["template"]["spec"]
        for each in found
        if each["kind"] == "Deployment"
    }


@pytest.mark.parametrize("count", [1, 2])
def test_compose_asks_for_the_uuid(count: int) -> None:
    plan = sliced(count)
    (found,) = documents(plan, "compose")
    validator("compose.schema.json").validate(found)
    (device,) = found["services"]["code"]["deploy"]["resources"]["reservations"]["devices"]
    assert device["device_ids"][0].startswith("${COTENANT_SLICE_")
    assert ":?the UUID of a 3g.40gb slice" in device["device_ids"][0]
    notes = export(plan, "compose").notes
    assert sum("make a 3g.40gb slice" in note for note in notes) == count


def test_scripts_end_where_nobody_says_which_slice(tmp_path: Path) -> None:
    for file in export(sliced(2), "commands").files:
        (tmp_path / file.name).write_text(file.text)
    words = ["sh", "-c", "set -eu; . ./triage.env; echo $CUDA_VISIBLE_DEVICES"]
    index = next(one.devices[0].index for one in sliced(2).replicas if one.model == "triage")
    without = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, env={}, check=False)
    assert without.returncode != 0
    assert "the UUID of a 3g.40gb slice" in without.stderr
    told = {f"COTENANT_SLICE_{index}": "MIG-1/2"}
    given = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, env=told, check=True)
    assert given.stdout == "MIG-1/2\n"


def test_a_slice_alone_is_the_device_plugins() -> None:
    found = pods(sliced(2))
    assert set(found) == {"code", "triage"}
    for pod in found.values():
        assert pod["containers"][0]["resources"] == {"limits": {"nvidia.com/mig-3g.40gb": 1}}
        assert "affinity" not in pod
    assert any("strategy mixed" in note for note in export(sliced(2), "kubernetes").notes)


def test_a_slice_that_is_shared_is_claimed_by_its_profile() -> None:
    (pod,) = pods(sliced(1)).values()
    assert len(pod["initContainers"]) == len(pod["containers"]) == 1
    (template,) = (one for one in documents(sliced(1), "kubernetes") if one["kind"] == "ResourceClaimTemplate")
    (request,) = template["spec"]["spec"]["devices"]["requests"]
    assert request["exactly"] == {
        "deviceClassName": "mig.nvidia.com",
        "selectors": [{"cel": {"expression": "device.attributes['gpu.nvidia.com'].profile == '3g.40gb'"}}],
    }


@pytest.mark.parametrize("target", [name for name, one in TARGETS.items() if not one.mig])
def test_who_cannot_name_a_slice_says_so(target: str) -> None:
    with pytest.raises(UnsupportedError, match=r"slice|share"):
        export(sliced(2), target)


@pytest.mark.parametrize(
    ("target", "count"),
    [(name, count) for name, one in TARGETS.items() if one.mig for count in (1, 2) if one.shares or count == 2],
)
def test_exported_again_the_difference_is_empty(target: str, count: int) -> None:
    again = read_plan(plan_document(sliced(count), catalogue="test"))
    assert export(sliced(count), target) == export(again, target)


def test_systemd_starts_nothing_on_a_slice_that_nobody_named() -> None:
    files = {file.name: file.text.splitlines() for file in export(sliced(2), "systemd").files}
    (index,) = (one.devices[0].index for one in sliced(2).replicas if one.model == "code")
    unit = files["cotenant-code.service"]
    assert "EnvironmentFile=/etc/cotenant/slices.env" in unit
    assert f'ExecStartPre=/usr/bin/env test -n "${{COTENANT_SLICE_{index}}}"' in unit
    start = f'ExecStart=/usr/bin/env "CUDA_VISIBLE_DEVICES=${{COTENANT_SLICE_{index}}}" vllm serve '
    assert any(line.startswith(start) for line in unit)
    assert not any("CUDA_DEVICE_ORDER" in line for line in unit)
    assert sum("in /etc/cotenant/slices.env" in note for note in export(sliced(2), "systemd").notes) == 2


def test_llama_swap_takes_the_uuid_from_its_own_environment() -> None:
    (found,) = documents(sliced(2), "llama-swap")
    validator("llama-swap.schema.json").validate(found)
    told = [line for model in found["models"].values() for line in model["env"] if "VISIBLE" in line]
    assert sorted(told) == [f"CUDA_VISIBLE_DEVICES=${{env.COTENANT_SLICE_{index}}}" for index in (0, 1)]


def test_kserve_asks_for_the_device_plugins_slices() -> None:
    for each in documents(sliced(2), "kserve"):
        check_kubernetes(each)
        spec = each["spec"]["predictor"]
        limits = spec["containers"][0]["resources"]["limits"]
        assert {name: count for name, count in limits.items() if "/" in name} == {"nvidia.com/mig-3g.40gb": 1}
        assert "affinity" not in spec
    assert any("strategy mixed" in note for note in export(sliced(2), "kserve").notes)


@pytest.mark.parametrize("target", ["compose", "kubernetes", "systemd", "commands"])
def test_a_replica_that_was_moved_is_exported_where_it_is(target: str) -> None:
    """Moved by hand to another card: the files name that card, twice the same, and its engine keeps its flags."""
    from cotenant.planning.moved import moved

    fleet = api.load_fleet(
        {
            "headroom": "2%",
            "gpus": [{"type": "A100-80GB-SXM", "count": 2}],
            "models": [
                {"name": "code", "model": MISTRAL, "traffic": SMALL},
                {"name": "triage", "model": LLAMA, "traffic": SMALL},
            ],
        }
    )
    plan = api.plan(fleet)
    (device,) = (one.devices[0] for one in plan.replicas if one.model == "code")
    after = moved(plan, fleet, "code", device.node, 1 - device.index, None).plan
    assert after.replicas[0].devices != after.replicas[1].devices
    read = read_plan(plan_document(after, catalogue="test"))
    assert export(after, target) == export(read, target) == export(read, target)
    text = "".join(file.text for file in export(after, target).files)
    assert text != "".join(file.text for file in export(plan, target).files)
    if target == "compose":
        (found,) = documents(after, target)
        cards = {
            name: service["deploy"]["resources"]["reservations"]["devices"][0]["device_ids"]
            for name, service in found["services"].items()
        }
        assert sorted(cards.values()) == [["0"], ["1"]]
        assert not any("depends_on" in service for service in found["services"].values())
