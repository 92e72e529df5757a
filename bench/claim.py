"""One claim of an article beside ours, and the figures that the claims share."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path

from cotenant import api
from cotenant.catalogue.gpus import find_gpu
from cotenant.catalogue.quantization import find_format
from cotenant.domain.estimate import Estimate, RankEstimate
from cotenant.domain.model import ModelSpec, Role
from cotenant.domain.plan import Plan
from cotenant.estimation.weights import checkpoint_bytes

EXAMPLES = Path(__file__).parent.parent / "examples"
GPU = "A100-80GB-SXM"
L70B = "meta-llama/Llama-3.1-70B-Instruct"
L8B = "meta-llama/Llama-3.1-8B-Instruct"
L405B = "meta-llama/Llama-3.1-405B-Instruct"
M7B = "mistralai/Mistral-7B-Instruct-v0.3"
SLOT, SLOTS = 2048, 8  # the second article's table: 8 slots of 2K


class Verdict(StrEnum):
    """What became of a claim. `corrected`: it is wrong, or holds only as far as our column says."""

    CONFIRMED = "confirmed"
    CORRECTED = "corrected"
    NOT_VERIFIABLE = "not verifiable"


@dataclass(frozen=True, slots=True)
class Claim:
    """`says` is the article's in our words, `ours` what the program computes, `why` the arithmetic or source."""

    says: str
    ours: str
    why: str
    verdict: Verdict


def confirmed(says: str, ours: str, why: str) -> Claim:
    """A claim that stands."""
    return Claim(says, ours, why, Verdict.CONFIRMED)


def corrected(says: str, ours: str, why: str) -> Claim:
    """A claim that does not stand as it is."""
    return Claim(says, ours, why, Verdict.CORRECTED)


def unverified(says: str, ours: str, why: str) -> Claim:
    """A claim that nothing at hand can show or refute."""
    return Claim(says, ours, why, Verdict.NOT_VERIFIABLE)


@cache
def spec(model: str) -> ModelSpec:
    """The structure, from the catalogue."""
    return api.load_model(model).spec


def weights(model: str, form: str) -> int:
    """Bytes of a checkpoint."""
    return checkpoint_bytes(spec(model), find_format(form))


def linear(model: str) -> int:
    """Parameters of the layers that formats quantise; the rest (embedding, head, norms) stays in 16 bits."""
    return sum(group.elements for group in spec(model).parameters_of(Role.ATTENTION, Role.MLP))


def token(model: str) -> int:
    """Bytes of cache for a token, as the program counts them."""
    return replica(model, "bf16").kv_cache.bytes_per_token


@cache
def replica(
    model: str, form: str, gpu: str = GPU, slots: int = SLOTS, length: int = SLOT, ranks: int = 1
) -> Estimate:
    """One replica whose pool holds `slots` sequences of `length` tokens."""
    (group,) = spec(model).layer_groups
    pool = 2 * group.num_layers * max(1, group.kv_heads // ranks) * group.key_width * 2 * slots * length
    return api.estimate(
        model, gpu=gpu, quantization=form, max_model_len=length, max_num_seqs=slots, kv_cache_memory_bytes=pool,
        tensor_parallel_size=ranks,
    )  # fmt: skip


def rank(model: str, form: str) -> RankEstimate:
    """The one GPU of a replica with 8 slots of 2K on an A100-80GB."""
    return replica(model, form).per_gpu[0]


@cache
def planned(example: str) -> Plan:
    """The plan of an example."""
    return api.plan(EXAMPLES / f"{example}.yaml")


def capacity() -> int:
    """What CUDA reports of an A100-80GB."""
    return find_gpu(GPU).cuda_bytes.value
