"""MIG slices as places: their sizes, one rank each, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cotenant import load_fleet, plan
from cotenant.catalogue.gpus import find_gpu
from cotenant.catalogue.mig import profiles_of, sliced
from cotenant.deployment.launch import launches
from cotenant.errors import InputError, InputErrors
from cotenant.planning.candidates import ways_of
from cotenant.planning.check import find_faults
from cotenant.planning.launch import reestimate
from cotenant.serving.from_plan import fleet_of
from cotenant.units import GIB
from tests.planning.fleets import small

A100 = "A100-80GB-SXM"


def cut(profile: Any, count: int = 1) -> dict[str, Any]:
    return {"type": A100, "mig": profile, "count": count}


@pytest.mark.parametrize(
    ("card", "profile", "printed_gib"),
    [("A100-40GB-SXM", "1g.5gb", 4.75), ("A100-40GB-SXM", "3g.20gb", 19.62), (A100, "1g.10gb", 9.5),
     (A100, "2g.20gb", 19.5), (A100, "3g.40gb", 39.25), ("H100-80GB-SXM", "3g.40gb", 39.38)],
)  # fmt: skip
def test_bytes_are_those_that_listings_of_profiles_print(card: str, profile: str, printed_gib: float) -> None:
    spec, _ = sliced(find_gpu(card), profile)
    assert spec.cuda_bytes.low <= printed_gib * GIB <= spec.driver_bytes.high
    assert spec.link_bandwidth is None


def test_all_slices_of_a_profile_fit_into_their_card() -> None:
    for card in ("A30", "A100-40GB-PCIe", A100, "H100-80GB-PCIe", "H200-SXM", "B200-SXM"):
        gpu = find_gpu(card)
        assert profiles_of(gpu)
        for one in profiles_of(gpu):
            spec, _ = sliced(gpu, one.name)
            assert one.most * one.memory <= 1
            assert one.most * one.compute <= 1
            assert spec.peak_flops["fp16"] * one.most <= gpu.peak_flops["fp16"] * 1.001
            rounded = int(one.name.split(".")[1].removesuffix("gb"))
            assert abs(spec.driver_bytes.high / GIB - rounded) < 0.12 * rounded
    assert profiles_of(find_gpu("L4")) == ()


def test_models_stand_on_slices_that_hold_them() -> None:
    question = load_fleet({"gpus": [cut("3g.40gb"), cut("2g.20gb"), cut("1g.10gb", 2)], "models": [
        small("a", "mistralai/Mistral-7B-Instruct-v0.3", quantization=["bf16"]),
        small("b", "Qwen/Qwen2.5-3B-Instruct", quantization=["bf16"], sharing=["alone"]),
    ]})  # fmt: skip
    answer = plan(question)
    assert answer.feasible
    assert answer.naive is None
    assert {len(one.devices) for one in answer.replicas} == {1}
    on = {one.model: one.devices[0] for one in answer.replicas}
    assert on["a"] != on["b"]
    assert on["a"].is_slice
    assert any("UUID" in each for each in answer.warnings)
    assert not list(find_faults(answer, question, reestimate(question)))
    profiles = {one.replica.model: one.mig_profiles for one in launches(answer)}
    assert profiles == {name: (device.type.rpartition(":")[2],) for name, device in on.items()}
    with pytest.raises(InputError, match="MIG"):
        fleet_of(answer)


def test_a_model_is_never_split_over_slices() -> None:
    question = load_fleet({"gpus": [cut("1g.10gb", 7)], "models": [
        small("a", "mistralai/Mistral-7B-Instruct-v0.3", quantization=["bf16"])]})  # fmt: skip
    found = ways_of(question, 0)
    assert found.candidates == ()
    assert {one.tensor_parallel_size for one in found.refusals if one.shortfall_bytes} == {1}
    assert not plan(question).feasible


def test_less_compute_is_slower() -> None:
    whole = {"gpus": [{"type": A100, "count": 1}], "models": [small("a", quantization=["bf16"])]}
    third = whole | {"gpus": [cut("3g.40gb")]}
    times = [ways_of(load_fleet(each), 0).candidates[0].demand.tpot_s for each in (whole, third)]
    assert times[0] is not None
    assert times[1] is not None
    assert 1.5 < times[1][1] / times[0][1] < 2.5  # half the bandwidth


def test_which_profiles_there_are_is_said() -> None:
    for wrong, said in ((True, "into which slices"), ("5g.50gb", "no MIG profile")):
        with pytest.raises(InputErrors, match=said) as refused:
            load_fleet({"gpus": [cut(wrong)], "models": [small("a")]})
        assert any("3g.40gb" in (fault.hint or "") for fault in refused.value.faults())
    with pytest.raises(InputErrors, match="no MIG profiles"):
        load_fleet({"gpus": [{"type": "L4", "mig": "1g.10gb", "count": 1}], "models": [small("a")]})


def test_the_check_sees_ranks_on_two_slices() -> None:
    question = load_fleet({"gpus": [cut("3g.40gb", 2)], "models": [small("a", quantization=["bf16"])]})
    answer = plan(question)
    one = answer.replicas[0]
    split = replace(one, settings=replace(one.settings, tensor_parallel_size=2),
                    devices=(one.devices[0], replace(one.devices[0], index=1)))  # fmt: skip
    assert any(
        "MIG" in fault for fault in find_faults(replace(answer, replicas=(split,)), question, reestimate(question))
    )
