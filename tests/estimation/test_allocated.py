"""Engines that allocate what they are told to: footprint, budget, host memory, verdicts."""

import pytest

from cotenant import estimate
from cotenant.domain.estimate import Verdict
from cotenant.errors import CotenantError, InputError
from cotenant.units import GIB, MIB

QWEN = "Qwen/Qwen3-8B"


def llama(**given):
    usual = {"gpu": "RTX-4090", "engine": "llama.cpp@b10229", "quantization": "gguf-q4_k_m"}
    return estimate(given.pop("model", QWEN), **{**usual, **given})


def test_terms_add_up_and_the_budget_is_what_others_leave():
    found = llama(options={"c": 32768, "np": 4, "ngl": 99}, used="2GiB")
    rank = found.per_gpu[0]
    assert rank.kv_cache.bytes.value == 36 * 2 * 8 * 128 * 2 * 32768
    assert rank.budget.value == rank.capacity.value - 2 * GIB
    assert rank.headroom.value == rank.budget.value - rank.footprint_bytes
    assert rank.claimed_bytes == rank.footprint_bytes < rank.budget.value
    assert found.verdict is Verdict.FITS
    assert found.host.weights > 0  # the embedding's rows


def test_a_partial_offload_leaves_layers_and_their_cache_with_the_host():
    whole, some = (llama(options={"c": 8192, "np": 1, "ngl": n}) for n in (99, 20))
    cache = whole.per_gpu[0].kv_cache.bytes.value
    assert some.per_gpu[0].kv_cache.bytes.value == cache * 19 // 36
    assert some.host.kv_cache == cache - some.per_gpu[0].kv_cache.bytes.value
    moved = whole.per_gpu[0].weights.bytes.value - some.per_gpu[0].weights.bytes.value
    assert some.host.weights == pytest.approx(whole.host.weights + moved, rel=1e-6)
    assert any("host memory" in warning for warning in some.warnings)


def test_nothing_on_the_gpu_needs_only_its_context_there():
    found = llama(options={"c": 4096, "np": 1, "ngl": 0})
    assert found.per_gpu[0].weights.bytes.value == 0
    assert found.per_gpu[0].kv_cache.bytes.value == 0
    assert found.host.weights > 4 * GIB


def test_a_tied_output_layer_lies_on_both():
    found = llama(model="Qwen/Qwen3-4B", options={"c": 4096, "np": 1, "ngl": 99})
    total = found.per_gpu[0].weights.bytes.value + found.host.weights
    untied = llama(model="Qwen/Qwen3-4B", options={"c": 4096, "np": 1, "ngl": 0})
    assert total == pytest.approx(untied.host.weights + found.host.weights, rel=1e-6)


def test_layers_are_dealt_over_gpus():
    found = llama(options={"c": 8192, "np": 1, "tensor_split": "1,1"})
    assert len(found.per_gpu) == 2
    caches = [rank.kv_cache.bytes.value for rank in found.per_gpu]
    assert sum(caches) == 36 * 2 * 8 * 128 * 2 * 8192
    assert "inputs 4 times" in found.per_gpu[0].activations.why


def test_too_long_a_context_does_not_fit_and_says_by_how_much():
    found = llama(options={"c": 400_000, "np": 10})
    assert found.verdict is Verdict.DOES_NOT_FIT
    assert "short" in found.reason
    assert "-ngl" in found.reason


def test_traffic_sizes_slots_and_context():
    found = llama(concurrent=4, context_tokens={"p50": 2000, "p95": 6000})
    assert found.settings.max_num_seqs == 4
    assert found.settings.llama_cpp.n_ctx == 4 * found.settings.max_model_len
    assert found.kv_cache.needed_bytes < found.per_gpu[0].kv_cache.bytes.value


def test_ollama_keeps_whole_windows_in_llama_cpp_and_windows_elsewhere():
    """Gemma 2 (windows of 4,096 in 21 of 42 layers) ran in llama.cpp's runner, Gemma 3 in Ollama's own engine
    since 0.6 (fs/ggml/ggml.go, OllamaEngineRequired), and both in llama-server since 0.30."""
    here = llama(model="google/gemma-2-9b-it", options={"c": 8192, "np": 1, "ub": 512})
    there = llama(model="google/gemma-2-9b-it", engine="ollama@0.10.1", options={"num_ctx": 8192})
    each = 2 * 8 * 256 * 2  # keys and values of a layer's token
    assert there.per_gpu[0].kv_cache.bytes.value == 42 * 8192 * each
    assert here.per_gpu[0].kv_cache.bytes.value == 21 * (8192 + 4608) * each
    assert there.per_gpu[0].activations.bytes.value > 512 * 256000 * 4
    server = llama(model="google/gemma-2-9b-it", engine="ollama@0.32", options={"num_ctx": 8192, "num_batch": 512})
    assert server.per_gpu[0].kv_cache.bytes == here.per_gpu[0].kv_cache.bytes
    plain = llama(model="google/gemma-3-12b-it", options={"c": 16384, "np": 1})
    own = llama(model="google/gemma-3-12b-it", engine="ollama@0.12", options={"num_ctx": 16384})
    assert own.per_gpu[0].kv_cache.bytes == plain.per_gpu[0].kv_cache.bytes


def test_a_plain_checkpoint_is_served_in_sixteen_bits():
    found = estimate(QWEN, gpu="A100-80GB-SXM", engine="llama.cpp", options={"c": 4096})
    total = found.per_gpu[0].weights.bytes.value + found.host.weights
    assert total == pytest.approx(8.19e9 * 2, rel=0.005)


def test_options_of_another_engine_are_refused():
    with pytest.raises(InputError, match="not options of vLLM"):
        estimate(QWEN, gpu="RTX-4090", options={"c": 4096})


# Model buffers that llama.cpp printed for Q4_K_M files: on the GPU, and what stays with the host (MiB).
@pytest.mark.parametrize(
    ("model", "on_gpu", "on_host"),
    [
        ("Qwen/Qwen3-32B", 18423.65, 417.66),
        ("Qwen/Qwen2.5-7B-Instruct", 4168.09, 292.36),
        ("Qwen/Qwen3-1.7B", 1050.43, None),
        ("meta-llama/Llama-3.2-3B-Instruct", 1918.35, None),
    ],
)
def test_model_buffers_are_near_what_was_printed(model, on_gpu, on_host):
    found = llama(model=model, gpu="A100-80GB-SXM", options={"c": 4096, "np": 1})
    assert found.per_gpu[0].weights.bytes.value / MIB == pytest.approx(on_gpu, rel=0.005)
    if on_host is not None:
        assert found.host.weights / MIB == pytest.approx(on_host, rel=0.005)


def test_a_projector_and_a_draft_lie_on_the_first_gpu_with_what_is_known_of_them():
    """A log prints 248 MiB for a projector's graph; a draft told by its size alone says nothing of its cache."""
    plain = llama(options={"c": 8192, "np": 1})
    both = llama(options={"c": 8192, "np": 1, "mmproj_size": "1GiB", "model_draft_size": "600MiB"})
    here, there = plain.per_gpu[0], both.per_gpu[0]
    assert there.weights.bytes.value - here.weights.bytes.value == pytest.approx(1624 * 2**20, rel=0.001)
    extra = there.runtime.bytes.value - here.runtime.bytes.value
    assert 60 * 2**20 <= extra <= 400 * 2**20
    assert here.runtime.bytes.high + 600 * 2**20 < there.runtime.bytes.high
    assert any("its own cache and graph are not" in one for one in both.warnings)
    split = llama(options={"c": 8192, "np": 1, "mmproj_size": "1GiB", "tensor_split": "1,1"})
    assert split.per_gpu[1].runtime.bytes == here.runtime.bytes


DRAFT = "Qwen/Qwen3-0.6B"


def test_a_draft_is_a_second_model_in_the_same_process():
    """Builds of May 2026 and later draft for all slots in one context as large as the target's."""
    own = {"c": 8192, "np": 4}
    plain, alone = llama(options=own), llama(model=DRAFT, options=own)
    both = llama(options={**own, "md": DRAFT})
    for term in ("weights", "kv_cache"):
        sizes = [getattr(found.per_gpu[0], term).bytes.value for found in (plain, alone, both)]
        assert sizes[2] == sizes[0] + sizes[1], term
    assert both.per_gpu[0].runtime.bytes == plain.per_gpu[0].runtime.bytes
    assert both.per_gpu[0].activations.bytes.value >= sum(
        found.per_gpu[0].activations.bytes.value for found in (plain, alone)
    )
    assert {"--spec-type", DRAFT} <= set(both.arguments)


def test_before_may_2026_every_slot_has_a_context_of_the_draft():
    slots = llama(options={"c": 8192, "np": 4, "md": DRAFT}, engine="llama.cpp@b8000")
    one = llama(model=DRAFT, options={"c": 2048, "np": 1}, engine="llama.cpp@b8000")
    plain = llama(options={"c": 8192, "np": 4}, engine="llama.cpp@b8000")
    for term in ("kv_cache", "activations"):
        sizes = [getattr(found.per_gpu[0], term).bytes.value for found in (plain, one, slots)]
        assert sizes[2] == sizes[0] + 4 * sizes[1], term
    shorter = llama(options={"c": 8192, "np": 4, "md": DRAFT, "cd": 512}, engine="llama.cpp@b8000")
    assert shorter.per_gpu[0].kv_cache.bytes.value < slots.per_gpu[0].kv_cache.bytes.value


def test_what_a_draft_is_told():
    own = {"c": 8192, "np": 1, "md": DRAFT}
    f16, q8 = llama(options=own), llama(options={**own, "ctkd": "q8_0", "ctvd": "q8_0"})
    base = llama(options={"c": 8192, "np": 1}).per_gpu[0].kv_cache.bytes.value
    assert (q8.per_gpu[0].kv_cache.bytes.value - base) * 32 == (f16.per_gpu[0].kv_cache.bytes.value - base) * 17
    host = llama(options={**own, "ngld": 0})
    assert host.per_gpu[0].kv_cache.bytes.value == base
    assert host.host.weights > f16.host.weights
    few, many = (llama(options={**own, "np": 8, "draft_max": tokens}) for tokens in (1, 60))
    assert few.per_gpu[0].activations.bytes.value < many.per_gpu[0].activations.bytes.value  # rows to verify
    with pytest.raises(CotenantError, match="no layer for multi-token prediction"):
        llama(options={"c": 8192, "spec_type": "draft-mtp"})
    with pytest.raises(CotenantError, match="no rule here for --spec-type draft-dspark"):
        llama(options={**own, "spec_type": "draft-dspark"})
    with pytest.raises(CotenantError):
        llama(options={**own}, engine="llama.cpp@b4000")


def test_prediction_layers_cache_beside_the_model_and_states_are_kept_to_roll_back():
    """A log of a 27B of Qwen's with 262,144 cells printed 1,024 MiB for its one prediction layer (f16)."""
    own = {"c": 262144, "np": 1}
    given = {"model": "Qwen/Qwen3.6-27B", "gpu": "A100-80GB-SXM", "quantization": "Q8_0"}
    plain, ahead = (
        llama(options=own, **given),
        llama(options={**own, "spec_type": "draft-mtp", "spec_draft_n_max": 6}, **given),
    )
    states = plain.per_gpu[0].kv_cache.bytes.value - 16 * 1024 * MIB
    assert ahead.per_gpu[0].kv_cache.bytes.value == (16 + 1) * 1024 * MIB + 7 * states
    assert ahead.per_gpu[0].weights.bytes.value > plain.per_gpu[0].weights.bytes.value + 400 * MIB
    assert ahead.arguments[-6:-2] == ("--spec-type", "draft-mtp", "--spec-draft-n-max", "6")
    with pytest.raises(CotenantError, match="b9180"):
        llama(options={**own, "spec_type": "draft-mtp"}, engine="llama.cpp@b9000", **given)
