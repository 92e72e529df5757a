"""From a plan to what is served."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.live_case import MIB, plan_document
from cotenant.api import load_fleet
from cotenant.errors import InputError
from cotenant.readers.plan_document import read_plan
from cotenant.serving.from_plan import fleet_of
from cotenant.serving.settings import SECOND

MODELS = {"alpha": 100 * MIB, "beta": 200 * MIB}


def test_bytes_slots_and_commands_come_from_the_plan():
    plan = read_plan(plan_document(MODELS, 300 * MIB, slots=3))
    fleet = fleet_of(plan)
    assert [host.awake_bytes for host in fleet.hosts] == [100 * MIB, 200 * MIB]
    assert {host.slots for host in fleet.hosts} == {3}
    assert fleet.devices.bytes == (300 * MIB,)
    assert fleet.names == {"alpha": "alpha", "beta": "beta"}
    assert fleet.launches[0].port == plan.replicas[0].port
    assert fleet.launches[0].devices == ()  # all layers on the processor
    assert fleet.sleep_levels == (0, 0)
    assert fleet.hosts[0].load_ns < 3 * SECOND


def test_engines_that_run_elsewhere_take_none_of_our_bytes():
    fleet = fleet_of(read_plan(plan_document(MODELS, 100 * MIB)), urls={"beta": "http://gpu-2:8000"})
    assert [host.ours for host in fleet.hosts] == [True, False]
    assert fleet.hosts[1].devices == ()
    assert fleet.launches[1].url == "http://gpu-2:8000"
    with pytest.raises(InputError, match="no replica or model 'gamma'"):
        fleet_of(read_plan(plan_document(MODELS, 100 * MIB)), urls={"gamma": "http://x"})


def test_a_replica_that_no_device_has_room_for_is_refused():
    document = plan_document(MODELS, 199 * MIB)
    with pytest.raises(InputError, match=r"beta-1 takes 200.00 MiB while it starts, and CPU #0.0 has 199.00 MiB"):
        fleet_of(read_plan(document))
    assert not fleet_of(read_plan(document), urls={"beta": "http://gpu-2:8000"}).hosts[1].ours
    document = plan_document(MODELS, 200 * MIB)
    document["gpus"][0]["replicas"][0]["load_peak_bytes"] = 201 * MIB  # alpha's, which is smaller once it is up
    with pytest.raises(InputError, match=r"alpha-1 takes 201.00 MiB while it starts"):
        fleet_of(read_plan(document))


def test_sleep_levels_and_adapters():
    document = plan_document({"chat": 100 * MIB}, 300 * MIB, engine="vllm@0.21")
    (replica,) = document["replicas"]
    for name in ("n_ctx", "n_parallel", "n_gpu_layers"):
        del replica[name]
    replica["sharing"] = "sleep"
    replica["checkpoint"] = "org/model"
    fleet = fleet_of(read_plan(document))
    assert fleet.sleep_levels == (1,)
    assert fleet.hosts[0].can_sleep
    assert 60 * SECOND < fleet.hosts[0].load_ns < 70 * SECOND  # kept: imports 34, compiled graphs 23, capture 7
    assert fleet.hosts[0].longest_load_ns > 208 * SECOND  # a first start on a new machine is not a hung one
    assert fleet.hosts[0].wake_ns < SECOND  # as the simulator has it: 100 MiB over the link, and mapped
    assert fleet.launches[0].devices == (0,)
    replica["adapters"] = [{"name": "legal", "rank": 8, "source": "/adapters/legal", "share": None}]
    assert fleet_of(read_plan(document)).names == {"chat": "chat", "legal": "chat"}


def test_a_plan_over_two_machines_needs_addresses():
    document = plan_document(MODELS, 300 * MIB)
    away = dict(document["gpus"][0], node=1)
    document["gpus"].append(away)
    document["gpus"][0]["replicas"], away["replicas"] = (
        document["gpus"][0]["replicas"][:1],
        document["gpus"][0]["replicas"][1:],
    )
    document["replicas"][1]["devices"] = [{"type": "CPU", "node": 1, "index": 0}]
    with pytest.raises(InputError, match="another machine"):
        fleet_of(read_plan(document))
    assert fleet_of(read_plan(document), urls={"beta": "http://other:1"}).hosts[0].ours


def test_hours_of_a_folded_model_wake_the_one_that_serves_it():
    """And those of a model that the plan leaves out wake nobody."""
    day = [1.0] * 12 + [9.0] * 12
    asked = {
        "model": {"parameters": "1B", "layers": 16, "kv_heads": 8, "head_dim": 64},
        "traffic": {
            "requests_per_second": 0.1,
            "input_tokens": {"p95": 900},
            "output_tokens": {"p95": 90},
            "by_hour": day,
        },
    }
    models = [{"name": name, **asked} for name in ("alpha", "folded", "gone")]
    requests = load_fleet({"gpus": [{"type": "L4", "count": 1}], "models": models}).models
    document = plan_document({"alpha": 100 * MIB}, 300 * MIB, engine="vllm@0.21")
    (replica,) = document["replicas"]
    for name in ("n_ctx", "n_parallel", "n_gpu_layers"):
        del replica[name]
    replica |= {"checkpoint": "org/model", "also_serves": ["folded"]}
    fleet = fleet_of(read_plan(document), requests)
    assert [(one.model, one.weights) for one in fleet.hours] == [("alpha", tuple(day))] * 2


def test_an_address_for_one_replica_does_not_let_another_start_on_a_slice():
    document = plan_document({"alpha": 100 * MIB, "beta": 100 * MIB}, 300 * MIB)
    plan = read_plan(document)
    card = replace(plan.gpus[0].device, type="A100-80GB-SXM:3g.40gb")
    replicas = tuple(replace(one, devices=(card,)) for one in plan.replicas)
    plan = replace(plan, replicas=replicas, gpus=(replace(plan.gpus[0], device=card),))
    with pytest.raises(InputError, match="MIG"):
        fleet_of(plan)
    with pytest.raises(InputError, match="beta-1: engines on MIG"):
        fleet_of(plan, urls={"alpha": "http://x:1"})
    assert len(fleet_of(plan, urls={"alpha": "http://x:1", "beta-1": "http://x:2"}).hosts) == 2
