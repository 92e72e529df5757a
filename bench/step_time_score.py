"""From records to errors: predicted against published, figure by figure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import exp, log
from statistics import median

from bench.step_time_predict import Predicted, predict
from bench.step_time_rows import LeftOutError, Record, Situation, situation
from cotenant.estimation.step_constants import FIRST_TOKEN_WIDER, FITTED, Fitted

_NAMES = ("gpu", "engine", "engine_version", "precision", "tp", "ep", "request_rate")
_DIFFERS = 1.1  # two configurations are told apart from here


@dataclass(frozen=True, slots=True)
class Pair:
    """A published figure beside ours, with the ends of our interval as factors."""

    record: Record
    published: float
    ours: float
    low: float
    high: float

    @property
    def error(self) -> float:
        """|ours / published - 1|."""
        return abs(self.ours / self.published - 1)

    @property
    def covered(self) -> bool:
        """Whether the published figure lies in our interval."""
        return self.ours * self.low <= self.published <= self.ours * self.high


@dataclass(frozen=True, slots=True)
class Scored:
    """All pairs of a file by figure, and what was left out by reason."""

    tpot: tuple[Pair, ...]
    ttft: tuple[Pair, ...]
    throughput: tuple[Pair, ...]
    left_out: Counter[str]


def score(records: Iterable[Record], fitted: Fitted = FITTED) -> Scored:
    """Every record once; one without any figure that we predict is left out with that reason."""
    tpot: list[Pair] = []
    ttft: list[Pair] = []
    rate: list[Pair] = []
    left_out: Counter[str] = Counter()
    for record in records:
        try:
            asked = situation(record, fitted)
            found = predict(asked, fitted)
        except LeftOutError as error:
            left_out[str(error)] += 1
            continue
        tpot.extend(_pair(asked, found.tpot_s, _tpot_s(record)))
        ttft.extend(_pair(asked, found.ttft_s, _ttft_s(record), FIRST_TOKEN_WIDER))
        rate.extend(_rates(asked, found))
    return Scored(tuple(tpot), tuple(ttft), tuple(rate), left_out)


def _pair(
    asked: Situation, ours: float | None, published: float | None, wider: tuple[float, float] = (1.0, 1.0)
) -> Iterator[Pair]:
    if ours is not None and published:
        yield Pair(asked.record, published, ours, asked.times.low * wider[0], asked.times.high * wider[1])


def _rates(asked: Situation, found: Predicted) -> Iterator[Pair]:
    """A rate's interval is a time's turned over."""
    published = _output_rate(asked.record)
    if found.output_rate is not None and published:
        yield Pair(asked.record, published, found.output_rate, 1 / asked.times.high, 1 / asked.times.low)


def _tpot_s(record: Record) -> float | None:
    """Seconds a token after the first, the mean before the median; one token has none."""
    if (record["osl"] or 0) < 2:
        return None
    names = ("tpot_ms", "tpot_ms_p50", "itl_ms", "itl_ms_p50")
    return next((record[name] / 1e3 for name in names if record.get(name)), None)


def _ttft_s(record: Record) -> float | None:
    return next((record[name] / 1e3 for name in ("ttft_ms", "ttft_ms_p50") if record.get(name)), None)


def _output_rate(record: Record) -> float | None:
    """Output tokens/s; of a total, the share that is output; of an offline batch, from its latency."""
    if record["output_tps"]:
        return float(record["output_tps"])
    share = (record["osl"] or 0) / ((record["isl"] or 0) + (record["osl"] or 0) or 1)
    if record["total_tps"]:
        return float(record["total_tps"]) * share
    if record["kind"].startswith("offline") and record["latency_s"] and record["osl"]:
        return float(record["concurrency"] * record["osl"] / record["latency_s"])
    return None


def median_error(pairs: Sequence[Pair]) -> float:
    """The median of |ours / published - 1|."""
    return median(pair.error for pair in pairs)


def quantile_error(pairs: Sequence[Pair], p: float) -> float:
    """That quantile of |ours / published - 1|."""
    ordered = sorted(pair.error for pair in pairs)
    return ordered[min(len(ordered) - 1, int(p * len(ordered)))]


def bias(pairs: Sequence[Pair]) -> float:
    """The median of ours / published."""
    return exp(median(log(pair.ours / pair.published) for pair in pairs))


def order_right(pairs: Sequence[Pair]) -> tuple[float, int]:
    """(Share, number) of pairs of configurations in the order published, where they differ by 10 %.

    A choice is between cards, engines, precisions and ranks for one model under one load, as published together.
    """
    compared = [_in_order(one, two) for one, two in _comparable(pairs)]
    return sum(compared) / len(compared) if compared else float("nan"), len(compared)


def order_missed(pairs: Sequence[Pair]) -> list[tuple[str, int, int]]:
    """Where the order is wrong: (what differs, pairs wrong, pairs compared), the most wrong first."""
    missed: Counter[str] = Counter()
    whole: Counter[str] = Counter()
    for one, two in _comparable(pairs):
        kind = ", ".join(name for name in _NAMES if one.record[name] != two.record[name])
        whole[kind] += 1
        missed[kind] += not _in_order(one, two)
    return [(kind, wrong, whole[kind]) for kind, wrong in missed.most_common() if wrong]


def _in_order(one: Pair, two: Pair) -> bool:
    return one.ours != two.ours and (one.ours < two.ours) == (one.published < two.published)


def _comparable(pairs: Sequence[Pair]) -> Iterator[tuple[Pair, Pair]]:
    groups: dict[tuple[object, ...], list[Pair]] = defaultdict(list)
    for pair in pairs:
        record = pair.record
        groups[record["pub"], record["arch"], record["isl"], record["osl"], record["concurrency"]].append(pair)
    for group in groups.values():
        for one, two in combinations(group, 2):
            if max(one.published, two.published) < _DIFFERS * min(one.published, two.published):
                continue
            if _setting(one.record) != _setting(two.record):
                yield one, two


def _setting(record: Record) -> tuple[object, ...]:
    return tuple(record[name] for name in _NAMES)


def order_everywhere(pairs: Sequence[Pair]) -> tuple[float, int]:
    """As `order_right`, of any two records of one model in one publication, whatever their load."""
    groups: dict[tuple[object, ...], list[Pair]] = defaultdict(list)
    for pair in pairs:
        groups[pair.record["pub"], pair.record["arch"]].append(pair)
    right = total = 0
    for group in groups.values():
        for one, two in combinations(group, 2):
            if max(one.published, two.published) >= _DIFFERS * min(one.published, two.published):
                total += 1
                right += (one.ours < two.ours) == (one.published < two.published)
    return right / total if total else float("nan"), total


def anchored_errors(pairs: Sequence[Pair], interval: tuple[float, float]) -> tuple[float, float, int]:
    """(Median error, share within `interval`, rows) where one load of each configuration scales all its others.

    A configuration is a model on a card under an engine's version, in a precision, on so many ranks; its load of
    middle concurrency is the one that was measured. Configurations with fewer than four loads are left out.
    """
    low, high = interval
    factors: list[float] = []
    for group in _configurations(pairs):
        ordered = sorted(group, key=lambda pair: (pair.record["concurrency"] or 0, pair.record["isl"]))
        known = ordered[len(ordered) // 2]
        scale = known.published / known.ours
        factors += [pair.published / (pair.ours * scale) for pair in ordered if pair is not known]
    if not factors:
        return float("nan"), float("nan"), 0
    inside = sum(low <= factor <= high for factor in factors) / len(factors)
    return median(abs(1 / factor - 1) for factor in factors), inside, len(factors)


def _configurations(pairs: Sequence[Pair]) -> Iterator[list[Pair]]:
    names = ("pub", "engine", "engine_version", "arch", "gpu", "precision", "tp")
    groups: dict[tuple[object, ...], list[Pair]] = defaultdict(list)
    for pair in pairs:
        groups[tuple(pair.record[name] for name in names)].append(pair)
    return (group for group in groups.values() if len(group) >= 4)
