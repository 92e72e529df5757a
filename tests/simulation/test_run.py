"""Whole plans against their traffic."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import cotenant
from cotenant.catalogue.gpus import find_gpu
from cotenant.domain.engine import Version
from cotenant.domain.replay import Replay
from cotenant.domain.workload import Slo, Trace
from cotenant.engines.starting import starting
from cotenant.errors import CotenantError
from cotenant.estimation.swapping import swap_seconds
from cotenant.simulation.costs import StepCosts
from cotenant.simulation.kernel import Host, Stream, run
from cotenant.simulation.load import Limits, Requests, Status
from cotenant.simulation.metrics import model_replay
from cotenant.simulation.plain import simulate
from cotenant.simulation.replica import Replica

UNIT = 1_000_000
LIMITS = Limits(4, 16, 4, 64, 64)
EVEN = StepCosts.plane(10 * UNIT, 0, 0, 10 * UNIT, 0, 0)  # every step takes 10 ns
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def host(requests: Requests, card: str) -> Host:
    return Host(Replica(requests, LIMITS, EVEN), (card,))


def test_neighbours_take_turns() -> None:
    """Five steps each on one card: twice as long while both work; on two cards nobody notices."""
    requests = Requests.of([0], [4], [5])
    for cards, ends in ((("a", "a"), [100, 100]), (("a", "b"), [50, 50])):
        hosts = [host(requests, card) for card in cards]
        run(hosts, [Stream(requests, (0,)), Stream(requests, (1,))])
        assert [int(one.replica.outcome(0, 0).finish_ns[0]) for one in hosts] == ends


def test_the_slowdown_ends_with_the_neighbour() -> None:
    short, long = Requests.of([0], [4], [1]), Requests.of([0], [4], [3])
    hosts = [host(short, "a"), host(long, "a")]
    run(hosts, [Stream(short, (0,)), Stream(long, (1,))])
    assert hosts[1].last_fs == (20 + 10 + 10) * UNIT
    assert (hosts[1].busy_fs, hosts[1].alone_fs) == (40 * UNIT, 30 * UNIT)


def test_a_closed_loop_keeps_its_users_in_flight() -> None:
    requests = Requests.of([0] * 50, [4] * 50, [5] * 50)
    one = host(requests, "a")
    stream = Stream(requests, (0,), users=2, until_ns=200)
    run([one], [stream])
    assert stream.came_ns == [0, 0, 50, 50, 100, 100, 150, 150]
    assert one.replica.outcome(0, 0).status.tolist()[:8] == [Status.FINISHED] * 8


def test_requests_go_to_the_emptier_replica() -> None:
    requests = Requests.of([0, 0, 0, 0], [4] * 4, [5] * 4)
    hosts = [host(requests, "a"), host(requests, "b")]
    run(hosts, [Stream(requests, (0, 1))])
    assert [one.replica.taken for one in hosts] == [2, 2]


def test_metrics_by_hand() -> None:
    requests = Requests.of([0, 0], [4, 4], [5, 1])
    outcome = simulate(requests, LIMITS, EVEN)
    found = model_replay(
        "m", requests, outcome, slo=Slo(ttft_s=1.0, tpot_s=9e-9), first_token_s=0.5, duration_s=2.0
    )
    assert found.ttft_s is not None
    assert found.ttft_s.p50 == pytest.approx(0.5 + 10e-9)
    assert found.tpot_s is not None
    assert found.tpot_s.p95 == pytest.approx(10e-9)
    assert (found.goodput, found.attainment, found.slo_held) == (0.5, 0.5, False)  # one token alone has no gap


def replayed(seed: int) -> Replay:
    return cotenant.simulate(EXAMPLES / "raw-figures.yaml", duration="5s", seed=seed)


def test_same_seed_same_answer_another_seed_another() -> None:
    assert replayed(1) == replayed(1)
    assert replayed(1) != replayed(2)


def test_one_model_alone_takes_the_fast_core_and_says_the_same() -> None:
    """A trace on a card of its own: the figures of the fast core against a run of the plain one."""
    trace = Trace("t", tuple(np.arange(40) * 0.25), (300,) * 40, (20,) * 40)
    fleet = {
        "engine": "vllm@0.21",
        "headroom": "5%",
        "gpus": [{"type": "A100-80GB-SXM", "count": 1}],
        "models": [
            {
                "name": "only",
                "model": "meta-llama/Llama-3.1-8B-Instruct",
                "traffic": {"concurrent": 4, "context_tokens": {"p95": 2048}},
                "slo": {"ttft": "2s", "tpot": "100ms"},
            }
        ],
    }
    found = cotenant.simulate(fleet, traces={"only": trace})
    (model,) = found.models
    assert (model.requests, model.finished, model.slo_held) == (40, 40, True)
    assert model.tpot_s is not None
    assert 0.005 < model.tpot_s.p50 < 0.03
    assert found.replicas[0].slowdown == 1.0


def test_models_that_do_not_fit_together_take_turns() -> None:
    """Three 8 GB models on a 24 GB card: no plan, but turns; a new process costs more than a wake."""
    fleet = {
        "engine": "vllm@0.21",
        "headroom": "10%",
        "gpus": [{"type": "L4", "count": 1}],
        "models": [
            {
                "name": model.partition("/")[2],
                "model": model,
                "quantization": ["fp8"],
                "traffic": {
                    "requests_per_second": 0.05,
                    "input_tokens": {"p50": 400},
                    "output_tokens": {"p50": 60},
                },
            }
            for model in (
                "meta-llama/Llama-3.1-8B-Instruct",
                "mistralai/Mistral-7B-Instruct-v0.3",
                "Qwen/Qwen3-8B",
            )
        ],
    }
    assert any(model.unfinished for model in cotenant.simulate(fleet, duration="60s").models)
    quick, slow = (
        cotenant.simulate(fleet, duration="300s", policy=policy) for policy in ("swap", "restart")
    )  # fmt: skip
    for found in (quick, slow):
        assert all(model.finished == model.requests for model in found.models)
    assert sum(replica.wakes or 0 for replica in quick.replicas) > 4
    waits = [max(model.ttft_s.p95 for model in found.models if model.ttft_s) for found in (quick, slow)]
    assert waits[0] < 10 < waits[1]


def test_more_load_than_capacity_is_said_and_ends() -> None:
    """Two models on one card, one of them replaying far more than it can serve."""
    flood = Trace("flood", tuple(number * 0.001 for number in range(4000)), (900,) * 4000, (900,) * 4000)
    found = cotenant.simulate(EXAMPLES / "raw-figures.yaml", duration="4s", traces={"scorer": flood})
    model = found.models[0]
    assert model.unfinished > 0
    assert model.finished + model.unfinished == 4000
    assert any("more load than capacity" in warning for warning in found.warnings)
    assert found.end_s < 700


def test_swap_times_follow_bytes_and_links() -> None:
    """A 16 GB model over an A100's link: 0.6 s, and a quarter of one to map its cache again."""
    how = starting("vllm", Version.parse("0.11"))
    found = swap_seconds(16_060_522_496, find_gpu("A100-80GB-SXM"), 50 * 2**30, starting=how)
    assert found["sleep-1"][1] == pytest.approx(16.06 / 25.2 + 65 / 258, rel=0.02)
    assert found["sleep-2"][1] == pytest.approx(16.06 / 3.5 + 65 / 258, rel=0.02)
    assert found["sleep-1"][1] < found["sleep-2"][1] < found["restart"][1]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"patience": "-1s", "policy": "swap"}, "patience|negative|time"),
        ({"policy": "magic"}, "no policy 'magic'"),
        ({"duration": "0s"}, "duration"),
        ({"traces": ["nowhere.csv"]}, "which model"),
        ({"traces": ["scorer=nowhere.csv"]}, "no trace at"),
        ({"traces": {"other": "nowhere.csv"}}, "no model 'other'"),
    ],
)
def test_bad_questions_are_refused(options: dict[str, object], says: str) -> None:
    with pytest.raises(CotenantError, match=says):
        cotenant.simulate(EXAMPLES / "raw-figures.yaml", **options)  # type: ignore[arg-type]
