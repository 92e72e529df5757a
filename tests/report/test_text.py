"""How answers look, on values made by hand: golden pages at three widths, bars to scale.

After a change that is meant: COTENANT_UPDATE_GOLDEN=1 python -m pytest tests/report
"""

from __future__ import annotations

import io
import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from cotenant.catalogue.gpus import find_gpu
from cotenant.domain.demand import Demand
from cotenant.domain.engine import EngineSettings
from cotenant.domain.estimate import Estimate, KvCacheEstimate, RankEstimate, Term, Verdict
from cotenant.domain.interval import Interval
from cotenant.edge.models import open_model
from cotenant.report.bars import cells
from cotenant.report.estimate_text import print_estimate
from cotenant.units import GIB, MIB

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
UPDATE = bool(os.environ.get("COTENANT_UPDATE_GOLDEN"))


def about(gib: float, doubt: float = 0.1) -> Interval:
    return Interval(round((gib - doubt) * GIB), round(gib * GIB), round((gib + doubt) * GIB))


def rank(number: int = 0, *, weights: float = 15, used_bytes: int = 0, headroom: float = 5.5) -> RankEstimate:
    return RankEstimate(
        rank=number,
        capacity=about(79.2, 0.05),
        used_bytes=used_bytes,
        budget=about(72.9),
        weights=Term(about(weights), "8.03B parameters in bf16"),
        kv_cache=Term(about(56.2, 0.5), "28,774 blocks in what the budget leaves"),
        activations=Term(Interval.exact(2 * GIB), "profile run: 2,048 tokens in the widest layer"),
        runtime=Term(about(0.5, 0.3), "CUDA context, kernels, 35 CUDA graphs"),
        load_peak=about(weights + 1.5),
        headroom=about(headroom),
    )


def estimate(*ranks: RankEstimate, verdict: Verdict = Verdict.FITS, demand: Demand | None = None) -> Estimate:
    return Estimate(
        model=open_model("meta-llama/Llama-3.1-8B-Instruct").spec,
        gpu=find_gpu("A100-80GB-SXM"),
        engine="vllm",
        engine_version="0.21",
        quantization="bf16",
        settings=EngineSettings(max_model_len=8192, max_num_seqs=16, gpu_memory_utilization=0.92),
        verdict=verdict,
        per_gpu=ranks,
        kv_cache=KvCacheEstimate(131_072, 0, 460_384, 460_384, 56.2, 56 * GIB, None, 16 * GIB, GIB),
        arguments=("vllm", "serve", "meta-llama/Llama-3.1-8B-Instruct", "--max-model-len", "8192"),
        reason="5.50 GiB to spare",
        demand=demand,
    )


DEMAND = Demand(
    max_model_len=8192, max_model_len_is_minimum=False, refused_share=0.001, max_num_seqs=16, mean_in_service=6.5,
    in_service_p999=16, kv_needed_tokens=20_000, kv_needed_bytes=2 * GIB + 512 * MIB, kv_minimum_bytes=GIB,
    kv_worst_case_bytes=16 * GIB, overflow=0.01, busy=0.9, ttft_s=(0.1, 0.2, 0.4), tpot_s=(0.02, 0.03, 0.06),
)  # fmt: skip
TRAFFIC = estimate(rank(used_bytes=3 * GIB, headroom=2.5), demand=DEMAND)
PAGES = {
    "fits": estimate(rank()),
    "two_ranks": estimate(rank(0), rank(1)),
    "does_not_fit": replace(
        estimate(rank(weights=131, headroom=-53), verdict=Verdict.DOES_NOT_FIT), reason="61.74 GiB short"
    ),
    "traffic": replace(
        TRAFFIC,
        kv_cache=replace(TRAFFIC.kv_cache, needed_bytes=DEMAND.kv_needed_bytes, bytes_per_sequence=416 * MIB),
        warnings=("something to know",),
    ),
}


def drawn(found: Estimate, width: int) -> str:
    out = io.StringIO()
    print_estimate(
        found, Console(file=out, width=width, highlight=False, emoji=False, markup=False), assumed=["Assumed."]
    )
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines())


@pytest.mark.parametrize("width", [60, 100, 160])
@pytest.mark.parametrize("name", PAGES)
def test_an_estimate_looks_like_this(name: str, width: int) -> None:
    page = drawn(PAGES[name], width)
    golden = GOLDEN / f"estimate_{name}_{width}.txt"
    if UPDATE:
        golden.write_text(page, encoding="utf-8")
    assert page == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize("width", [40, 60, 100, 160, 250])
def test_nothing_but_what_is_copied_runs_over_the_edge(width: int) -> None:
    for page in PAGES.values():
        for line in drawn(page, width).splitlines():
            assert len(line) <= width or line.startswith(("vllm serve", "warning: "))


@given(st.lists(st.integers(0, 2**50), min_size=1, max_size=12), st.integers(1, 300))
def test_cells_add_up_and_none_is_off_by_one(sizes: list[int], width: int) -> None:
    given_cells = cells(sizes, width)
    whole = sum(sizes)
    assert sum(given_cells) == (width if whole else 0)
    for size, count in zip(sizes, given_cells, strict=True):
        assert whole == 0 or abs(count - size * width / whole) < 1 + 1e-6


def test_equal_ranks_share_a_table_and_unequal_ones_do_not() -> None:
    assert drawn(estimate(rank(0), rank(1)), 100).count("where it comes from") == 1
    assert drawn(estimate(rank(0), rank(1, weights=16)), 100).count("where it comes from") == 2
