"""How many CUDA graphs each release of vLLM captures, and what they keep."""

from dataclasses import replace

import pytest

from cotenant.catalogue.gpus import find_gpu
from cotenant.domain.engine import AdapterSlots, EngineSettings, Version
from cotenant.engines.vllm import VLLM
from cotenant.estimation.runtime import graph_count, runtime
from cotenant.units import GIB


@pytest.mark.parametrize(
    ("version", "slots", "expected"),
    [
        ("0.7.1", 128, 19),  # the older core: the first size that holds all slots (printed: 19, 27, 23)
        ("0.7.1", 192, 27),
        ("0.7.3", 160, 23),
        ("0.8.5", 1, 67),  # every eighth up to 512, whatever the slots are
        ("0.9.2", 256, 67),
        ("0.10.2", 1, 2),  # twice the slots: 1 and 2
        ("0.10.2", 224, 59),
        ("0.11.0", 256, 67 + 35),  # and whole decode steps
        ("0.12.0", 64, 19 + 11),  # every sixteenth from 256 on
        ("0.12.0", 256, 51 + 35),
        ("0.22.0", 10, 5 + 4),
    ],
)
def test_graphs_captured_are_those_that_logs_count(version, slots, expected):
    """What vLLM prints as captured: "Capturing CUDA graph shapes: 67/67", "PIECEWISE: 51/51", "FULL: 35/35"."""
    settings = EngineSettings(max_num_seqs=slots, max_num_batched_tokens=8192)
    rules = VLLM.rules(Version.parse(version)).runtime
    assert graph_count(settings, rules, "LlamaForCausalLM") == expected


def test_gpt_oss_captures_up_to_1024_and_adapters_twice():
    """83 sizes for gpt-oss since 0.10.1 (printed: 83/83); with LoRA 102 and 70 of 51 and 35 since 0.11.1."""
    settings = EngineSettings(max_num_seqs=256, max_num_batched_tokens=8192)
    rules = VLLM.rules(Version.parse("0.10.1.1")).runtime
    assert graph_count(settings, rules, "GptOssForCausalLM") == 83
    served = replace(settings, adapters=AdapterSlots(1, 16))
    assert graph_count(served, VLLM.rules(Version.parse("0.19.1")).runtime, "LlamaForCausalLM") == 102 + 70


def test_graphs_of_a_group_keep_more_than_those_of_one_gpu(spec):
    """Each part's graph keeps its all-reduces: printed are 0.50 GiB for 67 x 28 parts on one A100, 0.65 on two."""
    model, card, release = spec("Qwen/Qwen2.5-7B-Instruct"), find_gpu("A100-80GB-SXM"), Version.parse("0.10.1.1")
    rules = VLLM.rules(release).runtime
    sizes = []
    for ranks in (1, 2):
        told = VLLM.resolve(model, card, EngineSettings(tensor_parallel_size=ranks, max_num_seqs=256), release)
        parts = [runtime(model, card, replace(told, enforce_eager=off), rules).outside for off in (False, True)]
        sizes.append((parts[0].low - parts[1].low, parts[0].high - parts[1].high))
    printed = (0.50 * GIB, 0.65 * GIB)
    assert all(low <= size <= high for (low, high), size in zip(sizes, printed, strict=True))
