"""What the live benchmarks compute by themselves: swaps in the simulator, edges by halving, ends of a stream."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import pytest

from bench.live_bound import fewest_swaps
from bench.live_edge import Edge, _last
from bench.live_ends import _end_of
from bench.live_seeds import _kept
from bench.live_simulated import Profile, best, simulate
from bench.live_swaps import Mix, Served, mixes, p95_of, ratio
from bench.live_troubled import Ends

PLAIN = {
    name: Profile(wakes=(1.0,), sleeps=(0.1,), reads=(0.2,), step_s=0.01, beside_s=0.005)
    for name in ("alpha", "beta")
}


def test_two_users_by_turns_cost_a_swap_a_request_unless_a_model_stays() -> None:
    mix = Mix("two users", users=1, count=40)
    swaps, p95 = simulate(mix, PLAIN, seed=1)
    assert swaps == 2 * 40 - 1  # the first request finds its model awake
    assert p95["alpha"] == pytest.approx(2 * (1.1 + 0.25), rel=0.05)  # both swaps and both answers
    calm = best(mix, PLAIN, p95)
    swaps, calm_p95 = simulate(calm, PLAIN, seed=1)
    assert calm.settings[0] >= 3
    assert swaps < 20
    assert all(calm_p95[name] <= p95[name] for name in p95)


def test_a_request_alone_waits_for_a_wake_and_nothing_else() -> None:
    mix = Mix("one each", order=((0.0, "alpha"), (10.0, "beta"), (20.0, "beta")))
    swaps, p95 = simulate(mix, PLAIN, seed=1)
    assert swaps == 1
    assert p95 == {"alpha": pytest.approx(0.25), "beta": pytest.approx(1.1 + 0.25)}


def test_where_no_settings_answer_in_time_the_nearest_are_taken() -> None:
    mix = Mix("clock", order=tuple((place * 1.5, ("alpha", "beta")[place % 2]) for place in range(30)))
    limits = dict.fromkeys(PLAIN, 0.001)
    (_, nearest), (_, hasty) = (simulate(one, PLAIN, 0) for one in (best(mix, PLAIN, limits), mix))
    assert max(nearest.values()) <= max(hasty.values())


def test_a_hold_lets_a_model_serve_what_comes_meanwhile() -> None:
    mix = Mix("clock", order=tuple((place * 1.5, ("alpha", "beta")[place % 2]) for place in range(30)))
    many, _ = simulate(replace(mix, settings=(0.0, 0.0, 0.0)), PLAIN, 0)
    few, _ = simulate(replace(mix, settings=(0.0, 0.0, 4.0)), PLAIN, 0)
    assert few < many / 2


@pytest.mark.parametrize("limit", [1.6, 2.5, 4.0, 9.0])
def test_nobody_does_with_fewer_swaps_than_the_bound(limit: float) -> None:
    """Against all ways to cut the same eight requests into turns, tried one by one."""
    arrivals = [[0.0, 1.0, 2.5, 6.0], [0.5, 2.0, 3.0, 5.5]]
    found = fewest_swaps(arrivals, [0.25, 0.25], [0.5, 0.75], [limit, limit])
    assert found == _by_trying(arrivals, [0.25, 0.25], [0.5, 0.75], limit)


def _by_trying(arrivals: list[list[float]], serves: list[float], swaps: list[float], limit: float) -> int | None:
    best_count: int | None = None
    for order in set(permutations("aaaabbbb")):
        now, count, model, done = 0.0, 0, 0, [0, 0]
        for letter in order:
            wanted = "ab".index(letter)
            if wanted != model:
                model, count, now = wanted, count + 1, now + swaps[wanted]
            came = arrivals[model][done[model]]
            now, done[model] = max(now, came) + serves[model], done[model] + 1
            if now - came > limit:
                break
        else:
            best_count = count if best_count is None else min(best_count, count)
    return best_count


def test_a_mix_answered_later_counts_as_no_gain() -> None:
    def served(swaps: int, seconds: float) -> Served:
        return Served(swaps, seconds={name: [seconds] * 20 for name in PLAIN})

    (mix, *_) = mixes()
    assert ratio([(mix, served(3, 1.0), served(30, 1.0))])[0] == pytest.approx(0.1)
    assert ratio([(mix, served(3, 2.0), served(30, 1.0))])[0] == 1.0


def test_p95_is_the_nearest_rank() -> None:
    assert p95_of([float(one) for one in range(100)]) == 95.0
    assert p95_of([7.0]) == 7.0


@pytest.mark.parametrize("edge", [0, 1, 17, 63])
def test_the_last_that_holds_is_found_by_halving(edge: int) -> None:
    tried: list[int] = []
    assert _last(lambda one: tried.append(one) or one <= edge, 63) == edge
    assert len(tried) <= 6


def test_an_edge_holds_within_the_interval_and_a_grain() -> None:
    assert Edge(11_008, 11_264, 9_728, 11_776, 0, 3, 4).holds
    assert not Edge(9_216, 11_264, 9_728, 11_776, 0, 3, 4).holds


def test_the_end_of_a_stream_is_told_by_what_came() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
    assert _end_of(head + b"data: {}\n\ndata: [DONE]\n\n0\r\n\r\n") == "answer"
    assert _end_of(head + b'data: {"error": {}}\n\n0\r\n\r\n') == "error in the stream"
    assert _end_of(head + b"data: {}\n\n0\r\n\r\n") == "cut silently"
    assert _end_of(head + b"data: {}\n\n") == "connection ended"
    assert _end_of(b'HTTP/1.1 503 No\r\n\r\n{"error": {}}') == "error 503"
    assert _end_of(b"HTTP/1.1 502 No\r\n\r\n") == "cut silently"
    assert _end_of(b"") == "connection ended"


def test_a_word_is_owed_unless_the_gateway_was_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = Ends(deadline_s=8.0)
    monkeypatch.setattr("bench.live_troubled.time.monotonic", lambda: 100.0)
    ends.judge("connection ended", 99.0)
    assert ends.bad == ["the connection ended without a word"]
    ends.down.append((99.5, 101.0))
    ends.judge("connection ended", 99.0)
    ends.judge("answer", 80.0)  # too late, whatever came
    assert len(ends.bad) == 2


def test_seeds_that_were_kept_are_read_and_half_a_line_is_not(tmp_path: Path) -> None:
    place = tmp_path / "x.seeds"
    place.write_text(json.dumps([0, 21_000, 0.6, [], "ab"]) + "\n" + "[100, 21_0")
    assert _kept(place) == {0: (21_000, 0.6, [], "ab")}
    assert _kept(None) == {}
    assert _kept(tmp_path / "none") == {}
