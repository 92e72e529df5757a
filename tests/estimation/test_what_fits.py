"""What is offered where an estimate does not fit: the largest that does, and nothing larger."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant import estimate
from cotenant.domain.estimate import Verdict
from cotenant.estimation.what_fits import most_that

LLAMA = "meta-llama/Llama-3.1-8B-Instruct"


@given(st.integers(0, 5000), st.integers(0, 5000))
def test_the_largest_that_holds(limit: int, most: int) -> None:
    asked: list[int] = []

    def holds(count: int) -> bool:
        asked.append(count)
        return count <= limit

    assert most_that(holds, most) == min(limit, most)
    assert len(asked) <= most.bit_length()
    assert all(1 <= count <= most for count in asked)


@pytest.mark.parametrize(
    ("option", "asked", "engine"),
    [
        ("max_model_len", {"max_model_len": 131072, "max_num_seqs": 8}, "vllm"),
        ("max_num_seqs", {"max_model_len": 16384, "max_num_seqs": 1500}, "vllm@0.12"),
        ("concurrent", {"concurrent": 40, "context_tokens": {"p50": 3000, "p95": 8000, "max": 16384}}, "vllm"),
    ],
)
def test_the_largest_that_fits_is_named(option: str, asked: dict[str, Any], engine: str) -> None:
    found = estimate(LLAMA, gpu="L4", engine=engine, **asked)
    assert found.verdict is not Verdict.FITS
    match = re.search(rf"; fits with {option} ([0-9,]+)$", found.reason)
    assert match, found.reason
    most = int(match[1].replace(",", ""))
    assert estimate(LLAMA, gpu="L4", engine=engine, **{**asked, option: most}).fits
    step = 16 if option == "max_model_len" else 1
    assert not estimate(LLAMA, gpu="L4", engine=engine, **{**asked, option: most + step}).fits


def test_nothing_is_offered_where_the_weights_alone_are_too_large() -> None:
    found = estimate("meta-llama/Llama-3.1-70B-Instruct", gpu="L4", max_model_len=4096)
    assert not found.fits
    assert "fits with" not in found.reason
