"""Plans from files, sweeps over seeds, and the same answers wherever they are worked out."""

from __future__ import annotations

import json
import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import cotenant
from cotenant.catalogue import VERSION
from cotenant.edge.plans import plan_and_fleet
from cotenant.edge.workers import _refuse_silence, each
from cotenant.errors import CotenantError, InputError
from cotenant.report.document import plan_document

RAW = Path(__file__).resolve().parents[2] / "examples" / "raw-figures.yaml"


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    found = plan_document(cotenant.plan(RAW), catalogue=VERSION)
    return json.loads(json.dumps(found))  # type: ignore[no-any-return]


def test_a_plan_is_replayed_as_its_fleet_would_be(document: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    ours = cotenant.simulate(RAW, duration="5s")
    assert cotenant.simulate(document, duration="5s") == ours
    assert cotenant.simulate(path, duration="5s") == ours
    assert cotenant.simulate(cotenant.plan(RAW), duration="5s") == ours


def test_what_stands_in_a_plan_counts_not_what_the_fleet_would_get_today(document: dict[str, Any]) -> None:
    smaller = json.loads(json.dumps(document))
    for replica in smaller["replicas"]:
        replica["max_num_seqs"] = 1
        replica["command"] = "rm -rf /"
    found = cotenant.simulate(smaller, duration="5s")
    fleet = cotenant.simulate(document, duration="5s")
    assert found.models[0].ttft_s is not None
    assert fleet.models[0].ttft_s is not None
    assert found.models[0].ttft_s.p95 > fleet.models[0].ttft_s.p95


def changed(document: dict[str, Any], **changes: object) -> dict[str, Any]:
    return {**json.loads(json.dumps(document)), **changes}


def test_plans_that_cannot_be_replayed_say_why(document: dict[str, Any]) -> None:
    other = {**document["fleet"], "headroom": "1%"}
    full = changed(document)
    for replica in full["replicas"]:
        replica["gpu_memory_utilization"] = 0.9
        replica["kv_cache_memory_bytes"] = None
    foreign = changed(document, input_hash="")
    foreign["fleet"]["models"][0]["name"] = "somebody-else"
    for wrong, says in (
        (changed(document, fleet=None), "does not hold the fleet"),
        (changed(document, fleet=other), "not the one that it was made for"),
        (changed(document, schema="cotenant/plan/9"), "plan/9"),
        (full, "does not fit"),
        (foreign, "does not ask for"),
    ):
        with pytest.raises(CotenantError, match=says):
            cotenant.simulate(wrong, duration="1s")


def test_a_fleet_is_no_plan() -> None:
    assert plan_and_fleet(RAW) is None
    assert plan_and_fleet({"gpus": [], "models": []}) is None


def test_seeds_are_the_same_in_processes_of_their_own() -> None:
    here = cotenant.simulate_many(RAW, policies=("static", "restart"), seeds=(3, 4), duration="2s", workers=1)
    apart = cotenant.simulate_many(RAW, policies=("static", "restart"), seeds=(3, 4), duration="2s", workers=2)
    assert here == apart
    assert [(one.policy, one.seed) for one in here] == [
        ("static", 3),
        ("static", 4),
        ("restart", 3),
        ("restart", 4),
    ]
    assert here[0] == cotenant.simulate(RAW, seed=3, duration="2s")


def test_without_ray_the_error_says_how_to_get_it() -> None:
    if find_spec("ray") is None:
        with pytest.raises(InputError, match="not installed"):
            list(each(str, [1, 2], ray="auto"))


def test_a_cluster_that_does_not_listen_is_no_long_wait() -> None:
    for address in ("127.0.0.1:1", "ray://127.0.0.1:1", "127.0.0.1:port", "[::1]:1"):
        with pytest.raises(InputError, match="no Ray cluster at"):
            _refuse_silence(address)
    for address in ("auto", "local"):
        _refuse_silence(address)


@pytest.mark.skipif(not os.environ.get("COTENANT_RAY"), reason="COTENANT_RAY=local starts a cluster")
def test_ray_gives_the_same_answers() -> None:
    ours = cotenant.simulate_many(RAW, policies=("static", "restart"), seeds=(3, 4), duration="2s", workers=1)
    assert ours == cotenant.simulate_many(
        RAW, policies=("static", "restart"), seeds=(3, 4), duration="2s", ray=os.environ["COTENANT_RAY"]
    )
