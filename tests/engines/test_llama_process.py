"""What a server's process holds on a processor, against what two kinds of program were measured to hold."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.domain.llama_cpp import LlamaCppOptions
from cotenant.domain.model import AttentionKind, LayerGroup, ModelSpec, ParameterGroup, Role
from cotenant.engines.llama_cpp.process import graph_bytes, max_nodes, process_bytes
from cotenant.units import MIB

OPTIONS = LlamaCppOptions(n_ctx=2048, n_parallel=1, n_ubatch=64, n_gpu_layers=0)


def model(vocabulary: int, *, merges: int | None, tensors: int = 47, family: str = "qwen3") -> ModelSpec:
    return ModelSpec(
        name="m",
        architecture=family,
        family=family,
        layer_groups=(LayerGroup(AttentionKind.FULL, tuple(range(4))),),
        parameters=(ParameterGroup("w", Role.MLP, (8, 8), layers=tuple(range(tensors))),),
        num_layers=4,
        hidden_size=8,
        intermediate_size=8,
        vocab_size=vocabulary,
        max_model_len=2048,
        merges=merges,
    )


# Resident less the buffers that it printed, MiB: build 11434 compiled where it ran, and the wheel of build 11549,
# one slot, a prompt of two micro-batches.
MEASURED = [
    (model(4096, merges=1), 17.6, 35.5),
    (model(4096, merges=1, tensors=60, family="qwen35"), 19.9, 37.7),
    (model(49_152, merges=48_900, tensors=272, family="llama"), 32.8, 57.4),
    (model(262_144, merges=0, tensors=236, family="gemma3"), 60.3, 88.4),
]


@pytest.mark.parametrize(("spec", "native", "wheel"), MEASURED)
def test_measured_processes_lie_near_and_inside(spec: ModelSpec, native: float, wheel: float) -> None:
    for program, measured in (("native", native), ("wheel", wheel)):
        found = process_bytes(spec, replace(OPTIONS, program=program))
        assert found.low < measured * MIB < found.high
        assert abs(found.value - measured * MIB) < 2.5 * MIB
        unsaid = process_bytes(spec, OPTIONS)
        assert unsaid.low < measured * MIB < unsaid.high
        assert unsaid.value == process_bytes(spec, replace(OPTIONS, program="native")).value


def test_a_graph_has_the_bytes_that_the_engine_allocates() -> None:
    # blocks counted in build 11434: 0.892 MiB for SmolLM2 (272 tensors), 0.399 for the smallest graph
    assert graph_bytes(8 * 272) / MIB == pytest.approx(0.892, abs=0.001)
    assert graph_bytes(1024) / MIB == pytest.approx(0.399, abs=0.001)
    assert max_nodes(model(4096, merges=1), OPTIONS) == 1024
    assert max_nodes(model(4096, merges=1, family="qwen35"), OPTIONS) == 40 * 64


def test_each_slot_that_samples_keeps_candidates() -> None:
    spec = model(262_144, merges=0)
    one, four = (process_bytes(spec, replace(OPTIONS, n_parallel=slots, program="native")) for slots in (1, 4))
    assert four.value - one.value == 3 * 12 * 262_144


def test_untold_merges_widen() -> None:
    told, untold = (process_bytes(model(128_256, merges=merges), OPTIONS) for merges in (280_147, None))
    assert untold.low < told.value < untold.high
    assert untold.high - untold.low > told.high - told.low


@given(vocabulary=st.integers(0, 400_000), merges=st.none() | st.integers(0, 600_000), slots=st.integers(1, 64))
def test_more_entries_never_cost_less(vocabulary: int, merges: int | None, slots: int) -> None:
    options = replace(OPTIONS, n_parallel=slots, program="wheel")
    small = process_bytes(model(vocabulary, merges=merges), options)
    large = process_bytes(model(vocabulary + 1, merges=merges), options)
    if merges is not None or vocabulary != 32_999:
        assert small.value <= large.value
    assert 0 < small.low <= small.value <= small.high
