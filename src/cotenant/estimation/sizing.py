"""A replica sized from its traffic: from step times to the demand, from that to settings and their estimate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cotenant.domain.demand import Demand, Overload
from cotenant.domain.engine import EngineSettings, Version
from cotenant.domain.estimate import Estimate, Verdict
from cotenant.domain.gpu import GpuSpec
from cotenant.domain.model import ModelSpec
from cotenant.domain.quantization import KernelSupport, QuantizationFormat
from cotenant.domain.workload import Adapter, Slo, Traffic
from cotenant.engines.rules import EngineRules
from cotenant.estimation.demand import demand
from cotenant.estimation.in_flight import SequenceBytes
from cotenant.estimation.kv_cache import CacheLayout, cache_layout
from cotenant.estimation.memory import estimate_memory
from cotenant.estimation.sequence_limit import longest_sequence
from cotenant.estimation.speculation import served_model
from cotenant.estimation.step_time import roofline


def sized_estimate(
    model: ModelSpec,
    gpu: GpuSpec,
    settings: EngineSettings,
    *,
    engine: EngineRules,
    version: Version,
    format: QuantizationFormat,  # noqa: A002 - the field's own word
    traffic: Traffic,
    kernel: KernelSupport | None = None,
    slo: Slo | None = None,
    overflow: float = 0.01,
    adapters: Sequence[Adapter] = (),
    used_bytes: int = 0,
    model_path: str = "",
) -> Estimate:
    """The estimate of one replica that serves all of `traffic`; what `settings` leave open follows from it.

    A replica that the rate overloads, or whose SLO is not held, does not fit, whatever its memory.
    """
    whole = roofline(
        model, gpu, engine=engine.name, version=version, format=format, kernel=kernel,
        tensor_parallel_size=settings.tensor_parallel_size, kv_cache_dtype=settings.kv_cache_dtype,
    )  # fmt: skip
    sequence_bytes = reserved_bytes(model, gpu, settings, engine=engine, version=version)
    times = replace(whole, chunk_tokens=sequence_bytes.batched_tokens)
    asked = demand(
        model, traffic, times=times, sequence_bytes=sequence_bytes, overflow=overflow, slo=slo, adapters=adapters,
        model_limit=settings.max_model_len,
    )  # fmt: skip

    def judged(settings: EngineSettings, asked: Demand | None) -> Estimate:
        return estimate_memory(
            model, gpu, settings, engine=engine, version=version, format=format, used_bytes=used_bytes,
            demand=asked, model_path=model_path,
        )  # fmt: skip

    if isinstance(asked, Overload):
        return replace(judged(settings, None), verdict=Verdict.DOES_NOT_FIT, reason=asked.reason)
    found = replace(judged(settings, asked), demand=asked)
    if settings.max_model_len is None and asked.max_model_len_is_minimum and found.fits:
        grown = _grown(found, asked, sequence_bytes)
        longer = judged(replace(settings, max_model_len=grown.max_model_len), grown)
        found = replace(longer, demand=grown) if longer.fits else found
    return _with_doubts(_with_worst_case(found, sequence_bytes))


@dataclass(frozen=True, slots=True)
class ReservedBytes:
    """What an engine reserves of one rank for a sequence of so many tokens; equal ones share their tables."""

    layout: CacheLayout
    batched_tokens: int

    def __call__(self, tokens: int) -> int:
        """Bytes for one sequence of `tokens`."""
        return self.layout.sequence_bytes(tokens, self.batched_tokens)

    def of_all(self, lengths: Sequence[int]) -> list[int]:
        """The same for many sequences, a group of layers at a time."""
        layout = self.layout
        in_flight = layout.batch_factor * self.batched_tokens
        each = [group.blocks_of(lengths, in_flight) for group in layout.groups]
        if not each:
            return [0] * len(lengths)
        blocks = map(max, *each) if layout.apart and len(each) > 1 else map(sum, zip(*each, strict=True))
        return [count * layout.block_bytes[0] for count in blocks]


def reserved_bytes(
    model: ModelSpec, gpu: GpuSpec, settings: EngineSettings, *, engine: EngineRules, version: Version
) -> ReservedBytes:
    """What the engine reserves under these settings, defaults filled in."""
    resolved = engine.resolve(model, gpu, settings, version)
    layout = cache_layout(served_model(model, settings), resolved, engine.rules(version).cache)
    return ReservedBytes(layout, resolved.max_num_batched_tokens or 1)


def _grown(estimate: Estimate, asked: Demand, sequence_bytes: SequenceBytes) -> Demand:
    """The same demand with the longest sequence that even the low end of the pool holds."""
    pool = min(rank.kv_cache.bytes.low for rank in estimate.per_gpu)
    half = asked.max_model_len // 2  # the lone percentile, which it is twice of
    length = longest_sequence(pool, sequence_bytes, percentile=half, model_limit=estimate.model.max_model_len)
    length = max(length, asked.max_model_len)
    longest = sequence_bytes(length)
    return replace(
        asked,
        max_model_len=length,
        kv_minimum_bytes=longest,
        kv_worst_case_bytes=longest * asked.max_num_seqs,
    )


def _with_worst_case(estimate: Estimate, sequence_bytes: SequenceBytes) -> Estimate:
    """What the settings allow, where they allow more than the traffic asked."""
    settings = estimate.settings
    worst = sequence_bytes(settings.max_model_len or 1) * (settings.max_num_seqs or 1)
    return replace(estimate, kv_cache=replace(estimate.kv_cache, worst_case_bytes=worst))


def _with_doubts(estimate: Estimate) -> Estimate:
    """The demand's warnings, what the settings would hold back, and the SLO as part of the verdict."""
    asked = estimate.demand
    if asked is None:
        return estimate
    warnings = [*estimate.warnings, *asked.warnings]
    seqs = estimate.settings.max_num_seqs or 0
    if seqs < asked.max_num_seqs:
        warnings.append(
            f"max_num_seqs {seqs:,} is below the {asked.max_num_seqs:,} requests in service at the 99.9th "
            "percentile: some would wait, longer than estimated"
        )
    broken = [warning for warning in asked.warnings if warning.endswith("does not hold")]
    if broken and estimate.verdict is not Verdict.DOES_NOT_FIT:
        rest = tuple(warning for warning in warnings if warning not in broken)
        return replace(estimate, verdict=Verdict.DOES_NOT_FIT, reason="; ".join(broken), warnings=rest)
    return replace(estimate, warnings=tuple(warnings))
