"""From a record of what an engine printed to the estimate of the same launch: input fields only.

Measured fields are read for the comparison alone. A null version is answered for the versions that print lines
of that style.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from bench.accuracy_engines import other_versions
from bench.accuracy_formats import base_names, formats_of, with_recipe
from bench.accuracy_unsaid import DRAFT_TOKENS, longest_prompt, unsaid, unusual
from bench.accuracy_versions import candidates, merged
from cotenant.catalogue.drafts import find_draft
from cotenant.catalogue.gpus import find_gpu
from cotenant.catalogue.models import find_entry
from cotenant.domain.engine import AdapterSlots, EngineSettings, Speculation, Version
from cotenant.domain.estimate import Estimate
from cotenant.domain.gpu import GpuSpec
from cotenant.domain.interval import Interval
from cotenant.domain.model import ModelSpec
from cotenant.domain.quantization import QuantizationFormat
from cotenant.engines import find_engine
from cotenant.engines.rules import EngineRules
from cotenant.errors import CotenantError, UnsupportedError
from cotenant.estimation.elements import CACHE_DTYPES
from cotenant.estimation.kv_cache import CacheLayout, cache_layout
from cotenant.estimation.memory import estimate_memory
from cotenant.estimation.speculation import served_model
from cotenant.readers.draft_model import draft_model
from cotenant.readers.model_config import read_model_config
from cotenant.units import GIB, MIB

Row = Mapping[str, Any]

_OLDEST = Version.parse("0.3.0")
_DTYPES = {"bfloat16": "bf16", "float16": "fp16", "half": "fp16", "float32": "fp32"}


@dataclass(frozen=True, slots=True)
class Answer:
    """What was estimated for a row, or why not."""

    row: Row
    model: ModelSpec | None
    gpu: GpuSpec | None
    layout: CacheLayout | None
    estimate: Estimate | None
    refusal: str

    @property
    def held_out(self) -> bool:
        """A random fifth of the rows, by their id: looked at only at the end."""
        return hashlib.sha256(self.row["id"].encode()).digest()[0] % 5 == 0


def read_rows(path: Path) -> list[Row]:
    """One JSON object a line."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def answer(row: Row, configs: Path) -> Answer:
    """The estimate of one row; a refusal is an answer without estimate."""
    model = layout = None
    gpu = _gpu(row)
    try:
        versions = _versions(row)
        model = _model(configs, row)
        usual, *formats = _served(row, model)
        layout, first = _estimate(row, model, gpu, *versions[0], usual)
        alike = [(row, one, usual) for one in versions[1:]]
        alike += [(other, versions[0], usual) for other in unsaid(row, model.max_model_len)]
        alike += [(row, versions[0], other) for other in formats]
        ends = [(other, versions[0], usual) for other in unusual(row)]
        ends += [(row, one, usual) for one in _ahead(row)]
        others, widest = (
            [found for each, one, form in launches if (found := _other(each, model, gpu, *one, form)) is not None]
            for launches in (alike, ends)
        )
    except CotenantError as error:
        return Answer(row, model, gpu, layout, None, error.message)
    return Answer(row, model, gpu, layout, merged((first, *others), widest), "")


def _estimate(
    row: Row,
    model: ModelSpec,
    gpu: GpuSpec | None,
    engine: EngineRules,
    version: Version,
    served: QuantizationFormat,
) -> tuple[CacheLayout, Estimate]:
    settings = _settings(row, model, version)
    chosen = gpu or _any_card()
    resolved = engine.resolve(model, chosen, settings, version)
    layout = cache_layout(served_model(model, settings), resolved, engine.rules(version).cache)
    used = round((row.get("other_gpu_users_gib") or 0) * GIB)
    return layout, estimate_memory(
        model, chosen, settings, engine=engine, version=version, format=served, used_bytes=used
    )


_HELD_ALREADY = ("fp8", "bnb", "4bit", "4-bit", "8bit", "8-bit", "int8", "w8a8")


def _served(row: Row, model: ModelSpec) -> tuple[QuantizationFormat, ...]:
    """The record's format, or those that it leaves open: made while loading only where the checkpoint's name does
    not say that it holds it."""
    chosen = formats_of(row, model)
    name = (row["model"] or "").lower()
    held = any(mark in name for mark in _HELD_ALREADY)
    return tuple(replace(one, engine_flag="") for one in chosen) if held else chosen


def _other(
    row: Row,
    model: ModelSpec,
    gpu: GpuSpec | None,
    engine: EngineRules,
    version: Version,
    served: QuantizationFormat,
) -> Estimate | None:
    """Another version's or format's answer where it gives one."""
    try:
        return _estimate(row, model, gpu, engine, version, served)[1]
    except CotenantError:
        return None


def _versions(row: Row) -> list[tuple[EngineRules, Version]]:
    """The engine and the versions that the record may come from, the likeliest first."""
    if row["engine"] != "vllm":
        return [find_engine(name) for name in other_versions(row)]
    text = row["engine_version"] or ""
    said = _said(text)
    if not said:
        return [find_engine(f"vllm@{one}") for one in candidates(row)]
    if text.startswith(("0.8", "0.9", "0.10")) and (row.get("gpu_blocks") and row.get("activation_peak_gib")):
        return [find_engine("vllm@0.7.4")]  # the older core: VLLM_USE_V1=0
    return [find_engine(f"vllm@{one}") for one in said]


_RELEASE = re.compile(r"(?<![\w.])v?(0\.\d+(?:\.\d+)?[\w.+-]*)")


def _said(text: str) -> list[str]:
    """The releases that a record names; none where it names a branch, a date or a build without a release, and the
    oldest with rules for one that is older."""
    found = [one.removesuffix(".x").rstrip(".-+") for one in _RELEASE.findall(text)]
    parts = [Version.parse(one) for one in found]
    return [
        one if release >= _OLDEST else str(_OLDEST)
        for one, release in zip(found, parts, strict=True)
        if not one.startswith("0.1.dev")
    ]


def _ahead(row: Row) -> list[tuple[EngineRules, Version]]:
    """The release that a build between two of them was on its way to: some of its changes were in already."""
    text = row["engine_version"] or ""
    said = _said(text) if row["engine"] == "vllm" and ".dev" in text else []
    parts = [Version.parse(one).parts for one in said]
    return [find_engine(f"vllm@{major}.{minor + 1}.0") for major, minor, *_ in parts]


@lru_cache(maxsize=512)
def _read_model(path: Path, name: str) -> ModelSpec:
    config = with_recipe(json.loads(path.read_text(encoding="utf-8")), name)
    entry = next((found for one in base_names(name) if (found := find_entry(one)) is not None), None)
    return read_model_config(config, name=name, source=path.name, task="" if entry is None else entry.task)


@lru_cache(maxsize=512)
def _from_catalogue(name: str) -> ModelSpec:
    """The structure that the catalogue has for that name, where a record's config is a stand-in."""
    entry = next((found for one in base_names(name) if (found := find_entry(one)) is not None), None)
    if entry is None:
        raise UnsupportedError("the config holds class defaults, not this model's sizes")
    config = with_recipe(entry.config, name)
    return read_model_config(config, name=name, source=entry.config_source, task=entry.task)


def _model(configs: Path, row: Row) -> ModelSpec:
    if not row.get("config_file"):
        raise UnsupportedError("no config belongs to this record")
    if row.get("config_exact") is False:
        model = _from_catalogue(row["model"] or "")
    else:
        model = _read_model(configs / row["config_file"], row["model"] or row["config_file"])
    if model.cache_dtype and formats_of(row, model)[0].name != model.quantization:
        model = replace(model, cache_dtype="")  # another checkpoint of the same structure
    if not model.quantization and "modelopt" in (row["quantization"] or "").lower():
        # ModelOpt's default (examples/llm_ptq/hf_ptq.py, kv_cache_qformat)
        model = replace(model, cache_dtype="fp8")
    length = row["max_model_len"] or 0
    if length > model.max_model_len:  # a longer sibling of the config's model, or positions scaled by a flag
        return replace(model, max_model_len=length)
    return model


def _gpu(row: Row) -> GpuSpec | None:
    """The card by its name, with the capacity that the record gives where it gives one."""
    size = row["gpu_mem_gib"]
    gpu = None
    for text in _names(row["gpu"] or "", size):
        try:
            gpu = find_gpu(text)
        except CotenantError:
            continue
        break
    if size is None:
        return gpu
    exact = Interval.exact(round(size * GIB))
    if float(size).is_integer():  # a round number is the nominal size, not what CUDA reports
        if gpu is not None:
            return gpu
        exact = Interval(round(size * GIB * 0.97), round(size * GIB * 0.985), round(size * GIB))
    base = gpu or _any_card()
    driver = gpu.driver_bytes if gpu else Interval.exact(exact.value + 300 * MIB)
    return _replaced(base, row["gpu"] or f"{size} GiB card", exact, driver)


def _replaced(base: GpuSpec, name: str, cuda: Interval, driver: Interval) -> GpuSpec:
    return replace(base, name=name, cuda_bytes=cuda, driver_bytes=driver, cuda_measured=cuda.is_exact)


def _names(text: str, size: float | None) -> list[str]:
    """The name as posted, and without what stands in brackets or how many there are, with the size first where
    one is told; the common form of names without a size."""
    plain = _COUNT.sub("", text.split(" (")[0]).strip()
    names = [text, plain, *re.findall(r"\(([^()]+)\)", text)]
    if size is not None:
        first = plain.split()[0] if plain else ""
        names = [f"{plain} {round(size + 0.4)}GB", *names, f"{first} {round(size)}GB"]
    usual = {"H100": "H100-80GB-SXM", "A100": "A100-80GB-SXM", "H200": "H200", "H20": "H20", "T4": "T4"}
    return [name for name in (*names, usual.get(plain.upper(), "")) if name.strip()]


_COUNT = re.compile(r"^\s*[1-9][0-9]?\s*[x×*]\s*", re.IGNORECASE)


@lru_cache(maxsize=1)
def _any_card() -> GpuSpec:
    return find_gpu("A100-80GB-SXM")


def _settings(row: Row, model: ModelSpec, version: Version) -> EngineSettings:
    length = row["max_model_len"]
    lora = row.get("adapters") or {}
    slots = None
    if row.get("lora") or lora.get("max_lora_rank"):
        slots = AdapterSlots(lora.get("max_loras") or 1, lora.get("max_lora_rank") or 16)
    ranks, copies = row["tensor_parallel"] or 1, row["data_parallel"] or 1
    if row["engine"] == "sglang" and ranks % copies == 0:  # its tp counts the GPUs of all copies of attention
        ranks //= copies
    cache = _cache_type(row["kv_cache_dtype"])
    share = row["gpu_memory_utilization"]
    return EngineSettings(
        tensor_parallel_size=ranks,
        pipeline_parallel_size=row["pipeline_parallel"] or 1,
        dtype=_DTYPES.get(row["dtype"] or "", "auto"),
        kv_cache_dtype=cache,
        max_model_len=length,
        max_num_seqs=row["max_num_seqs"],
        max_num_batched_tokens=row["max_num_batched_tokens"],
        max_input_tokens=longest_prompt(row),
        gpu_memory_utilization=share / 100 if share is not None and share > 1 else share,  # said in percent
        block_size=row["block_size"],
        enforce_eager=bool(row["enforce_eager"]),
        enable_expert_parallel=bool(row["expert_parallel"]),
        adapters=slots,
        data_parallel_size=copies,
        decode_context_parallel_size=row.get("decode_context_parallel") or 1,
        language_model_only=bool(row.get("language_model_only")),
        speculation=_speculation(row["speculative"], model.name),
    )


_CACHE_WORDS = (
    ("k8v4", "turboquant_k8v4"), ("k3v4", "turboquant_k3v4_nc"), ("3bit", "turboquant_3bit_nc"),
    ("tq3", "turboquant_3bit_nc"), ("tq4", "turboquant_4bit_nc"), ("turboquant", "turboquant_4bit_nc"),
    ("e5m2", "fp8_e5m2"), ("e4m3", "fp8_e4m3"),
)  # fmt: skip


def _cache_type(text: str | None) -> str:
    """A cache's type as vLLM calls it, from the words that people use for it."""
    said = (text or "auto").lower().removeprefix("torch.")
    said = _DTYPES.get(said, said)
    if said in CACHE_DTYPES:
        return said
    return next((dtype for mark, dtype in _CACHE_WORDS if mark in said), said)


@lru_cache(maxsize=512)
def _speculation(text: str | None, target: str) -> Speculation | None:
    """``mtp``, ``mtp x3``, ``dflash``: the method, the tokens a step and the draft that the catalogue knows."""
    words = (text or "").lower().replace(" x", " ").split()
    if not words:
        return None
    method = words[0]
    known = find_draft(target, method)
    told = next((int(word) for word in words[1:] if word.isdigit()), None)
    tokens = told or (known.tokens if known else DRAFT_TOKENS.get(method, 1))
    return Speculation(method, tokens, draft_model(known) if known else None)
