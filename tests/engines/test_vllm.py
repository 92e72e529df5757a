from dataclasses import replace

import pytest

from cotenant.catalogue.gpus import find_gpu
from cotenant.domain.engine import AdapterSlots, EngineSettings, Version
from cotenant.domain.gpu import GpuSpec
from cotenant.domain.interval import Interval
from cotenant.domain.model import ModelSpec
from cotenant.domain.workload import Adapter
from cotenant.engines import engine_names, find_engine
from cotenant.engines.rules import ExpertPadding, Printed
from cotenant.engines.vllm import VLLM
from cotenant.errors import UnknownEngineError, UnsupportedError
from cotenant.estimation.kv_cache import cache_layout
from cotenant.estimation.runtime import runtime
from cotenant.readers.model_config import read_model_config
from cotenant.units import GIB
from tests.estimation.conftest import LLAMA_8B, card


@pytest.fixture(scope="module")
def model() -> ModelSpec:
    return read_model_config(LLAMA_8B, name="Llama-3.1-8B", source="test")


A100 = card("A100-80GB-SXM", 79.25, 80.0, (8, 0))
H100 = card("H100-80GB-SXM", 79.19, 79.65, (9, 0))
B200 = card("B200", 178.0, 179.0, (10, 0))
GB10 = card("GB10", 119.6, 121.7, (12, 1))
T4 = card("T4", 14.58, 15.0, (7, 5))


def resolved(model: ModelSpec, gpu: GpuSpec, version: str, **options) -> EngineSettings:
    return VLLM.resolve(model, gpu, EngineSettings(**options), Version.parse(version))


def test_find_engine_knows_names_versions_and_aliases():
    engine, version = find_engine("vLLM@0.21")
    assert engine is VLLM
    assert version == Version.parse("0.21.0")
    assert find_engine("vllm")[1] == VLLM.newest
    assert find_engine("vllm-openai")[0] is VLLM
    assert "vllm" in engine_names()


@pytest.mark.parametrize(
    ("text", "error", "said"),
    [
        ("vlm", UnknownEngineError, "did you mean vllm"),
        ("", UnknownEngineError, "engines: vllm"),
        ("x" * 1000, UnknownEngineError, "engines: vllm"),
        ("vllm@", UnknownEngineError, "vllm@0"),
        ("vllm@latest", UnknownEngineError, "vllm@0"),
        ("vllm@0.2.7", UnknownEngineError, "cover 0.3.0"),
        ("sglan", UnknownEngineError, "did you mean sglang"),
        ("tgi@0.8", UnknownEngineError, "cover 0.9.0"),
    ],
)
def test_unknown_engines_and_versions_are_refused(text, error, said):
    with pytest.raises(error) as caught:
        find_engine(text)
    assert said in caught.value.hint
    assert len(caught.value.message) < 200


@pytest.mark.parametrize(
    ("gpu", "version", "tokens", "seqs"),
    [
        (A100, "0.17.1", 2048, 256),
        (H100, "0.17.1", 8192, 1024),
        (A100, "0.8.5", 8192, 1024),  # A100 was told apart in 0.9
        (T4, "0.21.0", 2048, 256),
        (B200, "0.27.0", 8192, 1024),
        (B200, "0.28.0", 16384, 1024),
        (A100, "0.7.3", 8192, 256),  # V0 batches whole prompts: max_model_len
    ],
)
def test_batch_defaults_by_card_and_version(model, gpu, version, tokens, seqs):
    found = resolved(model, gpu, version, max_model_len=8192)
    assert (found.max_num_batched_tokens, found.max_num_seqs) == (tokens, seqs)


def test_v0_chunked_long_contexts_by_itself(model):
    assert resolved(model, A100, "0.7.3", max_model_len=40000).max_num_batched_tokens == 2048
    assert resolved(model, A100, "0.6.3", max_model_len=40000).max_num_batched_tokens == 512
    assert resolved(model, A100, "0.3.3", max_model_len=40000).max_num_batched_tokens == 40000


def test_utilization_defaults(model):
    assert resolved(model, A100, "0.19.0").gpu_memory_utilization == 0.9
    assert resolved(model, A100, "0.20.0").gpu_memory_utilization == 0.92
    assert resolved(model, A100, "0.28.0").max_model_len == 131072


def test_few_sequences_bound_the_batch(model):
    assert resolved(model, H100, "0.17.1", max_model_len=512, max_num_seqs=1).max_num_batched_tokens == 512


@pytest.mark.parametrize(
    "options",
    [
        {"tensor_parallel_size": 3},
        {"tensor_parallel_size": 7},
        {"pipeline_parallel_size": 33},
        {"max_model_len": 131073},
        {"gpu_memory_utilization": 1.5},
        {"gpu_memory_utilization": -0.1},
    ],
)
def test_what_vllm_refuses(model, options):
    with pytest.raises(UnsupportedError):
        resolved(model, A100, "0.17.1", **options)


def test_kv_bytes_came_with_0_10_2(model):
    assert resolved(model, A100, "0.10.2", kv_cache_memory_bytes=GIB).kv_cache_memory_bytes == GIB
    with pytest.raises(UnsupportedError, match=r"0\.10\.2"):
        resolved(model, A100, "0.10.1", kv_cache_memory_bytes=GIB)


def test_budget_is_a_share_of_cudas_total_rounded_up():
    settings = EngineSettings(gpu_memory_utilization=0.9)
    assert VLLM.budget(Interval.exact(1001), settings).value == 901


def test_rules_are_the_same_object_for_the_same_release():
    assert VLLM.rules(Version.parse("0.21")) is VLLM.rules(Version.parse("v0.21.0.post1"))
    assert VLLM.rules(Version.parse("0.20.2")).cache.printed is Printed.BLOCKS
    assert VLLM.rules(Version.parse("0.21.0")).cache.printed is Printed.CONCURRENCY
    assert VLLM.rules(Version.parse("9.9")).notes


def test_the_second_runner_came_by_and_by(model):
    """Llama-like models from 0.23; its dummy run draws without copies, and 0.27 charges what it keeps."""
    versions = ["0.21.0", "0.22.0", "0.23.0", "0.25.1", "0.27.0", "0.30.0"]
    found = [VLLM.profile(model, Version.parse(version)) for version in versions]
    assert [profile.logit_bytes for profile in found] == [14.0, 14.0, 2.5, 2.5, 2.5, 2.5]
    assert [profile.resident_logit_bytes for profile in found] == [0, 0, 0, 0, 4.125, 4.125]
    moe = replace(model, num_experts=64, architecture="Qwen3MoeForCausalLM")
    assert VLLM.profile(moe, Version.parse("0.28")).logit_bytes == 14.0
    assert VLLM.profile(moe, Version.parse("0.29")).logit_bytes == 2.5


def test_samplers_by_version():
    bytes_each = {
        v: VLLM.rules(Version.parse(v)).profile.logit_bytes
        for v in ("0.8.5", "0.11.0", "0.11.2", "0.12.0", "0.16.0", "0.17.0")
    }
    assert bytes_each == {
        "0.8.5": 38.0,
        "0.11.0": 38.0,
        "0.11.2": 38.0,
        "0.12.0": 38.0,
        "0.16.0": 38.0,
        "0.17.0": 14.0,
    }


def test_cards_before_ampere_stayed_on_v0(model):
    old, older = VLLM.rules(Version.parse("0.9.2"), T4), VLLM.rules(Version.parse("0.7.4"))
    assert replace(old, held=()) == older
    assert VLLM.rules(Version.parse("0.21"), T4) is VLLM.rules(Version.parse("0.21"))


def test_mxfp4_experts_are_padded_by_card():
    assert VLLM.expert_padding("mxfp4", A100) == ExpertPadding(inner=128, hidden=256)
    assert VLLM.expert_padding("mxfp4", H100) == ExpertPadding(inputs=256)
    assert VLLM.expert_padding("mxfp4", B200) == ExpertPadding(inner=256, hidden=256)
    assert VLLM.expert_padding("fp8", H100) is None


def test_lora_ranks_are_those_that_vllm_takes(model):
    found = resolved(model, A100, "0.21", adapters=AdapterSlots(2, 20))
    assert found.adapters == AdapterSlots(2, 32)
    with pytest.raises(UnsupportedError, match="512"):
        resolved(model, A100, "0.21", adapters=AdapterSlots(1, 1024))


def test_arguments_run_as_they_stand():
    settings = EngineSettings(
        tensor_parallel_size=2, max_model_len=8192, max_num_seqs=16, gpu_memory_utilization=0.45,
        kv_cache_dtype="fp8", adapters=AdapterSlots(1, 16), enforce_eager=True,
    )  # fmt: skip
    argv = VLLM.arguments(
        settings, version=Version.parse("0.21"), model_path="org/model", port=8001, served_name="chat",
        adapters=(Adapter("legal", 16, "org/legal-lora"),),
    )  # fmt: skip
    assert argv == (
        "vllm", "serve", "org/model", "--served-model-name", "chat", "--port", "8001",
        "--tensor-parallel-size", "2", "--kv-cache-dtype", "fp8", "--max-model-len", "8192",
        "--max-num-seqs", "16", "--gpu-memory-utilization", "0.45", "--enforce-eager",
        "--enable-lora", "--max-loras", "1", "--max-lora-rank", "16", "--lora-modules", "legal=org/legal-lora",
    )  # fmt: skip


def test_before_0_5_4_the_module_is_started():
    argv = VLLM.arguments(EngineSettings(), version=Version.parse("0.3.3"), model_path="m")
    assert argv == ("python", "-m", "vllm.entrypoints.openai.api_server", "--model", "m")


@pytest.mark.parametrize("version", ["0.12.0", "0.25.1", "0.33.0"])
def test_a_card_whose_memory_nvml_does_not_tell_counts_as_small(model, version):
    """GB10: NVML answers "not supported", which get_batch_defaults takes for a small card."""
    found = resolved(model, GB10, version)
    assert (found.max_num_batched_tokens, found.max_num_seqs) == (2048, 256)


@pytest.mark.parametrize(("version", "kept"), [("0.10.2", False), ("0.13.0", False), ("0.14.1", True)])
def test_chunks_have_pages_of_their_own_from_0_14(version, kept):
    """VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE was off by default until then."""
    assert VLLM.rules(Version.parse(version)).cache.hybrid_chunks is kept


def _graphs(spec, name: str, version: str, **told) -> tuple[int, int]:
    """(what graphs add inside of the budget, what they add on top), against the same without graphs."""
    model, card, release = spec(name), find_gpu("A100-80GB-SXM"), Version.parse(version)
    asked = VLLM.resolve(model, card, EngineSettings(max_model_len=8192, **told), release)
    rules, kept = VLLM.rules(release).runtime, VLLM.profile(model, release).reserves_graphs
    plain, eager = (
        runtime(model, card, replace(asked, enforce_eager=off), rules, reserves_graphs=kept)
        for off in (False, True)
    )
    return plain.inside.value - eager.inside.value, plain.outside.value - eager.outside.value


def test_a_budget_pays_for_an_estimate_of_graphs_where_the_runner_makes_one(spec):
    """Dense models ran with the second runner from 0.25 on, whose estimate was 0 until 0.28 (issue 49224): the
    pool takes the room and graphs come on top. The first runner subtracts more than they take (issue 45178)."""
    dense, experts = "meta-llama/Llama-3.1-8B-Instruct", "Qwen/Qwen3-Coder-30B-A3B-Instruct"
    before = _graphs(spec, dense, "0.19.1")
    assert before[0] == 0
    assert before[1] > 0
    second = _graphs(spec, dense, "0.27.0")
    assert second == before
    for name, version in ((dense, "0.21.0"), (experts, "0.27.0"), (dense, "0.29.0")):
        inside, on_top = _graphs(spec, name, version)
        assert on_top == 0
        assert inside > before[1]


def test_the_estimate_of_the_default_graphs_is_what_logs_print(spec):
    """51 piecewise and 35 full graphs: public logs print 0.55 to 0.83 GiB on one GPU."""
    inside, _ = _graphs(spec, "meta-llama/Llama-3.1-8B-Instruct", "0.21.0", max_num_seqs=256)
    assert 0.5 * GIB < inside < 0.85 * GIB


@pytest.mark.parametrize(
    ("version", "card", "asked", "row"),
    [
        ("0.11.0", "H200", "auto", 656),
        ("0.13.0", "H200", "auto", 1152),
        ("0.13.0", "B200", "fp8", 656),
        ("0.19.0", "B200", "fp8", 576),
        ("0.33.0", "H200", "fp8", 656),
        ("0.33.0", "B200", "auto", 1152),
        ("0.33.0", "RTX-PRO-6000-Blackwell-SE", "auto", 656),
    ],
)
def test_rows_of_sparse_latent_attention_by_release_and_card(spec, version, card, asked, row):
    """DeepSeek-V3.2: 61 layers, and 132 B of an indexer in each; models/config.py and platforms/cuda.py."""
    model = spec("deepseek-ai/DeepSeek-V3.2")
    engine, parsed = find_engine(f"vllm@{version}")
    settings = EngineSettings(tensor_parallel_size=8, kv_cache_dtype=asked)
    resolved = engine.resolve(model, find_gpu(card), settings, parsed)
    layout = cache_layout(model, resolved, engine.rules(parsed).cache)
    assert layout.token_bytes() == 61 * (row + 132)


def _pool_as_printed(model: ModelSpec, version: str, pool_gib: float, **asked) -> int:
    engine, parsed = find_engine(f"vllm@{version}")
    settings = engine.resolve(model, find_gpu("RTX-4090-D"), EngineSettings(max_model_len=4096, **asked), parsed)
    layout = cache_layout(model, settings, engine.rules(parsed).cache)
    blocks = layout.blocks_in((int(pool_gib * GIB),))
    return layout.tokens_as_printed(blocks, 4096, settings.max_num_batched_tokens)


def test_prefix_caching_keeps_one_more_state_of_hybrids(spec):
    """Qwen3.5-4B with 10.21 GiB prints 235,706 tokens on 0.23 as it starts unasked (a public log)."""
    model = spec("Qwen/Qwen3.5-4B")
    assert _pool_as_printed(model, "0.23.0", 10.21) == 235_706
    cached = _pool_as_printed(model, "0.23.0", 10.21, enable_prefix_caching=True)
    assert cached < 235_706
    assert _pool_as_printed(model, "0.27.0", 10.21) == 235_706
    assert _pool_as_printed(model, "0.28.0", 10.21) == cached
    assert _pool_as_printed(model, "0.28.0", 10.21, enable_prefix_caching=False) == 235_706


def test_an_indexers_pooled_keys_are_packed_beside_latent_rows(spec):
    """GLM-5.3-Flash on eight H200 prints 7,228,559 tokens and 55.15 requests of 131,072 for 81.79 GiB (a log)."""
    engine, parsed = find_engine("vllm@0.30.0")
    asked = EngineSettings(tensor_parallel_size=8, max_model_len=131072, max_num_seqs=512)
    model = spec("zai-org/GLM-5.3-Flash")
    settings = engine.resolve(model, find_gpu("H200"), asked, parsed)
    layout = cache_layout(model, settings, engine.rules(parsed).cache)
    blocks = layout.blocks_in((int(81.79 * GIB),))
    assert layout.groups[0].block_size == 640
    assert blocks / layout.sequence_blocks(131072, 8192) == pytest.approx(55.15, abs=1e-2)
    assert layout.tokens_as_printed(blocks, 131072, 8192) == pytest.approx(7_228_559, rel=2e-4)


def test_mamba_keeps_the_state_behind_every_block_until_0_28(spec):
    """v1/kv_cache_interface.py, MambaSpec: mode "all" where prefixes are cached, "align" since 0.28."""
    model = spec("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16")
    found = {}
    for version, asked in (("0.25.0", None), ("0.26.0", True), ("0.28.0", None)):
        engine, parsed = find_engine(f"vllm@{version}")
        wanted = EngineSettings(max_model_len=65536, enable_prefix_caching=asked)
        settings = engine.resolve(model, H100, wanted, parsed)
        found[version] = cache_layout(model, settings, engine.rules(parsed).cache)
    states = [group for group in found["0.26.0"].groups if group.every_block]
    assert states
    assert all(group.block_size % 128 == 0 for group in states)
    assert all(group.blocks(65536, 2048) == -(-65536 // group.block_size) for group in states)
    old, new = (found[version].sequence_bytes(65536, 2048) for version in ("0.25.0", "0.28.0"))
    assert found["0.26.0"].sequence_bytes(65536, 2048) > 3 * new > 3 * old
