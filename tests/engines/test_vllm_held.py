"""What vLLM keeps otherwise than it is stored, packs or refuses, by release: figures of public start-up logs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant.catalogue.gpus import find_gpu
from cotenant.catalogue.quantization import find_format
from cotenant.domain.engine import EngineSettings, Version
from cotenant.domain.estimate import Verdict
from cotenant.engines.vllm import VLLM
from cotenant.estimation.kv_cache import cache_layout
from cotenant.estimation.memory import estimate_memory
from cotenant.units import GIB


def served(model, card, version, quantization="bf16", **options):
    return estimate_memory(
        model, find_gpu(card), EngineSettings(**options), engine=VLLM, version=Version.parse(version),
        format=find_format(quantization),
    )  # fmt: skip


def cache(model, card, version, **options):
    release = Version.parse(version)
    settings = VLLM.resolve(model, find_gpu(card), EngineSettings(**options), release)
    return cache_layout(model, settings, VLLM.rules(release, find_gpu(card)).cache)


def test_deepseek_v4_takes_a_block_for_every_four_tokens_in_flight(spec):
    """vllm-project/vllm#44376, 0.22: 6.66 GiB for 30,000 tokens with batches of 16,384, where 5.44 hold 13,528."""
    found = cache(spec("deepseek-ai/DeepSeek-V4-Flash"), "H200", "0.22.0", tensor_parallel_size=2)
    assert found.block_bytes == (22 * (37_440 + 8_640 + 1_728),)
    assert found.checked_bytes(30_000, 16_384) / GIB == pytest.approx(6.66, abs=0.005)
    assert found.checked_bytes(13_528, 16_384) / GIB == pytest.approx(5.44, abs=0.005)
    assert found.checked_bytes(13_528 + 256, 16_384) / GIB > 5.44


@pytest.mark.parametrize(
    ("version", "block"),
    [
        ("0.23.0", 22 * 47_808),
        ("0.24.0", 22 * 37_440 + 21 * 8_640 + 20 * 1_728),
        ("0.30.0", 21 * (37_440 + 8_640) + 20 * 1_728),
    ],
)
def test_deepseek_v4_packs_its_pages_closer_by_release(spec, version, block):
    """v1/core/kv_cache_utils.py of each release: tuples of every size, slots of each size, the largest group."""
    assert cache(spec("deepseek-ai/DeepSeek-V4-Flash"), "H200", version).block_bytes == (block,)


def test_deepseek_v4_needs_what_its_rows_and_windows_hold(spec):
    """584 B a row of every 4th or 128th token and 132 of the indexer's, and windows whatever the length."""
    found = cache(spec("deepseek-ai/DeepSeek-V4-Flash"), "H200", "0.30.0")
    by_hand = 21 * (584 + 132) / 4 + 20 * 584 / 128
    assert found.token_bytes() == pytest.approx(by_hand, rel=1e-3)
    longer = found.needed_bytes(200 * 256) - found.needed_bytes(100 * 256)
    assert longer == pytest.approx(100 * 256 * by_hand, rel=1e-3)


def test_latent_attention_was_expanded_before_0_7_1(spec):
    """models/deepseek_v2.py of 0.5.4 pads keys and values of all heads to 256."""
    model = spec("deepseek-ai/DeepSeek-V2-Chat")
    assert cache(model, "H100-80GB-SXM", "0.6.6", tensor_parallel_size=8).token_bytes() == 60 * 16 * 2 * 256 * 2
    assert cache(model, "H100-80GB-SXM", "0.7.3", tensor_parallel_size=8).token_bytes() == 60 * 576 * 2


def test_a_context_that_expanded_attention_cannot_hold_is_refused(spec):
    """vllm-project/vllm#4650: 64,000 tokens of DeepSeek-Coder-V2 do not start on eight H100 with 0.5.4."""
    found = served(
        spec("deepseek-ai/DeepSeek-V2-Chat"), "H100-80GB-SXM", "0.5.4", tensor_parallel_size=8,
        max_model_len=64_000, gpu_memory_utilization=0.95, enforce_eager=True,
    )  # fmt: skip
    assert found.verdict is Verdict.DOES_NOT_FIT


def test_graphs_of_a_hybrid_need_a_state_for_every_slot(spec):
    """vllm-project/recipes#831: Qwen3.8-27B does not start on one RTX PRO 6000 with the default 1,024 sequences,
    at a utilisation of 0.95 either; 0.19 captured fewer sizes instead, and without graphs nothing is asked."""
    model = spec("Qwen/Qwen3.5-27B")  # of the same widths and states
    asked = {"gpu_memory_utilization": 0.95}
    refused = served(model, "RTX-PRO-6000-Blackwell", "0.26.1", **asked)
    assert refused.verdict is Verdict.DOES_NOT_FIT
    assert "a state for each of 1,024 sequences" in refused.reason
    assert served(model, "RTX-PRO-6000-Blackwell", "0.19.1", **asked).verdict is not Verdict.DOES_NOT_FIT
    assert served(model, "RTX-PRO-6000-Blackwell", "0.26.1", enforce_eager=True, **asked).verdict is Verdict.FITS
    assert served(model, "RTX-PRO-6000-Blackwell", "0.26.1", max_num_seqs=256, **asked).verdict is Verdict.FITS


def test_the_scales_of_nf4_are_kept_in_full(spec):
    """A Qwen2.5-7B in NF4 prints 5.46 GiB with 0.16; the loaders of 0.9.1 and before left the scales in 8 bits."""
    model = replace(spec("Qwen/Qwen2.5-7B-Instruct"), quantization="bnb-nf4")
    new, old = (
        served(model, "A100-40GB-PCIe", v, "bnb-nf4").per_gpu[0].weights.bytes.value for v in ("0.16.0", "0.9.1")
    )
    assert new / GIB == pytest.approx(5.46, abs=0.01)
    assert new - old == pytest.approx(6.525e9 * (0.5 - 0.126953125) / 8, rel=0.1)  # allocator rounds


def test_machete_keeps_awqs_zero_points_in_sixteen_bits(spec):
    """Qwen2.5-72B-AWQ prints 39.56 GiB on an H200 with 0.30, whose log names MacheteLinearKernel."""
    model = replace(spec("Qwen/Qwen2.5-72B-Instruct"), quantization="awq-int4")
    found = {
        card: served(model, card, "0.30.0", "awq-int4").per_gpu[0].weights.bytes.value for card in ("H200", "B200")
    }
    assert found["H200"] / GIB == pytest.approx(39.56, rel=0.005)
    assert found["H200"] - found["B200"] == pytest.approx(70.2e9 / 128 * 12 / 8, rel=0.2)  # allocator rounds
