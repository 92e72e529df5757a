"""The questions put to every program, with the right answers and where those stand.

Answers are arithmetic over published configs, written out here by hand and not taken from our own estimator, and
checked against what an engine printed where a public log has it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from cotenant.units import GIB

SEQUENCES, LENGTH = 16, 8192
_TOKENS = SEQUENCES * LENGTH


class Kind(StrEnum):
    """What is asked of a model."""

    KV = "KV cache"
    WEIGHTS = "weights"


@dataclass(frozen=True, slots=True)
class Task:
    """One question. `truth_bytes` is the answer, `stands` says where it comes from. `model` is a hub id that the
    catalogue knows; `checkpoint` the id of the quantised one, `form` our name of its format."""

    id: str
    title: str
    kind: Kind
    model: str
    truth_bytes: int
    stands: str
    checkpoint: str = ""
    form: str = "bf16"

    @property
    def truth_gib(self) -> float:
        """The answer in GiB."""
        return self.truth_bytes / GIB


def _awq_bytes(inputs: int, outputs: int, group: int = 128) -> int:
    """One linear layer: 4-bit weights and zeros, and a 16-bit scale, a group of inputs."""
    return inputs * outputs // 2 + inputs // group * outputs // 2 + inputs // group * outputs * 2


def _qwen_awq_bytes() -> int:
    """Qwen2.5-7B: 28 layers; embedding, head, norms and biases of q, k, v stay in 16 bits."""
    hidden, inner, kv, vocabulary = 3584, 18944, 512, 152064
    attention = 2 * _awq_bytes(hidden, hidden) + 2 * _awq_bytes(hidden, kv)
    mlp = 2 * _awq_bytes(hidden, inner) + _awq_bytes(inner, hidden)
    layer = attention + mlp + 2 * (2 * hidden + hidden + 2 * kv)
    return 28 * layer + 2 * (2 * vocabulary * hidden + hidden)


_STATE = 48 * (48 * 128 * 128 * 4 + 3 * 10240 * 2)  # a sequence: recurrent state in 32 bits, convolution in 16

TASKS = (
    Task(
        "llama_3_1_8b_kv", "Llama-3.1-8B, KV", Kind.KV, "meta-llama/Llama-3.1-8B-Instruct",
        2 * 32 * 8 * 128 * 2 * _TOKENS,
        "arithmetic: 2 x 32 layers x 8 heads x 128 x 2 B a token; vLLM 0.17.1 printed 55.79 GiB for 457,024"
        " tokens, which is the same 131,072 B",
    ),
    Task(
        "gemma_3_27b_kv", "Gemma-3-27B, KV with its windows", Kind.KV, "google/gemma-3-27b-it",
        2 * 16 * 128 * 2 * SEQUENCES * (10 * LENGTH + 52 * 1024),
        "arithmetic: 10 of 62 layers keep all tokens, 52 keep 1,024; 2 x 16 heads x 128 x 2 B a token and layer",
    ),
    Task(
        "deepseek_v3_kv", "DeepSeek-V3, KV with MLA", Kind.KV, "deepseek-ai/DeepSeek-V3",
        61 * (512 + 64) * 2 * _TOKENS,
        "arithmetic: 61 layers x (512 + 64) x 2 B a token",
    ),
    Task(
        "qwen2_5_7b_awq_weights", "Qwen2.5-7B-AWQ, weights", Kind.WEIGHTS, "Qwen/Qwen2.5-7B-Instruct",
        _qwen_awq_bytes(),
        "arithmetic over the checkpoint's tensors; SGLang printed 5.25 GB of memory used by loading it",
        checkpoint="Qwen/Qwen2.5-7B-Instruct-AWQ", form="awq-int4",
    ),
    Task(
        "qwen3_5_27b_kv", "Qwen3.5-27B, KV and state", Kind.KV, "Qwen/Qwen3.5-27B",
        2 * 16 * 4 * 256 * 2 * _TOKENS + _STATE * SEQUENCES,
        "arithmetic: 8.00 GiB for 16 layers x 4 heads x 256, and 2.29 GiB of state: 48 layers x (48 x 128 x 128 x"
        " 4 B + 3 x 10,240 x 2 B) a sequence",
    ),
)  # fmt: skip
