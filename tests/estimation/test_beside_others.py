"""What a second engine gets on a card of which others hold 11 GiB, and what it may ask for, by engine."""

from __future__ import annotations

import re

import pytest

import cotenant
from cotenant.domain.estimate import Verdict
from cotenant.units import GIB

MODEL, CARD, USED = "meta-llama/Llama-3.1-8B-Instruct", "A100-40GB-SXM", "11GiB"


def pool(engine: str, used: str = "0GiB", **told) -> float:
    found = cotenant.estimate(MODEL, gpu=CARD, engine=engine, used=used, max_model_len=8192, **told)
    return found.per_gpu[0].kv_cache.bytes.value / GIB


def test_a_snapshot_at_start_leaves_the_budget_alone_but_wants_all_of_it_free():
    """vLLM from 0.9.2 on: refused while the budget is not free; below the fraction that it names it starts, with
    the pool that it would have alone."""
    refused = cotenant.estimate(MODEL, gpu=CARD, engine="vllm@0.12", used=USED, max_model_len=8192)
    assert refused.verdict is Verdict.DOES_NOT_FIT
    match = re.search(r"lower gpu_memory_utilization below (0\.\d+)", refused.reason)
    assert match is not None
    most = float(match.group(1))
    assert most == pytest.approx((39.46 - 11) / 39.46, abs=0.03)
    told = {"gpu_memory_utilization": round(most - 0.05, 3)}  # graphs and the context come on top in 0.12
    beside = cotenant.estimate(MODEL, gpu=CARD, engine="vllm@0.12", used=USED, max_model_len=8192, **told)
    assert beside.verdict is Verdict.FITS
    assert pool("vllm@0.12", USED, **told) == pool("vllm@0.12", **told)


def test_versions_that_charge_others_to_the_newcomer_take_them_off_its_pool():
    """vLLM 0.8.0 to 0.9.1 looked at the whole card (0.2 beside 0.2 failed, beside 0.3 worked); TGI still does."""
    for engine, share in (("vllm@0.8.5", 1.0), ("tgi@3.3", 1.0), ("tgi@2.2", 0.95)):
        assert pool(engine) - pool(engine, USED) == pytest.approx(11 * share, abs=0.02)
        warned = cotenant.estimate(MODEL, gpu=CARD, engine=engine, used=USED, max_model_len=8192).warnings
        assert "this version charges what others hold on the card to the new engine's budget" in warned


def test_a_share_of_what_is_free_shrinks_by_its_share():
    """SGLang takes its fraction of what is free at start, TensorRT-LLM of what is free after its trial run."""
    told = {"gpu_memory_utilization": 0.8}
    assert pool("sglang@0.5.9", **told) - pool("sglang@0.5.9", USED, **told) == pytest.approx(0.8 * 11, abs=0.02)
    assert pool("tensorrt-llm@1.2", **told) - pool("tensorrt-llm@1.2", USED, **told) == pytest.approx(
        8.8, abs=0.02
    )


def test_llama_cpp_takes_what_it_is_told_beside_anybody():
    alone, beside = (
        cotenant.estimate(MODEL, gpu=CARD, engine="llama.cpp", used=used, options={"c": 8192})
        for used in ("0GiB", USED)
    )
    assert alone.per_gpu[0].kv_cache == beside.per_gpu[0].kv_cache
    assert alone.per_gpu[0].budget.value - beside.per_gpu[0].budget.value == 11 * GIB
