"""From traffic to one replica's needs: how many at once, how much cache, how long a sequence, how fast."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import ceil, exp, inf

from cotenant.domain.demand import Demand, Overload
from cotenant.domain.model import ModelSpec
from cotenant.domain.step_time import Times
from cotenant.domain.workload import Adapter, Lengths, Slo, Trace, Traffic
from cotenant.errors import InputError
from cotenant.estimation.compound import fixed_total, poisson_quantile, poisson_total
from cotenant.estimation.in_flight import Mixture, Quick, SequenceBytes, held_context, held_tokens
from cotenant.estimation.lengths import ConstantLength, LengthModel, length_model
from cotenant.estimation.memo import IdentityCache
from cotenant.estimation.sequence_limit import P999, SequenceLimit, sequence_limit
from cotenant.estimation.service import Service, Work, closed_service, is_overloaded, saturation, steady
from cotenant.estimation.step_constants import FIRST_TOKEN_WIDER
from cotenant.estimation.traced import burst_warning, held_by_trace, traced
from cotenant.units import format_seconds


@dataclass(frozen=True, slots=True)
class _Flight:
    """The lengths of requests and the mixture that they hold; `outputs` None where the context alone is known."""

    inputs: LengthModel
    outputs: LengthModel | None
    held: Mixture


_FLIGHTS: IdentityCache[_Flight] = IdentityCache(256)


@dataclass(frozen=True, slots=True)
class _Load:
    """A replica under its traffic: `at_most` sequences at once and the cache needed at the overflow probability.

    `fixed` when exactly so many are always in flight; `paced`: TTFT and TPOT at the asked percentile, where they
    are known already.
    """

    service: Service
    at_most: int
    needed_bytes: float
    needed_tokens: float
    fixed: bool
    doubts: tuple[str, ...] = ()
    paced: tuple[float, float] | None = None


def demand(
    model: ModelSpec,
    traffic: Traffic,
    *,
    times: Times,
    sequence_bytes: SequenceBytes,
    overflow: float = 0.01,
    model_limit: int | None = None,
    replicas: int = 1,
    slo: Slo | None = None,
    adapters: Iterable[Adapter] = (),
    quick: Quick | None = None,
) -> Demand | Overload:
    """What one of `replicas` equal replicas needs for its share of `traffic`.

    `sequence_bytes(tokens)` is the cache of one sequence as the engine reserves it (blocks, windows, states);
    it must not fall with length. `model_limit` (tokens) defaults to the model's own. A rate is the day's mean
    and is sized at its busiest hour. Returns Overload where the rate is past what one replica can ever serve.
    `quick` does the sums where there are many to do. Raises InputError on traffic without lengths, or numbers
    out of range.
    """
    _check(traffic, overflow, replicas, slo)
    limit = sequence_limit(_parts(traffic), model_limit or model.max_model_len)
    flight = _FLIGHTS.get(
        (model, traffic), (limit.tokens, quick), lambda: _flight(model, traffic, limit.tokens, quick)
    )
    share = (slo.percentile if slo else 95.0) / 100
    load = (
        _traced(traffic.trace, replicas, flight, times, sequence_bytes, overflow, quick, share)
        if traffic.trace is not None
        else _closed(ceil(traffic.concurrent / replicas), flight, times, sequence_bytes, overflow)
        if traffic.concurrent is not None
        else _open(busiest_rate(traffic) / replicas, flight, times, sequence_bytes, overflow, quick, share)
    )
    if isinstance(load, Overload):
        return load
    paces = _paces(load, flight, times, slo, share)
    return _answer(limit, load, sequence_bytes, overflow, tuple(adapters), paces)


def busiest_rate(traffic: Traffic) -> float:
    """Requests/s of the busiest hour: the day's mean x the largest weight over the mean weight; of arrivals that
    pause, while they do not."""
    rate = (traffic.requests_per_second or 0.0) * traffic.arrivals.peak
    if not traffic.by_hour or sum(traffic.by_hour) <= 0:
        return rate
    return rate * max(traffic.by_hour) * len(traffic.by_hour) / sum(traffic.by_hour)


def kv_by_adapter(needed_bytes: int, adapters: tuple[Adapter, ...]) -> dict[str, int]:
    """The pool by adapter, in proportion to traffic; what goes to no adapter stands under "base".

    They share one pool, so parts add up to the whole. Adapters without a share split what is left evenly with
    the base. Raises InputError when shares exceed 100 %.
    """
    if not adapters:
        return {}
    named = sum(adapter.share or 0.0 for adapter in adapters)
    if named > 1 + 1e-9:
        raise InputError(f"adapters' shares add up to {named:.0%}", hint="shares are of the model's whole traffic")
    silent = sum(adapter.share is None for adapter in adapters)
    even = max(0.0, 1 - named) / (silent + 1)
    parts = {a.name: int(needed_bytes * (even if a.share is None else a.share)) for a in adapters}
    return {**parts, "base": needed_bytes - sum(parts.values())}


def _check(traffic: Traffic, overflow: float, replicas: int, slo: Slo | None) -> None:
    if slo is not None and not 0 < slo.percentile < 100:
        raise InputError(f"an SLO's percentile lies between 0 and 100, not at {slo.percentile:g}", hint="write 95")
    if not 0 < overflow < 1:
        raise InputError(f"kv_overflow is a probability between 0 and 1, not {overflow}", hint="write 1%")
    if replicas < 1:
        raise InputError(f"{replicas} replicas serve nothing")
    shapes = (traffic.requests_per_second, traffic.concurrent, traffic.trace)
    if sum(shape is not None for shape in shapes) != 1:
        raise InputError(
            "traffic needs a rate, a concurrency or a trace, and one only",
            hint="requests_per_second, concurrent or trace",
        )
    if (traffic.requests_per_second is not None and traffic.requests_per_second <= 0) or (
        traffic.concurrent is not None and traffic.concurrent <= 0
    ):
        raise InputError("traffic must be positive")


def _parts(traffic: Traffic) -> tuple[Lengths, ...]:
    """The lengths that make up a sequence: input and output, the context in flight alone, or a trace's longest."""
    if traffic.trace is not None:
        return (Lengths(maximum=traffic.trace.longest),)
    known = tuple(part for part in (traffic.input_tokens, traffic.output_tokens) if part is not None)
    if traffic.input_tokens is not None:
        return known
    if traffic.context_tokens is not None and traffic.concurrent is not None:
        return (traffic.context_tokens,)
    raise InputError("traffic has no lengths", hint="a rate needs input_tokens, a concurrency context_tokens")


def _flight(model: ModelSpec, traffic: Traffic, limit: int, quick: Quick | None) -> _Flight:
    if traffic.trace is not None:
        seen = traced(traffic.trace)
        return _Flight(seen.inputs, seen.outputs, held_by_trace(traffic.trace, limit))
    if traffic.input_tokens is None:
        if traffic.context_tokens is None:
            raise InputError("traffic has no lengths")
        context = length_model(traffic.context_tokens, cap=limit)
        outputs: LengthModel | None = ConstantLength(0.0) if model.encoder_only else None
        return _Flight(context, outputs, held_context(context, limit))
    inputs = length_model(traffic.input_tokens, cap=limit)
    if traffic.output_tokens is None:
        return _Flight(inputs, ConstantLength(0.0), held_tokens(inputs, ConstantLength(0.0), limit, quick))
    written = length_model(traffic.output_tokens, cap=limit)
    return _Flight(inputs, written, held_tokens(inputs, written, limit, quick))


def _closed(number: int, flight: _Flight, times: Times, sequence_bytes: SequenceBytes, overflow: float) -> _Load:
    """Exactly `number` in flight."""
    service = closed_service(number, flight.inputs, flight.outputs, flight.held, times)
    atoms = flight.held.sizes(service.prefill_share, sequence_bytes)
    needed = fixed_total(number, atoms, overflow)
    tokens = _tokens(needed, sum(size * p for size, p in atoms), flight, service)
    return _Load(service, number, needed, tokens, fixed=True)


def _open(
    rate: float,
    flight: _Flight,
    times: Times,
    sequence_bytes: SequenceBytes,
    overflow: float,
    quick: Quick | None,
    share: float,
) -> _Load | Overload:
    """`rate` requests/s: the number in service is Poisson. `share`: the percentile of times, where `quick` has
    them."""
    outputs = flight.outputs or ConstantLength(0.0)
    found = None if quick is None else quick.steady(rate, flight.inputs, outputs, flight.held, times, share)
    if found is not None and not found.doubted:
        told = (found.ttft_s, found.tpot_s)
        return _filled(found.service, found.at_most, flight, sequence_bytes, overflow, quick, told)
    work = Work.of(flight.inputs, outputs, flight.held, times)
    service = steady(rate, work)
    if service is None:
        most = saturation(work)
        reason = f"{rate:.3g} requests/s overload one replica: it saturates at {most:.3g} requests/s"
        return Overload(requests_per_second=rate, saturation=most, reason=reason)
    at_most = max(1, poisson_quantile(service.in_service, P999))
    load = _filled(service, at_most, flight, sequence_bytes, overflow, quick)
    return replace(load, doubts=_doubts(rate, work, times))


def _filled(
    service: Service,
    at_most: int,
    flight: _Flight,
    sequence_bytes: SequenceBytes,
    overflow: float,
    quick: Quick | None,
    paced: tuple[float, float] | None = None,
) -> _Load:
    """An open replica in that state, with the cache that it needs."""
    needed, mean_bytes = _needed(service, flight, sequence_bytes, overflow, quick)
    tokens = _tokens(needed, mean_bytes, flight, service)
    return _Load(service, at_most, needed, tokens, fixed=False, paced=paced)


def _needed(
    service: Service, flight: _Flight, sequence_bytes: SequenceBytes, overflow: float, quick: Quick | None
) -> tuple[float, float]:
    """(bytes exceeded with probability `overflow`, mean bytes of a request in service)."""
    found = None
    if quick is not None:
        found = quick.needed(service.in_service, flight.held, sequence_bytes, service.prefill_share, overflow)
    if found is not None:
        return found
    atoms = flight.held.sizes(service.prefill_share, sequence_bytes)
    return poisson_total(service.in_service, atoms, overflow), sum(size * p for size, p in atoms)


def _traced(
    trace: Trace,
    replicas: int,
    flight: _Flight,
    times: Times,
    sequence_bytes: SequenceBytes,
    overflow: float,
    quick: Quick | None,
    share: float,
) -> _Load | Overload:
    """The trace's busiest hour as an open load, with a word where its arrivals bunch."""
    rate = traced(trace).rate / replicas
    load = _open(rate, flight, times, sequence_bytes, overflow, quick, share)
    if isinstance(load, Overload):
        return load
    return replace(load, doubts=(*load.doubts, *burst_warning(trace, load.service.in_service / rate)))


def _tokens(needed: float, mean_bytes: float, flight: _Flight, service: Service) -> float:
    """`needed` bytes in tokens, at the mean bytes a token of this traffic (windows make it its own)."""
    return needed * flight.held.mean_tokens(service.prefill_share) / mean_bytes if mean_bytes else 0.0


def _doubts(rate: float, work: Work, times: Times) -> tuple[str, ...]:
    """A warning where the slow end of the step times' interval would mean overload: steps that take so many times
    as long are overloaded by a rate so many times lower."""
    if not is_overloaded(rate * times.high, work):
        return ()
    limit = saturation(work) / times.high
    return (
        f"{rate:.3g} requests/s a replica may overload it: were steps {times.high:.2g} times as long, the end of "
        f"their 90 % interval, it would saturate at {limit:.3g} requests/s",
    )


def _answer(
    limit: SequenceLimit,
    load: _Load,
    sequence_bytes: SequenceBytes,
    overflow: float,
    adapters: tuple[Adapter, ...],
    paces: _Paces,
) -> Demand:
    longest = sequence_bytes(limit.tokens)
    needed = min(ceil(load.needed_bytes), longest * load.at_most)
    return Demand(
        max_model_len=limit.tokens,
        max_model_len_is_minimum=limit.is_minimum,
        refused_share=limit.refused_share,
        max_num_seqs=load.at_most,
        mean_in_service=load.service.in_service,
        in_service_p999=load.at_most,
        kv_needed_tokens=ceil(load.needed_tokens),
        kv_needed_bytes=needed,
        kv_minimum_bytes=longest,
        kv_worst_case_bytes=longest * load.at_most,
        overflow=overflow,
        busy=1.0 if load.fixed else 1 - exp(-load.service.in_service),
        percentile=paces.percentile,
        ttft_s=paces.ttft_s,
        tpot_s=paces.tpot_s,
        slo_held=paces.held,
        slack=paces.slack,
        kv_by_adapter=kv_by_adapter(needed, adapters),
        warnings=(*((limit.warning,) if limit.warning else ()), *load.doubts, *paces.warnings),
        times_from=paces.times_from,
    )


@dataclass(frozen=True, slots=True)
class _Paces:
    """TTFT and TPOT at a percentile as (low, value, high), and what the SLO says of them."""

    percentile: float
    ttft_s: tuple[float, float, float]
    tpot_s: tuple[float, float, float] | None
    held: bool | None
    slack: float
    warnings: tuple[str, ...]
    times_from: str


def _paces(load: _Load, flight: _Flight, times: Times, slo: Slo | None, share: float) -> _Paces:
    """TTFT and TPOT at the asked percentile, and whether they hold: by value, with a warning where the interval
    reaches past the target."""
    ttft_s, tpot_s = load.paced or _pace(load, flight, times, share)
    ttft = first_token_interval(ttft_s, times)
    decodes = flight.outputs is None or flight.outputs.mean > 0
    tpot = _interval(tpot_s, times) if decodes else None
    targets = (("TTFT", ttft, slo.ttft_s if slo else None), ("TPOT", tpot, slo.tpot_s if slo else None))
    asked = [(name, times_s, target) for name, times_s, target in targets if times_s and target is not None]
    warnings = [
        f"estimated {name} at p{share * 100:g} is {format_seconds(found[1])}, up to {format_seconds(found[2])}: "
        f"the target of {format_seconds(target)} {'may not' if found[1] <= target else 'does not'} hold"
        for name, found, target in asked
        if found[2] > target
    ]
    if asked and flight.outputs is None:
        warnings.append(
            "the context alone is known: TTFT takes all of it as the prompt, TPOT leaves out the prefills of "
            "others; give input_tokens and output_tokens"
        )
    return _Paces(
        percentile=share * 100,
        ttft_s=ttft,
        tpot_s=tpot,
        held=all(found[1] <= target for _, found, target in asked) if asked else None,
        slack=min((target / found[1] - 1 for _, found, target in asked), default=inf),
        warnings=tuple(warnings),
        times_from=times.why,
    )


def _pace(load: _Load, flight: _Flight, times: Times, share: float) -> tuple[float, float]:
    """(TTFT, TPOT) at that share of moments."""
    service = load.service
    batch = load.at_most if load.fixed else 1 + poisson_quantile(service.in_service, share)
    return service.ttft_s(flight.inputs.quantile(share), batch, times), service.tpot_s(batch, times)


def first_token_interval(value: float, times: Times) -> tuple[float, float, float]:
    """(low, value, high) of a time to first token, which queueing makes less certain than a step."""
    low, high = FIRST_TOKEN_WIDER
    return value * times.low * low, value, value * times.high * high


def _interval(value: float, times: Times) -> tuple[float, float, float]:
    return value * times.low, value, value * times.high
