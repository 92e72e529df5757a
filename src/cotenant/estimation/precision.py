"""The decision matrix: which format a model should run in on this card, this engine and for this task.

The second article's rules, as rules:
  - FP8 first where the card multiplies in it; below (Ampere) it saves memory only;
  - AWQ next where the task is not code; GPTQ where no AWQ checkpoint is known;
  - GGUF on llama.cpp and Ollama (and others that run it), not in vLLM;
  - mixed precision (FP8 attention, INT4 MLP) where memory is short and quality counts;
  - NVFP4 on cards with FP4 tensor cores alone.
Then `max_loss` against the published losses of the same task (quality_evidence.py). No figure is no zero: such
formats come after those that are known. An explicit wish overrides the quality rules, with a warning, but no
kernel rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from cotenant.catalogue.quantization import all_formats, find_format, kernel, speed_figures
from cotenant.domain.engine import Version
from cotenant.domain.gpu import GpuSpec
from cotenant.domain.model import ModelSpec
from cotenant.domain.quantization import (
    Advice,
    KernelSupport,
    PrecisionChoice,
    QuantizationFormat,
    Speed,
)
from cotenant.estimation.memo import IdentityCache
from cotenant.estimation.quality_evidence import Evidence, evidence

# Formats by preference; the first of a row that runs natively leads. Position is the tie-break between equals.
_ORDER = (
    "fp8", "fp8-block", "bf16", "fp16", "int8", "gptq-int8", "gguf-q8_0", "mixed-nvfp4-fp8", "mixed-fp8-int4",
    "nvfp4", "awq-int4", "w4a16", "gptq-int4", "gguf-q6_k", "gguf-q5_k_m", "gguf-q4_k_m", "gguf-iq4_xs",
    "gguf-q4_0", "gguf-f16", "mxfp4", "bnb-int8", "bnb-nf4", "gguf-q3_k_m", "gguf-q2_k", "fp32",
)  # fmt: skip
_BASELINES = ("bf16", "fp16")
_FOUR_BIT = ("awq-int4", "gptq-int4", "w4a16", "bnb-nf4", "mxfp4", "nvfp4", "mixed-fp8-int4", "mixed-nvfp4-fp8")
_ONLINE = {"vllm": ("fp8", "bnb-nf4", "bnb-int8"), "sglang": ("fp8",), "tgi": ("fp8", "bnb-nf4", "bnb-int8")}
_ADVICE = (Advice.USE, Advice.POSSIBLE, Advice.REFUSED)


@dataclass(frozen=True, slots=True)
class _Case:
    """What the rules look at, one format apart."""

    gpu: GpuSpec
    engine: str
    version: Version | None
    task: str
    max_loss_percent: float
    model: ModelSpec | None
    checkpoints: Mapping[str, str]
    wishes: tuple[str, ...]
    memory_is_short: bool


_DECIDED: IdentityCache[tuple[PrecisionChoice, ...]] = IdentityCache(4096)
_KERNELS: IdentityCache[KernelSupport | None] = IdentityCache(4096)  # by card, whatever the model
_EVIDENCE: IdentityCache[Evidence] = IdentityCache(4096)  # by model, whatever the card


def decide(
    gpu: GpuSpec,
    *,
    engine: str,
    version: Version | None = None,
    task: str = "chat",
    max_loss_percent: float = 1.0,
    model: ModelSpec | None = None,
    checkpoints: Mapping[str, str] | None = None,
    wishes: Sequence[str] = (),
    memory_is_short: bool = False,
) -> tuple[PrecisionChoice, ...]:
    """Every format of the catalogue, best first, with the reason; `engine` is an engine's id.

    `checkpoints` maps format names (or "gguf") to the hub ids that are known to hold them, `wishes` are format
    names in order of preference: with any, all other formats are refused. Raises InputError for a wish that is no
    format.
    """
    wanted = tuple(find_format(name).name for name in wishes)
    known = checkpoints or {}
    case = _Case(gpu, engine, version, task, max_loss_percent, model, known, wanted, memory_is_short)
    key = (engine, version, task, max_loss_percent, tuple(known.items()), wanted, memory_is_short)
    return _DECIDED.get((gpu, model), key, lambda: _decided(case))


def _decided(case: _Case) -> tuple[PrecisionChoice, ...]:
    rows = [_choice(format_, case) for format_ in _formats(case)]
    rows.sort(key=lambda row: _key(row, case))
    return tuple(replace(row, rank=number) for number, row in enumerate(rows, start=1))


def _formats(case: _Case) -> tuple[QuantizationFormat, ...]:
    """The catalogue's, and those beside them that the model is stored in, was asked in or has a checkpoint of: a
    GGUF file may be of any block type or mix."""
    listed = all_formats()
    own = case.model.quantization if case.model is not None else ""
    others = (own, *case.wishes, *(name for name in case.checkpoints if name != "gguf"))
    known = {format_.name for format_ in listed}
    beside = [
        find_format(name) for name in dict.fromkeys(others) if name.startswith("gguf-") and name not in known
    ]
    return (*listed, *beside)


def candidates(choices: Sequence[PrecisionChoice]) -> tuple[PrecisionChoice, ...]:
    """The rows that may run, in rank order."""
    return tuple(row for row in choices if row.advice is not Advice.REFUSED)


def _key(row: PrecisionChoice, case: _Case) -> tuple[int, ...]:
    wish = case.wishes.index(row.format) if row.format in case.wishes else len(case.wishes)
    order = _ORDER.index(row.format) if row.format in _ORDER else len(_ORDER)
    if row.memory_only:
        order = max(order, _ORDER.index("gptq-int8"))  # after 16 and native 8 bits, before 4
    if case.memory_is_short and row.format.startswith("mixed"):
        order = _ORDER.index("int8")
    known = row.quality_known or row.format in _BASELINES
    return (_ADVICE.index(row.advice), wish, int(not known), order)


def _choice(format_: QuantizationFormat, case: _Case) -> PrecisionChoice:
    support = _KERNELS.get(
        (case.gpu,), (case.engine, format_.name, case.version),
        lambda: kernel(case.engine, format_.name, case.gpu, case.version),
    )  # fmt: skip
    found = _EVIDENCE.get(
        (case.model,), (format_.name, case.task, case.max_loss_percent),
        lambda: evidence(format_.name, task=case.task, max_loss_percent=case.max_loss_percent, model=case.model),
    )  # fmt: skip
    row = PrecisionChoice(
        format=format_.name,
        title=format_.title,
        advice=Advice.REFUSED,
        rank=0,
        kernel=support,
        quality=found.figure,
        quality_known=found.compared and found.passes is not None,
        memory_only=_memory_only(format_, support, case),
        checkpoint=_checkpoint(format_.name, case.checkpoints),
        online=format_.name in _ONLINE.get(case.engine, ()),
        reason="",
    )
    refusal = _cannot_run(row, support, case)
    if refusal:
        return replace(row, reason=refusal)
    if case.wishes:
        return _wished(row, found, case)
    return _ruled(row, found, case)


def _checkpoint(name: str, known: Mapping[str, str]) -> str:
    """The hub id that holds it; one repository often holds every GGUF mix, and is then known as `gguf`."""
    return known.get(name) or (known.get("gguf", "") if name.startswith("gguf-") else "")


def _memory_only(format_: QuantizationFormat, support: KernelSupport | None, case: _Case) -> bool:
    """Whether the format saves bytes but multiplies in 16 bits although it was made to multiply in fewer."""
    narrow = format_.activation in ("fp8", "fp4", "int8")
    if support is None or not narrow:
        return False
    return support.speed is not Speed.FAST or not case.gpu.has_native(format_.activation)


def _cannot_run(row: PrecisionChoice, support: KernelSupport | None, case: _Case) -> str:
    """Why the format cannot or must not run there, whatever the wish; "" when it can."""
    gguf = row.format.startswith("gguf")
    if gguf and case.engine == "vllm":
        return f"GGUF is for llama.cpp and Ollama{_slow_in_vllm()}"
    if row.format.startswith(("nvfp4", "mixed-nvfp4")) and not case.gpu.has_native("fp4"):
        return f"{case.gpu.name} has no FP4 tensor cores; NVFP4 is for Blackwell"
    if support is None:
        if case.engine in ("llama.cpp", "ollama") and not gguf:
            return f"{case.engine} runs GGUF files"
        release = f" {case.version}" if case.version is not None else ""
        return f"{case.engine}{release} has no kernel for it on {case.gpu.name}"
    own = case.model.quantization if case.model is not None else ""
    if own and row.format != own and not row.checkpoint:
        return f"the model is stored in {own}, and no {row.title} checkpoint is known"
    if row.format in _BASELINES and row.format not in case.wishes and not _is_baseline(row.format, case):
        return "the other 16-bit type serves as the reference here"
    return ""


@lru_cache(maxsize=1)
def _slow_in_vllm() -> str:
    """The published pair of speeds on one card and model, where the catalogue has it."""
    figures = [figure for figure in speed_figures() if figure.engine == "vllm"]
    for slow in (figure for figure in figures if figure.format.startswith("gguf")):
        for fast in figures:
            same = (fast.model, fast.gpu, fast.metric) == (slow.model, slow.gpu, slow.metric)
            if same and fast.format == "awq-int4" and "marlin" in fast.kernel.lower():
                return (
                    f": {slow.value:g} tokens/s in vLLM where AWQ with Marlin runs {fast.value:g} ({slow.model})"
                )
    return ""


def _is_baseline(name: str, case: _Case) -> bool:
    """One 16-bit type stands for both: an FP16 model's own, else BF16 where the engine runs it on the card."""
    if case.model is not None and case.model.dtype in ("fp16", "float16"):
        return name == "fp16"
    bf16 = kernel(case.engine, "bf16", case.gpu, case.version) is not None
    return name == ("bf16" if bf16 else "fp16")


def _wished(row: PrecisionChoice, found: Evidence, case: _Case) -> PrecisionChoice:
    if row.format not in case.wishes:
        return replace(row, reason="not among the formats that were asked for")
    warnings: list[str] = []
    free = row.format in _BASELINES or _is_own(row, case)
    if found.passes is False and not free:
        limit = f"more than the {case.max_loss_percent:g}% allowed" if found.compared else "that is far"
        warnings.append(f"{row.title} was asked for although {found.words}: {limit}")
    elif found.passes is None and not free:
        warnings.append(f"{row.title} was asked for; its loss on {case.task} is unknown ({found.words})")
    if not (free or row.checkpoint or row.online):
        warnings.append(f"no {row.title} checkpoint of this model is known: name one as {{{row.format}: hub/id}}")
    return replace(row, advice=Advice.USE, reason=f"asked for{_runs(row)}", warning="; ".join(warnings))


def _ruled(row: PrecisionChoice, found: Evidence, case: _Case) -> PrecisionChoice:
    """The rules for a format that has a kernel and was not asked for by name."""
    if _is_own(row, case):
        return replace(row, advice=Advice.USE, reason=f"the format that the model is published in{_runs(row)}")
    if row.format in _BASELINES:
        return replace(row, advice=Advice.USE, reason="the reference: no loss, most bytes")
    if row.format == "fp32":
        return replace(row, reason="twice the bytes of BF16 for no gain in serving")
    if found.passes is False:
        limit = f"above the {case.max_loss_percent:g}% that {case.task} may lose"
        return replace(row, reason=f"{found.words}: {limit if found.compared else 'too far to recommend'}")
    if case.task == "code" and row.format in _FOUR_BIT and not (found.own and found.passes):
        return replace(row, reason=f"code loses most in 4 bits, and nothing shows that this model does not"
                                   f" ({found.words})")  # fmt: skip
    doubts = _doubts(row, found, case)
    advice = Advice.POSSIBLE if doubts or row.memory_only else Advice.USE
    head = _headline(row.format, case)
    return replace(row, advice=advice, reason="; ".join(part for part in (head + _runs(row), *doubts) if part))


def _is_own(row: PrecisionChoice, case: _Case) -> bool:
    return case.model is not None and row.format == case.model.quantization


def _headline(name: str, case: _Case) -> str:
    if name in ("fp8", "fp8-block") and case.gpu.has_native("fp8"):
        return "FP8 first where the card has it: half the bytes"
    if name.startswith("gguf"):
        return f"GGUF is what {case.engine} runs"
    if name.startswith("mixed"):
        return "between FP8 and INT4 in bytes and quality"
    return "about a quarter of the bytes" if name in _FOUR_BIT else "half the bytes"


def _runs(row: PrecisionChoice) -> str:
    if row.kernel is None:
        return ""
    note = " (memory only: weights are widened before they are multiplied)" if row.memory_only else ""
    return f", {row.kernel.speed.value} with {row.kernel.kernel}{note}"


def _doubts(row: PrecisionChoice, found: Evidence, case: _Case) -> list[str]:
    """What keeps a format from being recommended outright."""
    doubts: list[str] = []
    if row.kernel is not None and row.kernel.speed is not Speed.FAST and not row.memory_only:
        doubts.append(f"the kernel is {'slow' if row.kernel.speed is Speed.SLOW else 'not the fast one'}")
    if row.format == "gptq-int4" and "awq-int4" in case.checkpoints:
        doubts.append("AWQ comes first: its checkpoint is known")
    if row.format.startswith("mixed") and not case.memory_is_short:
        doubts.append("worth it where memory is short and quality counts")
    if not row.checkpoint and not row.online:
        doubts.append("no checkpoint is known here")
    if found.passes is None:
        doubts.append(f"its loss on {case.task} is unknown ({found.words})")
    return doubts
