"""Many candidates at once are judged exactly as one by one."""

from dataclasses import replace
from time import process_time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotenant.domain.engine import AdapterSlots, EngineSettings
from cotenant.domain.gpu import GpuSpec
from cotenant.domain.interval import Interval
from cotenant.domain.model import ModelSpec
from cotenant.domain.quantization import QuantizationFormat
from cotenant.engines import find_engine
from cotenant.errors import UnsupportedError
from cotenant.estimation.candidate_grid import Replica, candidate_grid
from cotenant.estimation.inverse import settings_for_pool
from cotenant.estimation.memory import estimate_memory
from cotenant.units import GIB

MODELS = ("llama_8b", "llama_70b", "qwen3_32b", "deepseek_v3", "gemma_3_27b", "hybrid")


def one_by_one(replica: Replica, seqs: int, length: int, kv_bytes: int) -> tuple[int, int, int, bool]:
    """Pool, claim, its upper end and whether it fits, by the scalar formulas."""
    common = {
        "engine": replica.engine, "version": replica.version, "format": replica.format,
        "used_bytes": replica.used_bytes,
    }  # fmt: skip
    asked = replace(replica.settings, max_num_seqs=seqs, max_model_len=length)
    sizing = settings_for_pool(replica.model, replica.gpu, asked, kv_bytes=kv_bytes, **common)  # type: ignore[arg-type]
    found = estimate_memory(replica.model, replica.gpu, sizing.settings, **common)  # type: ignore[arg-type]
    return sizing.pool_bytes, sizing.claimed_bytes, sizing.confident_bytes, found.fits


def assert_equal(replica: Replica, seqs: list[int], lengths: list[int], needs: list[int]) -> None:
    grid = candidate_grid(
        replica,
        max_num_seqs=np.array(seqs)[:, None, None],
        max_model_len=np.array(lengths)[:, None],
        kv_bytes=np.array(needs),
    )
    assert grid.fits.shape == (len(seqs), len(lengths), len(needs))
    for i, each in enumerate(seqs):
        for j, length in enumerate(lengths):
            for k, need in enumerate(needs):
                found = (
                    int(grid.pool_bytes[i, j, k]), int(grid.claimed_bytes[i, j, k]),
                    int(grid.confident_bytes[i, j, k]), bool(grid.fits[i, j, k]),
                )  # fmt: skip
                assert found == one_by_one(replica, each, length, need), (each, length, need)


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(MODELS),
    st.sampled_from(["0.10.2", "0.11.0", "0.20.0", "0.24.0", "0.33.0"]),
    st.sampled_from([1, 2]),
    st.sampled_from([1, 2]),
    st.lists(st.integers(1, 1500), min_size=1, max_size=4),
    st.lists(st.integers(1, 131072), min_size=1, max_size=5),
    st.lists(st.integers(0, 90 * GIB), min_size=1, max_size=3),
    st.integers(0, 30 * GIB),
    st.booleans(),
)
def test_every_value_is_that_of_the_scalar_formulas(
    request_fixture: pytest.FixtureRequest,
    name: str,
    version: str,
    tensor: int,
    pipeline: int,
    seqs: list[int],
    lengths: list[int],
    needs: list[int],
    used: int,
    doubtful: bool,
) -> None:
    model: ModelSpec = request_fixture.getfixturevalue(name)
    gpu: GpuSpec = request_fixture.getfixturevalue("h100")
    if doubtful:
        gpu = replace(gpu, cuda_bytes=Interval(78 * GIB, 79 * GIB, 80 * GIB))
    engine, release = find_engine(f"vllm@{version}")
    slots = AdapterSlots(2, 16) if used % 2 else None
    asked = EngineSettings(tensor_parallel_size=tensor, pipeline_parallel_size=pipeline, adapters=slots)
    replica = Replica(model, gpu, asked, engine, release, request_fixture.getfixturevalue("fp8"), used)
    assert_equal(replica, seqs, [min(length, model.max_model_len) for length in lengths], needs)


@pytest.fixture(scope="module")
def request_fixture(request: pytest.FixtureRequest) -> pytest.FixtureRequest:
    return request


def test_both_answers_occur(llama_8b: ModelSpec, l4: GpuSpec, bf16: QuantizationFormat) -> None:
    engine, version = find_engine("vllm")
    replica = Replica(llama_8b, l4, EngineSettings(), engine, version, bf16)
    grid = candidate_grid(replica, max_num_seqs=[1, 64], max_model_len=4096, kv_bytes=[GIB, 30 * GIB])
    assert grid.fits.tolist() == [True, False]
    assert_equal(replica, [1, 8, 64], [16, 4096, 131072], [0, GIB, 3 * GIB, 4 * GIB])


def test_versions_without_a_pool_in_bytes_are_refused(
    llama_8b: ModelSpec, l4: GpuSpec, bf16: QuantizationFormat
) -> None:
    engine, version = find_engine("vllm@0.9.0")
    with pytest.raises(UnsupportedError, match="does not take the pool of Llama"):
        candidate_grid(
            Replica(llama_8b, l4, EngineSettings(), engine, version, bf16),
            max_num_seqs=1, max_model_len=4096, kv_bytes=GIB,
        )  # fmt: skip


def test_a_candidate_takes_microseconds(llama_8b: ModelSpec, a100: GpuSpec, bf16: QuantizationFormat) -> None:
    engine, version = find_engine("vllm")
    replica = Replica(llama_8b, a100, EngineSettings(), engine, version, bf16)
    start = process_time()
    grid = candidate_grid(
        replica,
        max_num_seqs=np.arange(1, 65)[:, None, None],
        max_model_len=np.arange(1024, 65537, 1024)[:, None],
        kv_bytes=np.arange(1, 9) * GIB,
    )
    each = (process_time() - start) / grid.fits.size
    assert each < 20e-6, f"{each * 1e6:.1f} us"
