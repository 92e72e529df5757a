"""What the steps of Llama-3.1-8B on an A100-80GB cost: the replica that speeds are measured on."""

from __future__ import annotations

from cotenant.api import load_model
from cotenant.catalogue.gpus import find_gpu
from cotenant.estimation.step_time import step_times
from cotenant.simulation.costs import StepCosts
from cotenant.simulation.load import Limits

MODEL, GPU = "meta-llama/Llama-3.1-8B-Instruct", "A100-80GB-SXM"


def costs_within(limits: Limits) -> StepCosts:
    """Lines wherever a replica of those limits may come, as a plan's replicas have them."""
    times = step_times(
        load_model(MODEL).spec, find_gpu(GPU), engine="vllm", most_sequences=limits.max_num_seqs,
        longest_tokens=limits.max_model_len, prompt_tokens=limits.max_num_batched_tokens,
        held_tokens=limits.num_blocks * limits.block_size,
    )  # fmt: skip
    return StepCosts.of(times)
