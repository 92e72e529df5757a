"""A plan after a change: what stays, what moves, and an order in which no card ever holds more than it has."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cotenant import load_fleet, plan
from cotenant.domain.device import Device
from cotenant.domain.plan import Plan
from cotenant.domain.workload import Adapter
from cotenant.errors import InputError
from cotenant.planning.change import plan_change
from cotenant.planning.check import find_faults
from cotenant.planning.launch import reestimate
from cotenant.planning.migration import check_steps, migrate
from cotenant.planning.standing import place_of
from cotenant.report.document import plan_document
from tests.planning.fleets import fleet, small
from tests.planning.test_promise import asked
from tests.planning.test_turns import DAY, NIGHT, shop, sleepy

SHOP = [{"type": "L4", "price": "$0.45/h", "node": {"size": 1}}, {"type": "A100-80GB-SXM", "price": "$1.8/h"}]


def question(rates: dict[str, float]) -> dict[str, Any]:
    return {"gpus": SHOP, "models": [asked(name, rate) for name, rate in rates.items()]}


@pytest.fixture(scope="module")
def old() -> Plan:
    return plan(question({"a": 0.3, "b": 0.3, "c": 0.2}))


def places(answer: Plan) -> dict[str, set[tuple[str, int, int]]]:
    return {replica.id: set(map(place_of, replica.devices)) for replica in answer.replicas}


def test_an_unchanged_fleet_changes_nothing(old: Plan) -> None:
    again = plan(question({"a": 0.3, "b": 0.3, "c": 0.2}), previous=plan_document(old, catalogue="c"))
    assert again.migration is not None
    assert set(again.migration.kept) == {"a", "b", "c"}
    assert again.migration.steps == ()
    assert places(again) == places(old)
    assert [one.port for one in again.replicas] == [one.port for one in old.replicas]
    assert again.cost_per_hour == old.cost_per_hour


def test_who_goes_frees_its_card_and_the_others_stay(old: Plan) -> None:
    after = plan(question({"b": 0.3, "c": 0.2}), previous=old)
    assert after.migration is not None
    assert after.migration.stopped == ("a",)
    assert set(after.migration.kept) == {"b", "c"}
    assert [(step.action, step.replica) for step in after.migration.steps] == [("stop", "a")]
    assert places(after) == {name: cards for name, cards in places(old).items() if name != "a"}


def test_who_comes_takes_a_port_that_nobody_has(old: Plan) -> None:
    after = plan(question({"a": 0.3, "b": 0.3, "c": 0.2, "d": 0.3}), previous=old)
    assert after.migration is not None
    assert after.migration.started == ("d",)
    assert set(after.migration.kept) == {"a", "b", "c"}
    (step,) = after.migration.steps
    assert step.action == "start"
    assert step.needed_bytes > 13 * 2**30
    assert step.seconds > 10
    busy = {(one.devices[0].node, one.port) for one in old.replicas}
    new = next(one for one in after.replicas if one.model == "d")
    assert (new.devices[0].node, new.port) not in busy


def test_other_flags_restart_in_place_before_the_old_one_stops_where_there_is_room() -> None:
    wide = [{"type": "A100-80GB-SXM", "count": 1}]
    before = plan({"gpus": wide, "models": [asked("a", 0.3)]})
    after = plan({"gpus": wide, "models": [asked("a", 1.5)]}, previous=before)
    assert after.migration is not None
    assert after.migration.restarted == ("a",)
    assert [step.action for step in after.migration.steps] == ["start", "stop"]
    assert after.migration.downtimes == ()
    assert after.replicas[0].port != before.replicas[0].port


def test_what_an_engine_is_told_at_start_alone_restarts_it(old: Plan) -> None:
    asked_again = load_fleet(question({"a": 0.3, "b": 0.3, "c": 0.2}))
    legal, code = Adapter("legal", 16), Adapter("code", 16)

    def word(engine: str, before: dict[str, Any], after: dict[str, Any]) -> str:
        version = {"vllm": old.replicas[0].engine_version, "llama.cpp": "b10434"}[engine]
        first, *others = (replace(one, engine=engine, engine_version=version) for one in old.replicas)
        plans = [replace(old, replicas=(replace(first, **told), *others)) for told in (before, after)]
        found = migrate(*plans, asked_again)
        assert set(found.kept) | set(found.restarted) == {"a", "b", "c"}
        return "kept" if first.id in found.kept else "restarted"

    assert word("vllm", {}, {}) == "kept"
    assert word("vllm", {}, {"also_serves": ("chat",)}) == "restarted"
    assert word("vllm", {}, {"quantization_flag": "fp8"}) == "restarted"
    assert word("vllm", {"adapters": (legal,)}, {"adapters": (legal, code)}) == "kept"  # loaded while it runs
    assert word("vllm", {}, {"adapters": (legal,)}) == "restarted"
    assert word("llama.cpp", {"adapters": (legal,)}, {"adapters": (legal, code)}) == "restarted"


def test_where_there_is_no_room_for_both_the_stop_comes_first_and_is_called_downtime() -> None:
    narrow = [{"type": "L4", "count": 1}]
    before = plan({"gpus": narrow, "models": [asked("a", 0.1)]})
    after = plan({"gpus": narrow, "models": [asked("a", 0.3)]}, previous=before)
    assert after.migration is not None
    assert [(step.action, step.downtime) for step in after.migration.steps] == [("stop", True), ("start", False)]
    assert after.migration.downtimes == ("a",)


def test_the_check_of_steps_sees_what_loads_before_room_is_made() -> None:
    narrow = [{"type": "L4", "count": 1}]
    before = plan({"gpus": narrow, "models": [asked("a", 0.1)]})
    after = plan({"gpus": narrow, "models": [asked("a", 0.3)]}, previous=before)
    assert after.migration is not None
    with pytest.raises(Exception, match="step 1 of the migration needs"):
        check_steps(before, after, after.migration.steps[::-1])


def test_what_is_no_plan_is_refused() -> None:
    with pytest.raises(InputError, match="is not a plan"):
        plan(question({"a": 0.3}), previous="examples/a100-trio.json")


def turning(*models: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"gpus": shop(), "models": list(models), **more}


PAIR = (sleepy("a", DAY), sleepy("b", NIGHT))


def test_who_takes_turns_stays_together_where_it_is() -> None:
    before = plan(turning(*PAIR))
    again = plan(turning(*PAIR), previous=plan_document(before, catalogue="c"))
    assert again.migration is not None
    assert set(again.migration.kept) == {"a", "b"}
    assert again.migration.steps == ()
    assert [one.models for one in again.turns] == [("a", "b")]
    third = plan(turning(sleepy("c", DAY, rate=0.2), *PAIR), previous=before)
    assert third.migration is not None
    assert {*third.migration.kept, *third.migration.started} == {"a", "b", "c"}
    assert set(third.migration.kept) == {"a", "b"}
    assert places(third)["a"] == places(before)["a"]


def test_taking_turns_is_begun_and_ended_with_memory_safe() -> None:
    """Two cards become one, and two again: each start beside what runs then, as `check_steps` walks it."""
    steady = [one | {"sharing": ["co-resident"]} for one in PAIR]
    apart, paired = plan(turning(*steady)), plan(turning(*PAIR))
    assert (len(apart.gpus), len(paired.gpus)) == (2, 1)
    joined = plan(turning(*PAIR), previous=apart)
    assert joined.migration is not None
    assert not joined.migration.kept  # to sleep is a flag of the engine
    assert len(joined.gpus) == 1
    assert joined.cost_per_hour == paired.cost_per_hour
    parted = plan(turning(*steady), previous=paired)
    assert parted.migration is not None
    assert len(parted.gpus) == 2
    assert {*parted.migration.moved, *parted.migration.restarted} == {"a", "b"}
    assert len(parted.migration.moved) == 1


def test_the_spare_stays_where_it_is() -> None:
    """Of four owned cards in nodes of two, the plan keeps the last empty; a plan that runs has another one so."""
    cards = [{"type": "L4", "count": 4, "node": {"size": 2}}]
    asked_for = {"gpus": cards, "models": [asked("a", 0.3), asked("b", 0.3)], "spare": "gpu"}
    before = plan(asked_for)
    elsewhere = {(1, 1): (0, 0), (0, 0): (1, 1), (0, 1): (1, 0), (1, 0): (0, 1)}

    def turned(device: Device) -> Device:
        node, index = elsewhere[device.node, device.index]
        return replace(device, node=node, index=index)

    running = replace(
        before,
        replicas=tuple(replace(one, devices=tuple(map(turned, one.devices))) for one in before.replicas),
        gpus=tuple(replace(gpu, device=turned(gpu.device)) for gpu in before.gpus),
    )
    (empty,) = (place_of(gpu.device) for gpu in running.gpus if gpu.spare)
    after = plan(asked_for, previous=running)
    assert after.migration is not None
    assert set(after.migration.kept) == {"a", "b"}
    assert empty not in {place for each in places(after).values() for place in each}
    assert after.cost_per_hour == before.cost_per_hour
    assert sum(gpu.spare for gpu in after.gpus) == 1


def test_a_hired_spare_is_spare_again() -> None:
    asked_for = {"gpus": SHOP, "models": [asked("a", 0.3), asked("b", 0.3)], "spare": "gpu"}
    before = plan(asked_for)
    after = plan(asked_for, previous=before)
    assert after.migration is not None
    assert after.migration.steps == ()
    assert {place_of(gpu.device) for gpu in after.gpus if gpu.spare} == {
        place_of(gpu.device) for gpu in before.gpus if gpu.spare
    }


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_turns_and_spares_change_safely(data: st.DataObject) -> None:
    """Models that come, go, and change their hours on four owned cards, with and without a spare."""

    def drawn() -> dict[str, Any]:
        names = data.draw(st.lists(st.sampled_from("abcd"), min_size=1, max_size=4, unique=True))
        models = [
            sleepy(name, data.draw(st.sampled_from([DAY, NIGHT])), data.draw(st.sampled_from([0.1, 0.3])))
            for name in sorted(names)
        ]
        node = {"size": 2, "host_memory": data.draw(st.sampled_from(["40GiB", "64GiB"]))}
        return {"gpus": [{"type": "L4", "count": 4, "node": node}], "models": models,
                "spare": data.draw(st.sampled_from(["none", "gpu"]))}  # fmt: skip

    first, second = load_fleet(drawn()), load_fleet(drawn())
    before = plan(first)
    if not before.feasible:
        return
    after = plan_change(second, before)
    if not after.feasible:
        return
    assert not list(find_faults(after, second, reestimate(second)))
    assert after.objective_value == pytest.approx(plan(second).objective_value)
    assert after.migration is not None
    assert {
        *after.migration.kept,
        *after.migration.restarted,
        *after.migration.moved,
        *after.migration.started,
    } == {one.id for one in after.replicas}


def test_the_document_tells_the_migration(old: Plan) -> None:
    after = plan(question({"b": 0.3, "c": 0.2}), previous=old)
    told = plan_document(after, catalogue="c")["migration"]
    assert told["stopped"] == ["a"]
    assert told["steps"][0]["action"] == "stop"
    assert told["previous_cost_per_hour"] == old.cost_per_hour
    assert plan_document(old, catalogue="c")["migration"] is None


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.sampled_from([1, 4, 12, 24]), min_size=2, max_size=4),
    st.lists(st.sampled_from([0, 1, 4, 12, 24]), min_size=2, max_size=4),
)
def test_every_migration_is_safe_and_ends_at_the_new_plan(before: list[int], after: list[int]) -> None:
    """`plan_change` walks its own steps with bytes in hand and raises where one does not fit."""
    cards = [{"type": "A100-80GB-SXM", "count": 2}]

    def of(loads: list[int]) -> list[dict[str, Any]]:
        return [
            {**small(f"m{number}"), "traffic": {"concurrent": load, "context_tokens": {"p95": 2048}}}
            for number, load in enumerate(loads)
            if load
        ]

    models = of(after)
    old, asked_now = plan(fleet(*of(before), gpus=cards)), fleet(*(models or of([1])), gpus=cards)
    if not old.feasible:
        return
    new = plan_change(asked_now, old)
    if not new.feasible:
        return
    assert new.objective_value == pytest.approx(plan(asked_now).objective_value)
    assert new.migration is not None
    running = {replica.id for replica in old.replicas}
    for step in new.migration.steps:
        running = running - {step.replica} if step.action == "stop" else running
    started = {step.replica for step in new.migration.steps if step.action == "start"}
    assert running - {one for one in running if one in started} | started == {one.id for one in new.replicas}
    assert {*new.migration.kept, *new.migration.restarted, *new.migration.moved, *new.migration.started} == {
        replica.id for replica in new.replicas
    }


def test_a_fleet_that_does_not_fit_any_more_has_no_migration(old: Plan) -> None:
    broken = load_fleet({"gpus": [{"type": "L4", "count": 1}], "models": [asked("a", 0.3), asked("b", 0.3)]})
    found = plan_change(broken, old)
    assert not found.feasible
    assert found.migration is None
    assert replace(found, migration=None) == found
