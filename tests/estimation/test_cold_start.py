"""From nothing to a first answer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.catalogue.gpus import find_gpu
from cotenant.domain.engine import Version
from cotenant.engines.sleeping import RESTART
from cotenant.engines.starting import Starting, starting
from cotenant.estimation.cold_start import FIRST, KEPT, MEASURED_BYTES, Kept, cold_start
from cotenant.estimation.swapping import swap_seconds

GB = 10**9
VLLM = starting("vllm", Version.parse("0.11"))
L40S, A100 = find_gpu("L40S"), find_gpu("A100-80GB-SXM")


def test_the_terms_that_were_measured_come_back() -> None:
    assert FIRST.total_s == pytest.approx(94 + 33 + 10 + 42 + 54)
    assert KEPT.total_s == pytest.approx(34 + 18 + 10 + 13 + 7)
    for kept, measured in ((Kept.NOTHING, FIRST), (Kept.ALL, KEPT)):
        found = cold_start(
            MEASURED_BYTES, VLLM, kept=kept, gpu=L40S, storage_bandwidth=MEASURED_BYTES / measured.weights_s
        )
        assert found == measured


def test_weights_follow_their_bytes_and_the_slower_of_storage_and_link() -> None:
    first = [cold_start(size * GB, VLLM, kept=Kept.NOTHING, gpu=A100).weights_s for size in (16, 32)]
    assert first == pytest.approx([8.0, 16.0])  # local NVMe, 2 GB/s
    assert cold_start(35 * GB, VLLM, kept=Kept.ALL, gpu=A100).weights_s == pytest.approx(10.0)  # read before
    quick = cold_start(252 * GB, VLLM, kept=Kept.ALL, gpu=A100, storage_bandwidth=1e12)
    assert quick.weights_s == pytest.approx(10.0, rel=0.01)  # PCIe 4.0 x16 at four fifths


def test_each_engine_has_the_terms_that_it_has() -> None:
    def of(engine: str, version: str, **how: bool) -> Starting:
        return starting(engine, Version.parse(version), **how)

    assert of("vllm", "0.11") == Starting(imports=True, compiles=True, captures=True)
    assert of("vllm", "0.6") == Starting(imports=True, compiles=False, captures=True)  # before its V1 engine
    assert of("sglang", "0.5") == Starting(imports=True, compiles=False, captures=True)
    assert of("vllm", "0.11", enforce_eager=True) == Starting(imports=True, compiles=False, captures=False)
    for engine, version in (("llama.cpp", "b9000"), ("ollama", "0.12")):
        assert of(engine, version) == Starting(imports=False, compiles=False, captures=False)


def test_an_eager_engine_neither_compiles_nor_captures_and_a_program_imports_nothing() -> None:
    eager = starting("vllm", Version.parse("0.11"), enforce_eager=True)
    found = cold_start(0, eager, kept=Kept.NOTHING)
    assert (found.compile_s, found.capture_s, found.total_s) == (0.0, 0.0, FIRST.engine_s)
    assert cold_start(0, starting("vllm", Version.parse("0.6")), kept=Kept.NOTHING).capture_s == FIRST.capture_s
    assert cold_start(0, starting("llama.cpp", Version.parse("b9000")), kept=Kept.ALL).total_s < 3


def test_what_others_measured_lies_in_the_interval() -> None:
    """vLLM's blog: 48 s a switch of kept starts of 1.5 and 8 GB; Run:ai: 140 to 208 s of 8B models, nothing kept;
    Aegaeon: 26.9 s of a 13B without graphs."""
    for weights in (2 * GB, 8 * GB):
        low, _, high = cold_start(weights, VLLM, kept=Kept.ALL, gpu=A100).interval_s
        assert low < 48 < high
    low, _, high = cold_start(
        16 * GB, starting("vllm", Version.parse("0.6")), kept=Kept.NOTHING, gpu=L40S
    ).interval_s
    assert low < 140 < 208 < high
    eager = starting("vllm", Version.parse("0.6"), enforce_eager=True)
    low, _, high = cold_start(26 * GB, eager, kept=Kept.ALL, gpu=A100).interval_s
    assert low < 26.9 < high


@given(st.integers(0, 10**12), st.sampled_from(Kept), st.booleans(), st.booleans(), st.booleans())
def test_the_more_is_kept_the_sooner(size: int, kept: Kept, imports: bool, compiles: bool, captures: bool) -> None:
    how = Starting(imports, compiles, captures)
    low, value, high = cold_start(size, how, kept=kept).interval_s
    assert 0 < low < value < high
    assert (
        cold_start(size, how, kept=Kept.ALL).total_s <= value <= cold_start(size, how, kept=Kept.NOTHING).total_s
    )


def test_a_restart_is_a_start_with_everything_kept() -> None:
    assert swap_seconds(16 * GB, A100, starting=VLLM)[RESTART] == (
        0.0, cold_start(16 * GB, VLLM, kept=Kept.ALL, gpu=A100).total_s,
    )  # fmt: skip
