"""From a published serving measurement to the estimate of the same situation: input fields only.

Every row is either answered or left out with a reason that says what it does not state or what is not modelled.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from cotenant.catalogue.gpus import find_gpu
from cotenant.catalogue.models import find_entry
from cotenant.catalogue.quantization import find_format, kernel
from cotenant.domain.engine import Version
from cotenant.domain.gpu import GpuSpec
from cotenant.domain.model import ModelSpec
from cotenant.errors import CotenantError, UnsupportedError
from cotenant.estimation.roofline import Roofline
from cotenant.estimation.step_constants import FITTED, Fitted
from cotenant.estimation.step_time import roofline
from cotenant.readers.model_config import read_model_config

Record = Mapping[str, Any]

_ENGINES = {"trtllm": "tensorrt-llm"}
_CARDS = {"H100": "H100-SXM"}  # the publications run SXM nodes
_FORMATS = {"fp16": "bf16", "fp4": "nvfp4", "int4": "awq-int4"}
_CATALOGUE = {
    "llama2-7b": "meta-llama/Llama-2-7b-chat-hf",
    "llama2-70b": "meta-llama/Llama-2-70b-chat-hf",
    "llama3-8b": "meta-llama/Llama-3.1-8B-Instruct",
    "llama3-70b": "meta-llama/Llama-3.1-70B-Instruct",
    "llama3-405b": "meta-llama/Llama-3.1-405B-Instruct",
    "mistral-7b": "mistralai/Mistral-7B-Instruct-v0.3",
    "mixtral-8x7b": "mistralai/Mixtral-8x7B-Instruct-v0.1",
    "mixtral-8x22b": "mistralai/Mixtral-8x22B-Instruct-v0.1",
    "qwen2-7b": "Qwen/Qwen2.5-7B-Instruct",
    "qwen2-72b": "Qwen/Qwen2.5-72B-Instruct",
    "qwen3-1.7b": "Qwen/Qwen3-1.7B",
    "qwen3-32b": "Qwen/Qwen3-32B",
    "qwen3-30b-a3b": "Qwen/Qwen3-30B-A3B",
    "qwen3-235b-a22b": "Qwen/Qwen3-235B-A22B",
    "qwen3.5-397b-a17b": "Qwen/Qwen3.5-397B-A17B",
    "deepseek-v3": "deepseek-ai/DeepSeek-V3",
    "glm-5": "zai-org/GLM-5",
    "gpt-oss-120b": "openai/gpt-oss-120b",
    "kimi-k2.5": "moonshotai/Kimi-K2.5",
    "minimax-m2.5": "MiniMaxAI/MiniMax-M2.5",
}
# What the publication's own launch scripts say against the record (experimental/token_position_decode_slo in
# SemiAnalysisAI/InferenceX, serve_glm5_sbatch.sh and serve_qwen35_tp8_sbatch.sh).
_SERVED_OTHERWISE = {
    ("InferenceX-token-position", "glm-5"): "speculative decoding at an acceptance not stated (its script: MTP)",
    ("InferenceX-token-position", "qwen3.5-397b-a17b"): "its script serves the BF16 checkpoint, prefix caching on",
}


# Its launch of MiniMax-M2.5 in FP8 on B200 said VLLM_USE_FLASHINFER_MOE_FP8=0 until vLLM 0.17 (pull request 947 of
# SemiAnalysisAI/InferenceX took it out with the step to 0.19): experts ran kernel by kernel.
_UNFUSED = {
    ("InferenceX", "minimax-m2.5", "B200", "vllm", "fp8", version) for version in ("0.15.1", "0.16.0", "0.17.0")
}


@dataclass(frozen=True, slots=True)
class Situation:
    """One record as the estimator is asked: a replica of `model` on `ranks` cards under a load."""

    record: Record
    model: ModelSpec
    gpu: GpuSpec
    times: Roofline
    capacity_tokens: float  # that its KV cache holds


class LeftOutError(Exception):
    """This record cannot be compared; the message says why."""


def read_records(path: Path) -> list[Record]:
    """One JSON object a line."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def situation(record: Record, fitted: Fitted = FITTED) -> Situation:
    """The record as a question. Raises LeftOutError."""
    _refuse_what_is_not_modelled(record)
    try:
        return _situation(record, fitted)
    except CotenantError as error:
        raise LeftOutError(error.message) from error


def _refuse_what_is_not_modelled(record: Record) -> None:
    note = (record.get("note") or "").lower()
    served = (record["pub"], record["arch"])
    reasons = (
        (
            record["isl"] is not None and _is_one_sequence(record),
            "its rate times its latency is one sequence, whatever the batch",
        ),
        (served in _SERVED_OTHERWISE, _SERVED_OTHERWISE.get(served, "")),
        (record["tp"] > 8, "more ranks than a node: wide expert parallel, or prefill and decode apart"),
        (record["arch"] is None, "the architecture is not named"),
        (record["kind"] == "serving_mtp" or "mtp" in note, "speculative decoding at an acceptance not stated"),
        ("prefix caching" in note, "prefix caching on: prompts may not have been prefilled"),
        (record["isl"] is None or "input length not stated" in note, "no input length"),
        (record["kind"] == "serving_overload", "more load than capacity: no steady state"),
        ((record.get("attn_dp") or 1) > 1, "attention split by data parallel"),
    )
    for found, reason in reasons:
        if found:
            raise LeftOutError(reason)


def _is_one_sequence(record: Record) -> bool:
    """Whether an offline batch's published rate and latency contradict its batch (llama.cpp rows of Argonne's)."""
    if not (record["latency_s"] and record["total_tps"] and record["concurrency"] and record["osl"]):
        return False
    batches = record["latency_s"] * record["total_tps"] / (record["isl"] + record["osl"])
    return bool(record["concurrency"] > 2 and batches < 0.5 * record["concurrency"])


@lru_cache(maxsize=64)
def _model(name: str) -> ModelSpec:
    entry = find_entry(name)
    if entry is None:
        raise UnsupportedError(f"{name} is not in the catalogue")
    return read_model_config(entry.config, name=name, source=entry.config_source)


@lru_cache(maxsize=4096)
def _times(
    arch: str,
    card: str,
    engine: str,
    version: Version | None,
    precision: str,
    ranks: int,
    kv_dtype: str,
    fused: bool | None,
    fitted: Fitted,
) -> tuple[ModelSpec, GpuSpec, Roofline]:
    model, gpu = _model(_CATALOGUE[arch]), find_gpu(card)
    chosen = find_format(_FORMATS.get(precision, precision))
    found = roofline(
        model, gpu, engine=engine, version=version, format=chosen,
        kernel=kernel(engine, chosen.name, gpu, version), tensor_parallel_size=ranks,
        kv_cache_dtype=kv_dtype, fused_experts=fused, fitted=fitted,
    )  # fmt: skip
    return model, gpu, found


def _situation(record: Record, fitted: Fitted) -> Situation:
    engine = str(_ENGINES.get(record["engine"], record["engine"]))
    card = _CARDS.get(record["gpu"], record["gpu"])
    ranks = 1 if engine == "llama.cpp" else record["tp"] * (record["pp"] or 1)  # llama.cpp deals whole layers out
    cache = "fp8" if record["kv_dtype"] == "fp8" else "auto"
    launch = tuple(record[name] for name in ("pub", "arch", "gpu", "engine", "precision", "engine_version"))
    fused = False if launch in _UNFUSED else None
    model, gpu, times = _times(
        record["arch"], card, engine, _version(record), record["precision"], ranks, cache, fused, fitted
    )
    return Situation(record, model, gpu, times, _capacity_tokens(gpu, times, record["tp"], engine))


def _version(record: Record) -> Version | None:
    try:
        return Version.parse(record["engine_version"] or "")
    except ValueError:
        return None


def _capacity_tokens(gpu: GpuSpec, times: Roofline, ranks: int, engine: str) -> float:
    """Tokens in the cache at a utilisation of 0.9 and 3 GB of activations and graphs a card."""
    shared = ranks if engine == "llama.cpp" else 1  # a rank of ours is then all the cards
    free = shared * (0.9 * gpu.cuda_bytes.value - 3e9) - times.weights_bytes - times.expert_bytes
    row = sum(layer.bytes_per_token for layer in times.cache if layer.window is None)
    return max(0.0, free) / row if row else float("inf")
