"""Adapters on one base in one process: where it costs less, by every name, checked against what was asked."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from cotenant import load_fleet, plan
from cotenant.domain.plan import Plan
from cotenant.edge.plans import plan_and_fleet
from cotenant.errors import CotenantError, InputError
from cotenant.planning.folding import folded_as
from cotenant.planning.folds import foldable
from cotenant.planning.folds_check import fold_faults
from cotenant.planning.solve import plan_fleet
from cotenant.report.document import plan_document
from cotenant.serving.from_plan import fleet_of

BASE = {"model": "mistralai/Mistral-7B-Instruct-v0.3", "quantization": ["bf16"]}
LAW = {"adapters": [{"name": "law", "rank": 16, "source": "./law"}]}
L4 = [{"type": "L4", "price": "$0.4/h"}]


def asked(name: str, **more: Any) -> dict[str, Any]:
    """A tenth of a request a second on the base."""
    lengths = {"input_tokens": {"p50": 500, "p95": 1000}, "output_tokens": {"p50": 100, "p95": 200}}
    return {"name": name, **BASE, "traffic": {"requests_per_second": 0.1, **lengths}, **more}


QUESTION = {"gpus": L4, "models": [asked("plain"), asked("legal", slo={"tpot": "200ms"}, **LAW)]}


@pytest.fixture(scope="module")
def answer() -> Plan:
    return plan(QUESTION)


def test_adapters_are_folded_onto_their_base_where_that_costs_less(answer: Plan) -> None:
    (replica,) = answer.replicas
    assert (replica.model, replica.also_serves) == ("plain", ("legal",))
    at = replica.command.index("--served-model-name")
    assert replica.command[at + 1 : at + 3] == ("plain", "legal")
    assert "law=./law" in replica.command
    assert answer.cost_per_hour == pytest.approx(0.4)
    assert answer.gap == 0.0
    assert "one process with legal" in replica.why
    assert "saves $0.40/h" in replica.why
    apart = plan_fleet(load_fleet(QUESTION), fold=False)
    assert apart.cost_per_hour == pytest.approx(0.8)
    assert len(apart.replicas) == 2


def test_what_was_folded_is_read_back_and_served_by_each_name(answer: Plan) -> None:
    document = json.loads(json.dumps(plan_document(answer, catalogue="")))
    read = plan_and_fleet(document)
    assert read is not None
    found, fleet = read
    assert found.replicas[0].command == answer.replicas[0].command
    assert [(one.name, one.also_serves) for one in fleet.models] == [("plain", ("legal",))]
    assert fleet.models[0].traffic.requests_per_second == pytest.approx(0.2)
    served = fleet_of(found, fleet.models)
    assert served.names == {"plain": "plain", "legal": "plain", "law": "plain"}
    strange = dict(document, fleet={**QUESTION, "models": [asked("plain"), asked("legal", apart_from=["plain"])]})
    strange["input_hash"] = ""
    with pytest.raises(InputError, match="cannot be one process"):
        plan_and_fleet(strange)
    document["replicas"][0]["also_serves"] = ["legal", "--trust-remote-code"]
    with pytest.raises(CotenantError, match="is not a name"):
        plan_and_fleet(document)


@pytest.mark.parametrize(
    "other",
    [
        asked("legal"),  # no adapters: two deployments of one model are meant
        asked("legal", sharing=["alone"], **LAW),
        asked("legal", apart_from=["plain"], **LAW),
        asked("legal", engine="sglang", **LAW),
        asked("legal", quality={"max_loss": "5%"}, **LAW),
        asked("legal", **LAW) | {"quantization": ["fp8"]},
        asked("legal", **LAW) | {"model": "meta-llama/Llama-3.1-8B-Instruct"},
    ],
)
def test_what_differs_or_wants_to_be_apart_is_not_folded(other: dict[str, Any]) -> None:
    assert foldable(load_fleet({"gpus": L4, "models": [asked("plain"), other]})) == ()


def test_an_engine_of_one_name_is_not_folded() -> None:
    models = [asked("plain", engine="sglang"), asked("legal", engine="sglang", **LAW)]
    assert foldable(load_fleet({"gpus": L4, "models": models})) == ()


def test_where_it_saves_nothing_each_keeps_its_process() -> None:
    found = plan(QUESTION | {"gpus": [{"type": "A100-80GB-SXM", "price": "$1.29/h"}]})
    assert [one.model for one in found.replicas] == ["plain", "legal"]
    assert not any(one.also_serves for one in found.replicas)


def test_without_room_for_both_one_process_gives_both_a_place() -> None:
    found = plan(QUESTION | {"gpus": [{"type": "L4", "count": 1}]})
    assert found.feasible
    assert "without it not all models have a place" in found.replicas[0].why


def test_the_check_sees_what_folding_breaks(answer: Plan) -> None:
    question = load_fleet(QUESTION)
    planned = folded_as(question, answer)
    assert not list(fold_faults(answer, question, planned))
    host = planned.models[0]
    for broken in (
        replace(host, also_serves=()),
        replace(host, adapters=()),
        replace(host, slo=None),
        replace(host, traffic=question.models[0].traffic),
        replace(host, formats=("fp8",)),
    ):
        assert list(fold_faults(answer, question, replace(planned, models=(broken,))))
    silent = replace(answer.replicas[0], command=("vllm",))
    assert list(fold_faults(replace(answer, replicas=(silent,)), question, planned))
