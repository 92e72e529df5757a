"""Records of llama.cpp and Ollama through the benchmark: published figures, and what counts as what."""

import pytest

from bench.accuracy_llama import answer_llama, llama_compute, llama_kv


def record(**given) -> dict:
    """SmolLM2-135M as llama.cpp b10229 printed it on a processor, unless said otherwise."""
    usual = {
        "id": "one", "engine": "llama.cpp", "version": "b10229", "arch": "llama",
        "model": {"name": "SmolLM2-135M-Instruct", "quant": "Q4_1"}, "n_layer": 30, "n_layer_kv_full": 30,
        "n_head": 9, "n_head_kv": 3, "head_dim_k": 64, "head_dim_v": 64, "n_embd": 576, "n_vocab": 49152,
        "n_ctx": 8192, "n_parallel": 1, "kv_unified": False, "n_ubatch": 512, "flash_attn": "auto",
        "type_k": "f16", "type_v": "f16", "backend": "CPU",
        "measured": {"kv_total_mib": 180.0, "compute_buffer_mib": {"CPU": 21.51}},
    }  # fmt: skip
    return {**usual, **given}


# xllamacpp's wheels of each build, run with SmolLM2-135M: n_ctx 8192, n_ubatch 512.
@pytest.mark.parametrize(
    ("version", "slots", "flash", "printed"),
    [
        ("b10229", 1, "auto", 21.51),
        ("b10229", 4, "auto", 15.51),
        ("b10229", 1, "off", 166.38),
        ("b9538", 1, "auto", 21.51),
        ("b9294", 1, "auto", 98.25),
        ("b9294", 4, "auto", 99.38),
        ("b7827", 4, "auto", 99.38),
        ("b7827", 1, "off", 166.38),
        ("b7079", 4, "auto", 98.25),
        ("b7079", 1, "off", 165.26),
        ("b11549", 1, "auto", 22.64),
        ("b11549", 4, "auto", 16.64),
        ("b11549", 1, "off", 167.51),
    ],
)
def test_compute_buffer_by_build_is_what_the_engine_printed(version, slots, flash, printed):
    measured = {"kv_total_mib": 180.0, "compute_buffer_mib": {"CPU": printed}}
    found = answer_llama(record(version=version, n_parallel=slots, flash_attn=flash, measured=measured))
    error = llama_compute(found)
    assert error is not None
    assert error.share == pytest.approx(0, abs=0.0005)
    assert error.covered
    cache = llama_kv(found)
    assert cache is not None
    assert cache.share == 0


def test_measured_figures_are_no_inputs():
    other = record(measured={"kv_total_mib": 1.0, "compute_buffer_mib": {"CPU": 1.0}})
    assert answer_llama(other).compute == answer_llama(record()).compute
    assert answer_llama(other).cache == answer_llama(record()).cache


def test_a_record_without_shape_is_refused_and_not_eligible():
    found = answer_llama(record(n_layer=None))
    assert found.refusal == "the record tells no shape"
    assert llama_kv(found) is None
    assert llama_compute(found) is None


def test_a_refusal_of_an_eligible_record_counts_as_wrong():
    found = answer_llama(record(type_k="q9_9"))
    assert found.refusal
    assert llama_kv(found).share is None


def test_only_the_part_that_was_printed_is_compared():
    row = record(
        arch="gpt-oss", model={"name": "gpt-oss-20b", "quant": None}, n_layer=24, n_layer_kv_full=12,
        n_layer_kv_swa=12, n_swa=128, n_head=64, n_head_kv=8, n_embd=2880, n_vocab=201088, n_ctx=131072,
        measured={"kv_total_mib": 3072.0, "kv_caches": [{"layers": 12, "mib": 3072.0}]},
    )  # fmt: skip
    assert llama_kv(answer_llama(row)).share == 0


def test_a_build_that_is_not_named_is_answered_over_all_that_may_have_run():
    """States kept for rolling drafts back came in May 2026; what is reserved fell twice within the next weeks."""
    told = {"n_rs_seq": 2, "n_ctx": 65536}
    named = [answer_llama(record(version=build, **told)).compute[-1] for build in ("b9300", "b9400", "b9460")]
    open_ = answer_llama(record(version=None, **told)).compute[-1]
    assert named[0].value > named[1].value > named[2].value
    assert open_.value == named[1].value
    assert (open_.low, open_.high) == (min(n.low for n in named), max(n.high for n in named))


def test_another_programs_graph_is_known_only_roughly():
    plain = answer_llama(record(engine="llama.cpp", version="b6000")).compute[-1]
    other = answer_llama(record(engine="ik_llama.cpp", version="b6000")).compute[-1]
    assert (other.high - other.low) / other.value > 4 * (plain.high - plain.low) / plain.value


def test_programs_that_are_no_server_have_rows_of_output_without_a_cap():
    server, library = (answer_llama(record(version=said)).compute for said in ("b10229", "b10229 (python)"))
    assert server is not None
    assert library is not None
    assert library[-1].value - server[-1].value > 49152 * 4 * 300


def test_a_note_tells_of_experts_on_the_host():
    shape = {
        "arch": "qwen3moe", "model": {"name": "Qwen3-30B-A3B", "quant": None}, "n_layer": 48,
        "n_layer_kv_full": 48, "n_head": 32, "n_head_kv": 4, "head_dim_k": 128, "head_dim_v": 128, "n_embd": 2048,
        "n_vocab": 151936,
        "n_ctx": 16384, "flash_attn": "0", "backend": "CUDA", "gpu": {"name": "2 GPUs", "memory_mib": 24576},
        "measured": {"kv_total_mib": 1536.0, "compute_buffer_mib": {"CUDA0": 1080.0, "CUDA1": 1080.0}},
    }  # fmt: skip
    error = llama_compute(answer_llama(record(version="b5700", note="all experts on CPU", **shape)))
    assert error is not None
    assert error.share == pytest.approx(0, abs=0.0005)
    piped = llama_compute(answer_llama(record(version="b5700", **shape)))
    assert piped is not None
    assert piped.share is not None
    assert piped.share > 0.05


def test_lines_of_old_builds_tell_their_time():
    raw = ["llama_kv_cache_init: ROCm0 KV buffer size = 650.00 MiB", "ROCm_Host input buffer size = 11.27 MiB"]
    shape = {
        "engine": "ollama", "version": "0.1.30", "model": {"name": "orca-mini", "quant": None}, "n_layer": 26,
        "n_layer_kv_full": 26, "n_head": 32, "n_head_kv": 32, "head_dim_k": 100, "head_dim_v": 100, "n_embd": 3200,
        "n_vocab": 32000, "n_ctx": 2048, "flash_attn": "0", "backend": "ROCm", "raw": raw,
        "measured": {"kv_total_mib": 650.0, "compute_buffer_mib": {"ROCm0": 157.0}},
    }  # fmt: skip
    error = llama_compute(answer_llama(record(**shape)))
    assert error is not None
    assert error.share == pytest.approx(0, abs=0.0005)
