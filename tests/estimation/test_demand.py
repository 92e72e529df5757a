"""Traffic against closed forms, laws and a simulation of requests that come and go."""

import heapq
import random
from math import exp, inf, log

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotenant.domain.demand import Demand, Overload
from cotenant.domain.model import AttentionKind, LayerGroup, ModelSpec
from cotenant.domain.step_time import Line, Scaled, StepTimes
from cotenant.domain.workload import Adapter, Lengths, Slo, Traffic
from cotenant.errors import InputError
from cotenant.estimation.compound import poisson_quantile
from cotenant.estimation.demand import busiest_rate, demand, kv_by_adapter

MODEL = ModelSpec(
    "test", "Test", "test", (LayerGroup(AttentionKind.FULL, (0,)),), (), 1, 1, 1, 1, max_model_len=131_072
)
TOKEN = 131_072  # bytes: Llama-3.1-8B


def plane(
    base_s: float,
    sequence_s: float,
    context_s: float,
    prefill_s: float,
    token_s: float,
    square_s: float,
    first_s: float,
) -> StepTimes:
    """One line for steps of any number of sequences, and one for all prefills."""
    decode, prefill = ((Line(inf, base, each),) for base, each in ((base_s, context_s), (prefill_s, token_s)))
    ranges = ((1, 64), (1, 4096), (1, 4096))
    return StepTimes((decode,), sequence_s, prefill, square_s, first_s, 0.6, 2.0, *ranges)


STEADY = plane(0.02, 0, 0, 0, 0, 0, 0.05)
REAL = plane(0.02, 1e-4, 1e-7, 0.01, 2e-4, 1e-9, 0.046)
CHAT = (Lengths(600, 1600), Lengths(150, 400))


def blocks(tokens: int) -> int:
    return -(-tokens // 16) * 16 * TOKEN


def linear_bytes(tokens: int) -> int:
    return tokens * TOKEN


def asked(traffic: Traffic, times: StepTimes | Scaled = REAL, **wishes: object) -> Demand:
    found = demand(MODEL, traffic, times=times, sequence_bytes=blocks, **wishes)  # type: ignore[arg-type]
    assert isinstance(found, Demand)
    return found


def chat(rate: float) -> Traffic:
    return Traffic(requests_per_second=rate, input_tokens=CHAT[0], output_tokens=CHAT[1])


def test_constant_contexts_are_exact() -> None:
    found = asked(Traffic(concurrent=8, context_tokens=Lengths(p95=2048)))
    assert found.kv_needed_bytes == 8 * 2048 * TOKEN
    assert found.kv_needed_tokens == 8 * 2048
    assert (found.max_num_seqs, found.mean_in_service) == (8, 8)
    assert found.max_model_len == 4096
    assert found.max_model_len_is_minimum
    assert found.kv_minimum_bytes == 4096 * TOKEN
    assert found.kv_worst_case_bytes == 8 * 4096 * TOKEN
    assert found.warnings
    assert found.slo_held is None
    assert found.slack == inf
    assert found.busy == 1


def test_blocks_round_up() -> None:
    assert asked(Traffic(concurrent=3, context_tokens=Lengths(p95=2049))).kv_needed_bytes == 3 * 2064 * TOKEN


def test_littles_law_with_constant_steps() -> None:
    """No prefill and 20 ms a token: rate x mean output x 20 ms in service, Poisson."""
    traffic = Traffic(requests_per_second=2.0, input_tokens=Lengths(p95=1000), output_tokens=Lengths(p95=100))
    found = asked(traffic, STEADY)
    assert found.mean_in_service == pytest.approx(2 * 100 * 0.02, rel=1e-5)
    assert found.max_num_seqs == poisson_quantile(4.0, 0.999) == 11
    assert found.refused_share == pytest.approx(0.1)  # at most 5 % by input and 5 % by output


def test_the_fixed_point_in_closed_form() -> None:
    """Linear steps: n = rate (P + O (base + k (1 + n)) + n P) solved for n."""
    traffic = Traffic(requests_per_second=1.5, input_tokens=Lengths(p95=1000), output_tokens=Lengths(p95=100))
    times = plane(0.02, 5e-4, 0, 0.01, 5e-5, 0, 0)
    prefill = 0.01 + 0.05
    expected = 1.5 * (prefill + 100 * 0.0205) / (1 - 1.5 * (100 * 5e-4 + prefill))
    assert asked(traffic, times).mean_in_service == pytest.approx(expected, rel=1e-4)


def test_overload_says_where_it_saturates() -> None:
    times = plane(0.02, 5e-4, 0, 0.01, 5e-5, 0, 0)
    traffic = Traffic(requests_per_second=20, input_tokens=Lengths(p95=1000), output_tokens=Lengths(p95=100))
    found = demand(MODEL, traffic, times=times, sequence_bytes=blocks)
    assert isinstance(found, Overload)
    assert found.saturation == pytest.approx(1 / (100 * 5e-4 + 0.06), rel=1e-3)
    assert "saturates at 9.09 requests/s" in found.reason
    assert isinstance(demand(MODEL, traffic, times=times, sequence_bytes=blocks, replicas=3), Demand)


def _totals_at_random_moments(rate: float, step_s: float, horizon_s: float, seed: int) -> list[float]:
    """Tokens in flight, sampled once a second: arrivals, growth and departures played out one by one."""
    draw = random.Random(seed)
    arrival, sample, totals = 0.0, 100.0, []
    live: list[tuple[float, float, float]] = []  # (end, start, input)
    sigma = [log(part.p95 / part.p50) / 1.6448536 for part in CHAT]
    while sample < horizon_s:
        arrival += draw.expovariate(rate)
        while sample < min(arrival, horizon_s):
            while live and live[0][0] <= sample:
                heapq.heappop(live)
            totals.append(sum(given + (sample - start) / step_s for _, start, given in live))
            sample += 1.0
        given, written = (part.p50 * exp(s * draw.gauss(0, 1)) for part, s in zip(CHAT, sigma, strict=True))
        heapq.heappush(live, (arrival + written * step_s, arrival, given))
    return totals


@pytest.mark.parametrize(("rate", "seed"), [(0.5, 3), (4.0, 5)])
def test_quantile_within_one_percent_of_a_played_out_service(rate: float, seed: int) -> None:
    """The 10 % quantile, where 60,000 samples are sharp; the tail is held by test_compound against exact grids."""
    totals = sorted(_totals_at_random_moments(rate, 0.02, 60_000, seed))
    found = demand(MODEL, chat(rate), times=STEADY, sequence_bytes=linear_bytes, overflow=0.1)
    assert isinstance(found, Demand)
    played = totals[int(0.9 * len(totals))]
    assert found.kv_needed_bytes / TOKEN == pytest.approx(
        played, rel=0.025
    )  # samples a second apart are correlated
    above = sum(total > found.kv_needed_bytes / TOKEN for total in totals) / len(totals)
    assert above == pytest.approx(0.1, abs=0.008)


def test_the_trios_chat_model() -> None:
    found = asked(chat(0.4), slo=Slo(3.0, 0.080, 95))
    assert 1 < found.mean_in_service < 2
    assert found.kv_needed_bytes < found.kv_worst_case_bytes / 3
    assert found.refused_share == pytest.approx(0.001, abs=1e-4)
    assert found.slo_held is True
    assert found.ttft_s is not None
    assert found.tpot_s is not None
    assert found.ttft_s[0] < found.ttft_s[1] < found.ttft_s[2] < 3


def test_a_tight_slo_is_not_held_and_a_near_one_warns() -> None:
    base = asked(chat(0.4), slo=Slo(tpot_s=0.020))
    assert base.slo_held is False
    assert any("does not hold" in warning for warning in base.warnings)
    assert base.slack < 0
    assert base.tpot_s is not None
    near = asked(chat(0.4), slo=Slo(tpot_s=base.tpot_s[1] * 1.1))
    assert near.slo_held is True
    assert near.slack == pytest.approx(0.1)
    assert near.busy == pytest.approx(1 - exp(-near.mean_in_service))
    assert any("may not hold" in warning for warning in near.warnings)


@settings(max_examples=30, deadline=None)
@given(st.floats(0.05, 3), st.floats(1.05, 2))
def test_more_traffic_never_needs_less(rate: float, factor: float) -> None:
    less, more = (demand(MODEL, chat(r), times=REAL, sequence_bytes=blocks) for r in (rate, rate * factor))
    if isinstance(less, Overload):
        assert isinstance(more, Overload)
    elif isinstance(more, Demand):
        assert more.kv_needed_bytes >= less.kv_needed_bytes * 0.99
        assert more.max_num_seqs >= less.max_num_seqs
        assert more.mean_in_service > less.mean_in_service


@settings(max_examples=30, deadline=None)
@given(
    st.floats(0.001, 0.2),
    st.floats(1.2, 5),
    st.sampled_from([chat(0.7), Traffic(concurrent=5, context_tokens=CHAT[0])]),
)
def test_a_rarer_overflow_never_needs_less(overflow: float, factor: float, traffic: Traffic) -> None:
    often, rare = (asked(traffic, overflow=p).kv_needed_bytes for p in (overflow, overflow / factor))
    assert rare >= often * 0.99


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 40), st.integers(1, 8))
def test_replicas_share_the_traffic(number: int, replicas: int) -> None:
    whole = asked(Traffic(concurrent=number, context_tokens=Lengths(p95=500)))
    part = asked(Traffic(concurrent=number, context_tokens=Lengths(p95=500)), replicas=replicas)
    assert part.max_num_seqs * replicas >= number
    assert part.kv_needed_bytes * replicas >= whole.kv_needed_bytes
    assert asked(chat(1.2), replicas=4) == asked(chat(0.3))


def test_slower_steps_need_more() -> None:
    usual, slow = asked(chat(0.5)), asked(chat(0.5), Scaled(REAL, 2.0))
    assert slow.mean_in_service > 2 * usual.mean_in_service
    assert slow.kv_needed_bytes > usual.kv_needed_bytes


def test_a_rate_near_saturation_warns() -> None:
    base = demand(MODEL, chat(100), times=REAL, sequence_bytes=blocks)
    assert isinstance(base, Overload)
    found = asked(chat(base.saturation * 0.7))
    assert any("may overload" in warning for warning in found.warnings)
    assert not any("may overload" in warning for warning in asked(chat(base.saturation * 0.2)).warnings)


def test_what_a_context_alone_leaves_out_is_said() -> None:
    found = asked(Traffic(concurrent=4, context_tokens=Lengths(p95=2048)), slo=Slo(ttft_s=9, tpot_s=9))
    assert found.slo_held is True
    assert any("leaves out" in warning for warning in found.warnings)
    played = Traffic(concurrent=4, input_tokens=Lengths(p95=1900), output_tokens=Lengths(p95=148))
    busy = asked(played, slo=Slo(ttft_s=9, tpot_s=9))
    assert busy.tpot_s is not None
    assert found.tpot_s is not None
    assert busy.tpot_s[1] > found.tpot_s[1]
    assert busy.kv_needed_bytes < found.kv_needed_bytes


def test_never_more_than_the_worst_case() -> None:
    for traffic in (chat(0.01), chat(2), Traffic(concurrent=2, context_tokens=Lengths(100, 9000))):
        found = asked(traffic, overflow=1e-6)
        assert found.kv_needed_bytes <= found.kv_worst_case_bytes
        assert found.kv_pool_bytes >= found.kv_minimum_bytes


def test_windows_and_fixed_parts_go_through_the_callable() -> None:
    def windowed(tokens: int) -> int:
        return 1_000_000 + min(tokens, 512) * 1000

    found = demand(
        MODEL, Traffic(concurrent=4, context_tokens=Lengths(p95=9000)), times=REAL, sequence_bytes=windowed
    )
    assert isinstance(found, Demand)
    assert found.kv_needed_bytes == 4 * 1_512_000


def test_encoders_have_no_cache_and_no_tpot() -> None:
    encoder = ModelSpec(
        "bert", "Bert", "bert", (LayerGroup(AttentionKind.NONE, (0,)),), (), 1, 1, 1, 1, 512, encoder_only=True
    )
    traffic = Traffic(requests_per_second=5, input_tokens=Lengths(100, 300))
    found = demand(encoder, traffic, times=REAL, sequence_bytes=lambda _: 0)
    assert isinstance(found, Demand)
    assert found.kv_needed_bytes == 0
    assert found.tpot_s is None
    fixed = demand(
        encoder, Traffic(concurrent=4, context_tokens=Lengths(p95=100)), times=REAL, sequence_bytes=lambda _: 0
    )
    assert isinstance(fixed, Demand)
    assert fixed.tpot_s is None
    assert found.max_model_len <= 512


def test_the_busiest_hour_is_sized() -> None:
    day = Traffic(requests_per_second=1.0, by_hour=(0.5,) * 12 + (1.5,) * 12)
    assert busiest_rate(day) == pytest.approx(1.5)
    assert busiest_rate(Traffic(requests_per_second=1.0)) == 1.0


def test_adapters_parts_add_up() -> None:
    parts = kv_by_adapter(1000, (Adapter("legal", 16, share=0.2), Adapter("sales", 8), Adapter("hr", 8)))
    assert parts == {"legal": 200, "sales": 266, "hr": 266, "base": 268}
    assert kv_by_adapter(1000, ()) == {}
    found = asked(chat(0.4), adapters=(Adapter("legal", 16, share=0.2),))
    assert sum(found.kv_by_adapter.values()) == found.kv_needed_bytes
    with pytest.raises(InputError, match="add up"):
        kv_by_adapter(1, (Adapter("a", 1, share=0.7), Adapter("b", 1, share=0.7)))


@pytest.mark.parametrize(
    "traffic",
    [
        Traffic(),
        Traffic(requests_per_second=1),
        Traffic(requests_per_second=0, input_tokens=Lengths(p95=5), output_tokens=Lengths(p95=5)),
        Traffic(concurrent=0, context_tokens=Lengths(p95=5)),
        Traffic(concurrent=4),
        Traffic(requests_per_second=1, concurrent=4, context_tokens=Lengths(p95=5)),
    ],
)
def test_refusals(traffic: Traffic) -> None:
    with pytest.raises(InputError):
        demand(MODEL, traffic, times=REAL, sequence_bytes=blocks)
    with pytest.raises(InputError):
        demand(MODEL, chat(1), times=REAL, sequence_bytes=blocks, overflow=1.0)
    with pytest.raises(InputError):
        demand(MODEL, chat(1), times=REAL, sequence_bytes=blocks, replicas=0)
    with pytest.raises(InputError):
        demand(MODEL, chat(1), times=REAL, sequence_bytes=blocks, slo=Slo(tpot_s=1, percentile=100))
