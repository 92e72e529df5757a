"""Tokens a step (max_num_batched_tokens): what is tried beside the engine's own, chosen, pinned and told."""

from __future__ import annotations

from dataclasses import replace
from math import floor
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotenant import load_fleet, plan
from cotenant.domain.fleet import Fleet
from cotenant.domain.plan import Plan
from cotenant.engines import find_engine
from cotenant.engines.prompt_steps import other_steps, splits_prompts
from cotenant.errors import InputError
from cotenant.planning.candidates import ways_of
from cotenant.planning.listed import ways_listed
from cotenant.planning.solved import solve_ways
from cotenant.planning.ways import Ways
from cotenant.units import GIB

LONG = {
    "requests_per_second": 0.2,
    "input_tokens": {"p50": 6000, "p95": 12_000},
    "output_tokens": {"p50": 150, "p95": 400},
}


def large(name: str, **more: Any) -> dict[str, Any]:
    """A model of 32 billion parameters whose widest layer shows on an H100."""
    traffic = {"concurrent": 4, "context_tokens": {"p50": 1000, "p95": 4000}}
    model = {"name": name, "model": "Qwen/Qwen2.5-32B-Instruct", "traffic": traffic}
    return {**model, "quantization": ["awq-int4"], **more}


def on_h100(*models: dict[str, Any], used: float = 0, **offer: Any) -> Fleet:
    return load_fleet(
        {
            "engine": "vllm@0.21",
            "gpus": [{"type": "H100-80GB-SXM", "max": 2, "price": "$2/h", "used": f"{used}GiB", **offer}],
            "models": list(models),
        }
    )


def steps_of(made: Plan) -> dict[str, int | None]:
    return {one.model: one.settings.max_num_batched_tokens for one in made.replicas}


def crowded() -> float:
    """GiB that others hold so that two such models share a card only if one reads fewer tokens a step."""
    question = on_h100(large("a"), large("b"))
    ways = [one for one in ways_of(question, 0).candidates if one.tensor_parallel_size == 1]
    own = next(one for one in ways if one.step_share == 1)
    lean = next(one for one in ways if one.settings.max_num_batched_tokens == 2048)
    assert own.settings.max_num_batched_tokens == 8192  # of H100s since vLLM 0.9 (defaults.py)
    room = floor(question.gpus[0].gpu.cuda_bytes.value * (1 - question.headroom))
    return (room - own.claim_bytes - lean.claim_bytes - 100 * 2**20) / GIB


def test_a_smaller_step_lets_two_models_share_a_card() -> None:
    used = round(crowded(), 2)
    shared = plan(on_h100(large("a"), large("b"), used=used))
    assert len(shared.gpus) == 1
    assert shared.gap == 0
    assert sorted(steps_of(shared).values(), key=str) == [2048, 8192]  # one of the two gives way, not both
    lean = next(one for one in shared.replicas if one.settings.max_num_batched_tokens == 2048)
    assert ("--max-num-batched-tokens", "2048") in zip(lean.command, lean.command[1:], strict=False)
    assert "a step reads 2,048 tokens instead of 8,192" in lean.why
    pinned = plan(
        on_h100(large("a", max_num_batched_tokens=8192), large("b", max_num_batched_tokens=8192), used=used)
    )
    assert steps_of(pinned) == {"a": 8192, "b": 8192}
    assert len(pinned.gpus) == 2


def test_with_room_the_engines_own_step_stays() -> None:
    assert steps_of(plan(on_h100(large("a"), large("b")))) == {"a": 8192, "b": 8192}


def test_a_larger_step_keeps_a_ttft_that_the_engines_own_misses() -> None:
    def asked(ttft: str, **more: Any) -> Fleet:
        model = {
            "name": "reader", "model": "Qwen/Qwen3-30B-A3B", "traffic": LONG, "quantization": ["bf16"],
            "slo": {"ttft": ttft}, **more,
        }  # fmt: skip
        gpus = [{"type": "A100-80GB-SXM", "count": 1}]
        return load_fleet({"engine": "vllm@0.21", "gpus": gpus, "models": [model]})

    easy, strict = plan(asked("2s")), plan(asked("1.03s"))
    assert steps_of(easy) == {"reader": 2048}  # of an A100 in vLLM
    assert steps_of(strict) == {"reader": 8192}
    assert strict.feasible
    assert strict.replicas[0].ttft_s is not None
    assert strict.replicas[0].ttft_s[1] <= 1.03 < easy.replicas[0].ttft_s[1]  # type: ignore[index]
    assert not plan(asked("1.03s", max_num_batched_tokens=2048)).feasible
    assert not plan(asked("960ms")).feasible  # prompts read whole take longer


def test_a_smaller_step_that_misses_the_slo_is_refused_by_name() -> None:
    model = large("a", traffic=LONG, slo={"ttft": "1s"}, quantization=["fp8"])
    refused = [one.reason for one in ways_listed(on_h100(model)) if "tokens a step" in one.reason]
    assert any(one.startswith("512 tokens a step: estimated TTFT") for one in refused)


def test_dominated_steps_are_dropped_with_their_number() -> None:
    question = load_fleet(
        {
            "engine": "vllm@0.10", "gpus": [{"type": "H100-80GB-SXM", "count": 2}],
            "models": [large("a", quantization=["fp8", "bf16"], kv_cache_dtype=["auto", "fp8"])],
        }
    )  # fmt: skip
    dropped = [one for one in ways_listed(question) if "dominated by" in one.reason and one.step_share != 1]
    assert dropped
    for one in dropped:
        assert f"({one.max_num_batched_tokens:,} tokens a step)" in one.reason


def test_what_is_tried() -> None:
    assert other_steps("vllm", 8192) == ((2048, 512), ())
    assert other_steps("vllm", 2048) == ((512,), (8192,))
    assert other_steps("llama.cpp", 512) == ((), (2048,))  # its n_batch
    question = on_h100(large("a"))
    model, gpu = question.models[0].model, question.gpus[0].gpu
    split = {
        name: splits_prompts(engine.name, version, model, gpu)
        for name in ("vllm@0.21", "vllm@0.7", "sglang@0.5", "tgi@3.3", "tgi@2.4", "tensorrt-llm@1.0", "ollama")
        for engine, version in (find_engine(name),)
    }
    assert [name for name, able in split.items() if able] == ["vllm@0.21", "sglang@0.5", "tgi@3.3"]


@pytest.mark.parametrize(("engine", "step", "word"), [("vllm@0.21", 2, "at once"), ("tgi@2.4", 512, "whole")])
def test_a_step_that_cannot_run_is_refused(engine: str, step: int, word: str) -> None:
    made = plan(on_h100(large("a", engine=engine, max_num_batched_tokens=step, replicas={"max": 1})))
    assert not made.feasible
    assert word in str(made.shortfalls)


def test_ollama_is_not_told() -> None:
    with pytest.raises(InputError, match="model file"):
        on_h100(large("a", engine="ollama", max_num_batched_tokens=512))


def _with_own_steps(ways: Ways) -> Ways:
    return replace(ways, candidates=tuple(one for one in ways.candidates if one.step_share == 1))


models = st.fixed_dictionaries(
    {
        "model": st.sampled_from(["Qwen/Qwen2.5-32B-Instruct", "meta-llama/Llama-3.1-8B-Instruct"]),
        "concurrent": st.sampled_from([2, 8, 16]),
        "tpot": st.sampled_from([None, "40ms", "80ms"]),
    }
)


@settings(max_examples=15, deadline=None)
@given(st.lists(models, min_size=1, max_size=3), st.sampled_from([0, 15, 30, 40]))
def test_no_plan_costs_more_for_looking_at_steps(drawn: list[dict[str, Any]], used: float) -> None:
    fleet = on_h100(
        *(
            {
                "name": f"m{number}", "model": one["model"],
                "traffic": {"concurrent": one["concurrent"], "context_tokens": {"p50": 1000, "p95": 4000}},
                **({"slo": {"tpot": one["tpot"]}} if one["tpot"] else {}),
            }
            for number, one in enumerate(drawn)
        ),
        used=used,
        max=4,
    )  # fmt: skip
    ways = tuple(ways_of(fleet, number) for number in range(len(drawn)))
    free = solve_ways(fleet, ways, nearest=False)
    without = solve_ways(fleet, tuple(map(_with_own_steps, ways)), nearest=False)
    assert free.feasible >= without.feasible
    if without.feasible:
        assert free.placement.objective_value <= without.placement.objective_value + 1e-6
        assert free.placement.lower_bound <= without.placement.objective_value + 1e-6
