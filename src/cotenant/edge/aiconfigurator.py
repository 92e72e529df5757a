"""AIConfigurator (NVIDIA, Apache-2.0), where the user has installed it: its measured kernels as a second source.

Nothing of it is shipped here, and nothing is looked up: `aiconfigurator_core` is imported when a step's time is
asked for, gets the model's config.json in a folder of its own, and answers from the tables in its own wheel. The
first question of a card and an engine takes seconds, each further one some hundredths. Whatever it does not know
(card, engine, architecture, precision) is no answer, and ours stands alone.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from tempfile import TemporaryDirectory
from typing import Any, Final

from cotenant.domain.model import ModelSpec
from cotenant.domain.step_time import OtherTimes, StepQuestion
from cotenant.estimation.second_source import second_source

PACKAGE: Final = "aiconfigurator_core"

ERROR: Final = 0.18
"""Median error of its TPOT, as measured on 1,182 published rows with its release 0.12 (49 % at the 90th
percentile); docs/step-times.md has what it errs on the rows that we evaluate."""

_SYSTEMS: Final = {
    "A30": "a30", "A100-80GB-SXM": "a100_sxm", "A100-80GB-PCIe": "a100_pcie", "L4": "l4", "L40S": "l40s",
    "H100-80GB-SXM": "h100_sxm", "H100-80GB-PCIe": "h100_pcie", "H200-SXM": "h200_sxm", "B200-SXM": "b200_sxm",
    "B300-SXM": "b300_sxm", "GB200": "gb200", "GB300": "gb300", "RTX-PRO-6000-Blackwell-SE": "rtx_pro_6000_server",
    "Arc-Pro-B60": "b60",
}  # fmt: skip
_BACKENDS: Final = {"vllm": "vllm", "sglang": "sglang", "tensorrt-llm": "trtllm"}
# How it calls a precision: (dense layers, experts). Its tables differ by engine, so the nearest that it holds.
_PRECISIONS: Final = {
    "bf16": (("bfloat16", "bfloat16"),),
    "fp16": (("bfloat16", "bfloat16"),),
    "fp8": (("fp8", "fp8"), ("fp8", "fp8_block"), ("fp8_block", "fp8_block")),
    "fp8-block": (("fp8_block", "fp8_block"),),
    "nvfp4": (("nvfp4", "nvfp4"),),
    "mxfp4": (("bfloat16", "w4a16_mxfp4"), ("bfloat16", "w4a8_mxfp4_mxfp8")),
    "int8": (("sq", "sq"),),
    "awq-int4": (("int4_wo", "int4_wo"),),
    "gptq-int4": (("int4_wo", "int4_wo"),),
    "w4a16": (("int4_wo", "int4_wo"),),
}
_ATTENTION: Final = (
    None,
    "bfloat16",
)  # as the checkpoint says, else in 16 bits: not every engine has FP8 attention
_SEQUENCES: Final = (1, 4, 16, 64, 256)
_CONTEXTS: Final = (1024, 4096, 16384)
_PROMPTS: Final = (512, 1024, 2048, 4096, 8192)
_ANSWERS: dict[tuple[object, ...], OtherTimes | None] = {}


def is_installed() -> bool:
    """Whether `aiconfigurator` can be imported, without importing it."""
    return find_spec(PACKAGE) is not None


@contextmanager
def consulted(wanted: bool = True) -> Iterator[None]:
    """Step times worked out inside are combined with AIConfigurator's, where it is wanted and installed."""
    with second_source(ask if wanted and is_installed() else None):
        yield


def ask(question: StepQuestion) -> OtherTimes | None:
    """What it says of single steps; None where it does not know. Equal questions are asked once a process."""
    model = question.model
    key = (
        model.name, model.source, model.quantization, question.gpu, question.engine, question.format,
        question.ranks, question.kv_cache_dtype,
    )  # fmt: skip
    if key not in _ANSWERS:
        _ANSWERS[key] = _asked(question)
    return _ANSWERS[key]


def _asked(question: StepQuestion) -> OtherTimes | None:
    system, backend = _SYSTEMS.get(question.gpu), _BACKENDS.get(question.engine)
    config = config_of(question.model) if system and backend else None
    if system is None or backend is None or config is None:
        return None
    for name in ("aiconfigurator", PACKAGE):
        logging.getLogger(name).setLevel(logging.ERROR)  # which tables stand in for which: not a user's concern
    with TemporaryDirectory(prefix="cotenant-") as folder:
        with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
            json.dump(config, file)
        for words in _ways(question, config):
            try:
                return _answer(folder, system, backend, words)
            except BaseException as error:  # a fault in its compiled part is no Exception
                if isinstance(error, (KeyboardInterrupt, SystemExit, MemoryError)):
                    raise
    return None


def _answer(folder: str, system: str, backend: str, words: Mapping[str, Any]) -> OtherTimes:
    from aiconfigurator_core.sdk.engine import EngineHandle
    from aiconfigurator_core.sdk.perf_database import get_latest_database_version

    engine = EngineHandle.compile(folder, system, backend, **words)
    decode = [
        (batch, context, engine.predict_decode_latency(batch, context, 2) / 1e3)
        for batch in _SEQUENCES
        for context in _CONTEXTS
    ]
    prefill = [(tokens, engine.predict_prefill_latency(1, tokens) / 1e3) for tokens in _PROMPTS]
    held = f"{backend} {get_latest_database_version(system, backend)} on {system}"
    return OtherTimes(f"AIConfigurator {_version()} ({held})", ERROR, tuple(decode), tuple(prefill))


def _version() -> str:
    from importlib.metadata import version

    return version("aiconfigurator-core")


def _ways(question: StepQuestion, config: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """How the question may be put, the most faithful first."""
    words: dict[str, Any] = {"tp_size": question.ranks}
    if question.kv_cache_dtype.startswith("fp8"):
        words["kvcache_quant_mode"] = "fp8"
    experts = bool(question.model.num_experts)
    if experts:  # experts are cut as the layers are, not dealt out whole
        words |= {"moe_tp_size": question.ranks, "moe_ep_size": 1}
    for dense, expert in _precisions(question, config):
        for attention in _ATTENTION:
            found = {"gemm_quant_mode": dense, "fmha_quant_mode": attention}
            yield words | found | ({"moe_quant_mode": expert} if experts else {})


def _precisions(question: StepQuestion, config: Mapping[str, Any]) -> Iterator[tuple[str | None, str | None]]:
    """(None, None): as the checkpoint's own config says."""
    own = question.model.quantization
    name = question.format or own or "bf16"
    if name == own and "quantization_config" in config:
        yield None, None
    if name in ("bf16", "fp16") and "quantization_config" not in config:
        yield None, None
        return
    yield from _PRECISIONS.get(name, ())


def config_of(model: ModelSpec) -> Mapping[str, Any] | None:
    """The config.json that the structure was read from: a file of the user's, or the catalogue's; else None."""
    if model.source.endswith("config.json") and os.path.isfile(model.source):
        from cotenant.edge.text import read_text

        found = json.loads(read_text(model.source))
        return found if isinstance(found, dict) else None
    from cotenant.catalogue.models import find_entry
    from cotenant.catalogue.recipes import find_recipe

    recipe = find_recipe(model.name) if "/" in model.name else None
    entry = find_entry(model.name) or (find_entry(recipe.base) if recipe is not None else None)
    if entry is None or entry.config_source != model.source:
        return None
    return entry.config if recipe is None else {**entry.config, "quantization_config": recipe.quantization_config}
