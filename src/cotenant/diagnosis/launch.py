"""From a measurement to the question that the estimator can be asked: the same model, card, version and flags."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cotenant.catalogue.gpu_names import pick
from cotenant.catalogue.quantization import kernel
from cotenant.diagnosis.llama_words import ENGINES as LLAMA_ENGINES
from cotenant.diagnosis.llama_words import mix, own_words
from cotenant.domain.engine import Speculation
from cotenant.domain.gpu import GpuSpec
from cotenant.domain.interval import Interval
from cotenant.domain.loaded import LoadedModel
from cotenant.domain.measurement import Measurement, Setting
from cotenant.engines import find_engine, own_options
from cotenant.errors import CotenantError
from cotenant.estimation.options import engine_settings
from cotenant.estimation.question import Question
from cotenant.units import MIB, format_gib

_OPTIONS = (
    "tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "decode_context_parallel_size",
    "language_model_only", "dtype", "kv_cache_dtype",
    "max_model_len", "max_input_tokens", "max_num_seqs", "max_num_batched_tokens", "gpu_memory_utilization",
    "kv_cache_memory_bytes",
    "block_size", "enforce_eager", "enable_expert_parallel", "enable_prefix_caching", "enable_lora", "max_loras",
    "max_lora_rank",
)  # fmt: skip
# What an engine's --quantization says -> our format. Words that cover several formats (compressed-tensors,
# modelopt) are left to the checkpoint itself.
_FORMATS = {
    "awq": "awq-int4", "awq_marlin": "awq-int4", "gptq": "gptq-int4", "gptq_marlin": "gptq-int4", "fp8": "fp8",
    "bitsandbytes": "bnb-nf4", "mxfp4": "mxfp4", "modelopt_fp4": "nvfp4", "Gptq": "gptq-int4", "Awq": "awq-int4",
}  # fmt: skip
_CACHE_DTYPES = {
    "bfloat16": "auto", "float16": "auto", "float8_e4m3fn": "fp8_e4m3", "float8_e5m2": "fp8_e5m2",
}  # fmt: skip
_ALIKE = 0.06  # a printed capacity this near to a card's is that card's
_OWN_CONTEXT_BYTES = 450 * MIB  # of what is not free at start, the engine's own CUDA context
_OTHERS_BYTES = 2**30  # less than this missing at start is the driver's and the context's


@dataclass(frozen=True, slots=True)
class Launch:
    """The question, or why there is none; `assumed` says what the log left open."""

    question: Question | None
    capacity_bytes: int | None
    used_bytes: int
    assumed: tuple[str, ...]


def launch(
    found: Measurement,
    model: LoadedModel | None,
    gpu: GpuSpec | None,
    cards: Sequence[GpuSpec],
    draft: LoadedModel | None = None,
) -> Launch:
    """Ask the estimator about the run that the log shows, with the `draft` that it names. Without `gpu` the card
    is the one that the log names, else the one of `cards` whose capacity is nearest to the one printed."""
    assumed: list[str] = []
    capacity = found.size_bytes("gpu_mem_gib") or found.size_bytes("oom_capacity_gib")
    used = _held_by_others(found, capacity)
    card = gpu or _card(found, capacity, cards, assumed)
    question = None
    if model is None:
        named = f"{found.model!r} is not in the catalogue" if found.model else "the log does not name the model"
        assumed.append(f"{named}: name the model to have a prediction beside")
    elif card is None:
        known = f"{found.gpu} is not in the catalogue" if found.gpu else "the log does not name the card"
        assumed.append(f"{known}: name the card to have a prediction beside")
    else:
        question = _question(found, model, _measured_card(card, capacity), used, assumed)
        question = _with_draft(found, question, draft, assumed)
    return Launch(question, capacity or (None if card is None else card.cuda_bytes.value), used, tuple(assumed))


def _question(
    found: Measurement, model: LoadedModel, card: GpuSpec, used: int, assumed: list[str]
) -> Question | None:
    options = {name: found.settings[name] for name in _OPTIONS if name in found.settings}
    if options.get("enable_lora") is False:  # logged with all defaults: the other two mean nothing
        options = {name: value for name, value in options.items() if "lora" not in name}
    if "kv_cache_dtype" in options:
        said = str(options["kv_cache_dtype"])
        options["kv_cache_dtype"] = _CACHE_DTYPES.get(said, said)
    length = found.value("needed_kv_seq_len") or found.value("max_concurrency_len")
    if length:
        options.setdefault("max_model_len", int(length))
    if given := found.size_bytes("given_kv_gib"):
        options.setdefault("kv_cache_memory_bytes", given)
    if fitted := found.value("fitted_max_len"):  # told to fit itself
        options["max_model_len"] = int(fitted)
    share = _utilization(found)
    if share is not None:
        options["gpu_memory_utilization"] = share
    try:
        engine, version = find_engine(_engine_words(found, assumed))
        settings = engine_settings(options)
        format_name = _FORMATS.get(str(found.settings.get("quantization", "")))
        if format_name is not None and model.spec.quantization:
            format_name = None  # the checkpoint says it more exactly
        longest = max(settings.max_model_len or 0, model.spec.max_model_len)
        spec = replace(model.spec, max_model_len=longest)
        if found.engine in LLAMA_ENGINES:
            format_name = None if model.spec.stored_bytes is not None else mix(found, assumed)
            settings = replace(settings, llama_cpp=own_options(engine, own_words(found)))
    except CotenantError as error:
        assumed.append(f"no prediction: {error.faults()[0].message}")
        return None
    loaded = replace(model, spec=spec)
    return Question(loaded, card, engine, version, settings, quantization=format_name, used_bytes=used)


def _with_draft(
    found: Measurement, question: Question | None, draft: LoadedModel | None, assumed: list[str]
) -> Question | None:
    """The same question with the draft that llama.cpp loaded beside."""
    name, kept = found.settings.get("draft_model"), found.settings.get("n_rs_seq")
    if question is None or name is None:
        ahead = (
            question is not None and isinstance(kept, int) and kept > 0
        )  # states that prediction layers roll back
        if question is None or not ahead or not question.model.spec.num_draft_parameters:
            return question
        asked = Speculation("mtp", int(kept or 0))
        return replace(question, settings=replace(question.settings, speculation=asked))
    if draft is None:
        assumed.append(f"the draft {name} is not in the catalogue: it is not in the prediction")
        return question
    speculation = Speculation("draft_model", _DRAFTED, draft.spec)
    return replace(question, settings=replace(question.settings, speculation=speculation))


_DRAFTED = 3  # tokens a step, where nothing says it: rows of logits only


def _engine_words(found: Measurement, assumed: list[str]) -> str:
    """``vllm@0.11.0``; a release that prints such lines where the log names none."""
    version = found.version_assumed or found.engine_version
    if found.version_assumed is not None:
        rules = f"the rules of {found.engine} {found.version_assumed}, which prints such lines, hold"
        assumed.append(
            f"{found.engine_version} ran its old engine, whose rules hold" if found.engine_version
            else f"the log names no version: {rules}"
        )  # fmt: skip
    text = f"{found.engine}@{version}" if version else found.engine
    try:
        find_engine(text)
    except CotenantError:
        if version is None:
            raise
        find_engine(found.engine)
        assumed.append(f"version {version} is not one that the rules know: those of the newest hold")
        return found.engine
    return text


def _utilization(found: Measurement) -> Setting | None:
    """As given, else what the printed budget is of the printed capacity (finer than the two digits printed)."""
    if "gpu_memory_utilization" in found.settings:
        return found.settings["gpu_memory_utilization"]
    budget, capacity = found.value("budget_gib"), found.value("gpu_mem_gib")
    if budget and capacity and 0 < budget <= capacity:
        return round(budget / capacity, 4)
    return found.value("utilization_printed")


def _held_by_others(found: Measurement, capacity: int | None) -> int:
    free = found.size_bytes("free_gib")
    if free is None or capacity is None or found.engine != "vllm" or capacity - free < _OTHERS_BYTES:
        return 0
    return max(0, capacity - free - _OWN_CONTEXT_BYTES)


def _card(
    found: Measurement, capacity: int | None, cards: Sequence[GpuSpec], assumed: list[str]
) -> GpuSpec | None:
    """By the name in the log, else by the capacity in it."""
    alike = [card for card in cards if capacity and abs(card.cuda_bytes.value - capacity) <= _ALIKE * capacity]
    named = _by_name(found.gpu, alike) or _by_name(found.gpu, cards)
    if named is not None:
        return named
    if capacity is None:
        return _by_free(found, cards, assumed)
    able = [card for card in alike if kernel(found.engine, "fp16", card)] or alike
    able = [card for card in able if card.vendor == "NVIDIA"] or able  # most are, where no line says otherwise
    near = min(able, key=lambda card: abs(card.cuda_bytes.value - capacity), default=None)
    if near is None:
        return None
    assumed.append(
        f"the log names no card: {near.name} assumed, by its {format_gib(capacity)}; "
        "name the card if it is another"
    )
    return near


def _by_free(found: Measurement, cards: Sequence[GpuSpec], assumed: list[str]) -> GpuSpec | None:
    """The smallest card that can have had so much free before anything was loaded (SGLang prints it)."""
    free = found.size_bytes("free_gib")
    able = [card for card in cards if free and free <= card.cuda_bytes.high <= free * (1 + _ALIKE)]
    able = [card for card in able if "laptop" not in card.name.lower()] or able
    card = min(able, key=lambda card: card.cuda_bytes.value, default=None)
    if card is not None and free:
        assumed.append(f"the log names no card: {card.name} assumed, by the {format_gib(free)} free at start")
    return card


def _by_name(name: str | None, cards: Sequence[GpuSpec]) -> GpuSpec | None:
    """The card of that name. A driver's name for several sizes (NVIDIA A100-SXM4-80GB) says which."""
    for text in (name, (name or "").removeprefix("NVIDIA ").removeprefix("GeForce ")):
        if not text:
            continue
        try:
            return pick(text, tuple(cards))
        except CotenantError:
            continue
    return None


def _measured_card(card: GpuSpec, capacity: int | None) -> GpuSpec:
    """The card with the capacity that the log printed, unless that is another card's."""
    if capacity is None or abs(card.cuda_bytes.value - capacity) > _ALIKE * capacity:
        return card
    return replace(card, cuda_bytes=Interval.exact(capacity), cuda_measured=True)
