"""One question about one replica, with everything opened, and its answer."""

from __future__ import annotations

from dataclasses import dataclass, replace

from cotenant.domain.engine import EngineSettings, Version
from cotenant.domain.estimate import Estimate
from cotenant.domain.gpu import GpuSpec
from cotenant.domain.loaded import LoadedModel
from cotenant.domain.workload import SILENT, Adapter, Slo, Traffic
from cotenant.engines.rules import EngineRules
from cotenant.errors import InputError
from cotenant.estimation.memory import estimate_memory
from cotenant.estimation.served_format import ServedFormat, served_format
from cotenant.estimation.what_fits import fitting_concurrency, fitting_settings
from cotenant.units import format_gib


@dataclass(frozen=True, slots=True)
class Question:
    """What does one replica of `model` take of `gpu`, and does it serve `traffic`?

    `quantization` None: the format that the model is stored in. `used_bytes` is held on each card by others.
    """

    model: LoadedModel
    gpu: GpuSpec
    engine: EngineRules
    version: Version
    settings: EngineSettings
    quantization: str | None = None
    used_bytes: int = 0
    traffic: Traffic | None = None
    slo: Slo | None = None
    overflow: float = 0.01
    adapters: tuple[Adapter, ...] = ()


def answer(question: Question) -> Estimate:
    """The estimate, judged. Raises InputError and its kin for what no engine could be asked."""
    if question.used_bytes > question.gpu.driver_bytes.high:
        raise InputError(
            f"{format_gib(question.used_bytes)} held by others is more than the "
            f"{format_gib(question.gpu.driver_bytes.value)} of {question.gpu.name}"
        )
    if question.slo is not None and question.traffic is None:
        raise InputError("an SLO without traffic says nothing", hint="add concurrent or requests_per_second")
    if _lacks_answers(question):
        raise InputError("a rate needs output_tokens, as well as input_tokens", hint="{p50: 150, p95: 400}")
    served = served_format(
        question.model, question.quantization, question.gpu, engine=question.engine, version=question.version
    )
    found = _estimate(question, served)
    hint = _what_fits(question, served, found)
    if hint:
        found = replace(found, reason=f"{found.reason}; {hint}")
    notes = (*found.warnings, *served.warnings, *question.model.spec.notes)
    return replace(found, warnings=notes, arguments=_arguments(question, served, found))


def _lacks_answers(question: Question) -> bool:
    """Whether requests arrive at a rate, with answers of a length that nobody gave."""
    traffic, model = question.traffic, question.model
    if traffic is None or traffic.requests_per_second is None or traffic.output_tokens is not None:
        return False
    return not model.spec.encoder_only and model.task not in SILENT


def _estimate(question: Question, served: ServedFormat) -> Estimate:
    if question.traffic is None:
        return estimate_memory(
            question.model.spec, question.gpu, question.settings, engine=question.engine,
            version=question.version, format=served.format, used_bytes=question.used_bytes,
            model_path=served.model_path,
        )  # fmt: skip
    from cotenant.estimation.sizing import sized_estimate  # only traffic needs its machinery

    return sized_estimate(
        question.model.spec, question.gpu, question.settings, engine=question.engine, version=question.version,
        format=served.format, kernel=served.kernel, traffic=question.traffic, slo=question.slo,
        overflow=question.overflow, adapters=question.adapters, used_bytes=question.used_bytes,
        model_path=served.model_path,
    )  # fmt: skip


def _what_fits(question: Question, served: ServedFormat, found: Estimate) -> str:
    """The nearest settings that fit, or the nearest concurrency; "" where there is nothing to offer."""
    traffic, settings = question.traffic, question.settings
    if found.fits:
        return ""

    def judged(settings: EngineSettings, traffic: Traffic | None) -> Estimate:
        return _estimate(replace(question, settings=settings, traffic=traffic), served)

    if traffic is None:
        return fitting_settings(
            found,
            lambda count: judged(replace(settings, max_num_seqs=count), None),
            lambda length: judged(replace(settings, max_model_len=length), None),
        )
    if traffic.concurrent is None:
        return ""
    return fitting_concurrency(
        found, traffic.concurrent, lambda count: judged(settings, replace(traffic, concurrent=count))
    )


def _arguments(question: Question, served: ServedFormat, found: Estimate) -> tuple[str, ...]:
    """The engine's command, with the adapters' modules where some are named."""
    if not question.adapters:
        return found.arguments
    return question.engine.arguments(
        found.settings,
        version=question.version,
        model_path=served.model_path,
        quantization=served.format.engine_flag,
        adapters=question.adapters,
    )
