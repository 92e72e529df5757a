"""A pool asked for in bytes: whole numbers say what the terms, the checks and their sentences say."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotenant.api import load_model
from cotenant.catalogue.gpus import find_gpu
from cotenant.catalogue.quantization import find_format
from cotenant.domain.engine import EngineSettings, Version
from cotenant.domain.estimate import Verdict
from cotenant.engines import find_engine
from cotenant.errors import UnsupportedError
from cotenant.estimation.given_bytes import PoolInBytes
from cotenant.estimation.inverse import size_pool
from cotenant.estimation.memory_checks import claimed_bytes, judged, pools_of
from cotenant.estimation.memory_terms import ReplicaMemory, frame_of, opened, replica_memory, terms_of, with_pool
from cotenant.units import GIB

MODELS = {
    "meta-llama/Llama-3.1-8B-Instruct": ("bf16", "fp8"),  # the second is made while loading
    "Qwen/Qwen2.5-72B-Instruct": ("bf16", "w4a16"),
    "google/gemma-3-27b-it": ("bf16",),  # windows
    "Qwen/Qwen3-Next-80B-A3B-Instruct": ("bf16",),  # states
    "deepseek-ai/DeepSeek-V3": ("bf16",),  # a latent cache: lengths matter to activations
}
CARDS = ("L4", "A100-80GB-SXM", "H200-SXM")
VERSIONS = ("0.10.2", "0.24.0", "0.33.0")
Question = tuple[str, str, str, str, int, int, int]


@st.composite
def questions(draw: st.DrawFn) -> Question:
    """(model, format, card, version, ranks, stages, bytes of others)."""
    model = draw(st.sampled_from(sorted(MODELS)))
    return (
        model, draw(st.sampled_from(MODELS[model])), draw(st.sampled_from(CARDS)), draw(st.sampled_from(VERSIONS)),
        draw(st.sampled_from((1, 2, 4))), draw(st.sampled_from((1, 2, 3))), draw(st.sampled_from((0, 5 * GIB))),
    )  # fmt: skip


@given(questions(), st.integers(1, 400), st.integers(1, 32_768), st.integers(0, 60 * GIB))
@settings(max_examples=150, deadline=None)
def test_whole_numbers_say_the_same(question: Question, seqs: int, length: int, kv_bytes: int) -> None:
    model, name, card, version, ranks, stages, used = question
    engine, release = find_engine("vllm")[0], Version.parse(version)
    spec, gpu, form = load_model(model).spec, find_gpu(card), find_format(name)
    asked = EngineSettings(
        tensor_parallel_size=ranks, pipeline_parallel_size=stages, max_num_seqs=seqs, max_model_len=length
    )
    try:
        resolved = engine.resolve(spec, gpu, asked, release)
        frame = frame_of(spec, gpu, resolved, engine=engine, version=release, format=form, used_bytes=used)
    except UnsupportedError:
        return
    terms = terms_of(frame, resolved)
    quick = PoolInBytes.of(frame, resolved, terms)
    if quick is None:
        assert any(group.kind == "recurrent" for group in spec.layer_groups)
        return
    bare = replica_memory(spec, gpu, asked, engine=engine, version=release, format=form, used_bytes=used)
    assert bare == opened(frame, resolved, terms)
    sized = size_pool(bare, kv_bytes, in_bytes=True)
    memory = with_pool(bare, sized.settings, engine=engine, used_bytes=used)
    pools = pools_of(memory)
    found = quick.given(resolved, kv_bytes)
    assert found.settings == sized.settings
    assert found.claimed_bytes == claimed_bytes(memory, pools)
    assert found.fits == (judged(memory, pools, engine, used)[0] is Verdict.FITS)
    assert quick.likely_bytes(resolved, kv_bytes) == sized.claimed_bytes


@pytest.mark.parametrize("model", ["meta-llama/Llama-3.1-8B-Instruct", "deepseek-ai/DeepSeek-V3"])
def test_lengths_matter_where_the_frame_says_so(model: str) -> None:
    def memory(length: int) -> ReplicaMemory:
        asked = EngineSettings(max_num_seqs=4, max_model_len=length, tensor_parallel_size=8)
        return replica_memory(
            load_model(model).spec, find_gpu("H200-SXM"), asked, engine=engine, version=engine.newest,
            format=find_format("fp8"),
        )  # fmt: skip

    engine = find_engine("vllm")[0]
    spec, gpu = load_model(model).spec, find_gpu("H200-SXM")
    resolved = engine.resolve(spec, gpu, EngineSettings(tensor_parallel_size=8), engine.newest)
    frame = frame_of(spec, gpu, resolved, engine=engine, version=engine.newest, format=find_format("fp8"))
    short, long = memory(4096), memory(16_384)
    assert frame.minds_length == (short != replace(long, settings=short.settings))
