"""The queue: fair, bounded, and a cancel that stops what runs. Workers are real processes."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from cotenant.web.jobs import ENDED, Board, Bounds, FullError, Job
from cotenant.web.outcomes import BUSY
from tests.web.conftest import Page

ROOT = Path(__file__).resolve().parents[2]
TRIO = (ROOT / "examples" / "a100-trio.yaml").read_text()
RAW = (ROOT / "examples" / "raw-figures.yaml").read_text()
LONG = {"fleet": RAW, "duration": "40000s"}  # minutes of replay


def workers() -> list[psutil.Process]:
    """Worker processes of this one that run."""
    found = []
    for one in psutil.Process().children(recursive=True):
        try:
            if "cotenant.web.worker" in one.cmdline() and one.status() != psutil.STATUS_ZOMBIE:
                found.append(one)
        except psutil.NoSuchProcess:
            continue
    return found


def test_clients_take_turns_and_a_place_in_the_queue_is_told() -> None:
    async def run() -> list[str]:
        board, order = Board(Bounds(workers=1)), []

        async def follow(job: Job, name: str) -> None:
            while job.state == "waiting":
                await job.changed.wait()
            order.append(name)

        asked = {"log": "x\n"}
        jobs = [(board.submit(who, "explain", asked, {}), f"{who}{n}") for who in "aaab" for n in [len(order)]]
        waiting = [job for job, _ in jobs if job.state == "waiting"]
        assert [board.ahead(job) for job in waiting] == [1, 2, 0]  # who has had no turn yet comes first
        await asyncio.gather(*(follow(job, name[0]) for job, name in jobs))
        await board.close()
        return order

    assert asyncio.run(run()) == ["a", "b", "a", "a"]


def test_names_of_ones_own_choice_gain_nothing_over_other_addresses() -> None:
    """Who spoofs a client a job has one turn of two all the same, and makes room where all places are taken."""

    async def run() -> tuple[int, list[str], list[int], int]:
        board = Board(Bounds(workers=1, waiting=8))
        many = [
            board.submit(f"10.0.0.1 c{number}", "simulate", LONG, {}) for number in range(9)
        ]  # one of them runs
        honest = [board.submit("10.0.0.2 tab", "simulate", LONG, {}) for _ in range(3)]
        refused = 0
        for number in range(9):
            try:
                board.submit(f"10.0.0.1 d{number}", "simulate", LONG, {})
            except FullError:
                refused += 1
        found = board.ahead(honest[0]), [job.state for job in many], [board.ahead(job) for job in honest], refused
        assert {job.status for job in many if job.state == "failed"} == {BUSY}
        await board.close()
        return found

    first, states, ahead, refused = asyncio.run(run())
    assert first == 0
    assert ahead == [0, 2, 4]
    assert states == ["running", *["waiting"] * 5, *["failed"] * 3]
    assert refused == 9


def test_a_client_that_waits_for_nothing_has_a_place_beside_others_of_its_address() -> None:
    """Behind one proxy somebody's twenty jobs keep nobody out; who has as many as others gets no more."""

    async def run() -> tuple[list[str], str, int]:
        board = Board(Bounds(workers=1, waiting=6))
        many = [board.submit(f"10.0.0.1 {who}", "simulate", LONG, {}) for who in "aaaabbb"]
        late = [board.submit("10.0.0.1 c", "simulate", LONG, {}) for _ in range(2)]
        refused = 0
        for who in "abc":
            try:
                board.submit(f"10.0.0.1 {who}", "simulate", LONG, {})
            except FullError:
                refused += 1
        found = [job.state for job in many], "".join(job.state[0] for job in late), refused
        await board.close()
        return found

    states, late, refused = asyncio.run(run())
    assert states == ["running", "waiting", "waiting", "failed", "waiting", "waiting", "failed"]
    assert late == "ww"
    assert refused == 3


def test_room_that_is_made_counts_and_nobody_is_turned_away_for_nothing() -> None:
    """Three jobs of one client wait in 900 bytes: a fourth of another takes the place of one, if it fits then."""

    async def run(size: int) -> tuple[list[str], bool]:
        board = Board(Bounds(workers=1, waiting=3, waiting_bytes=900))
        many = [board.submit("10.0.0.1 a", "explain", {"log": "x" * 150}, {}) for _ in range(4)]
        came = True
        try:
            board.submit("10.0.0.2 b", "explain", {"log": "x" * size}, {})
        except FullError:
            came = False
        found = [job.state for job in many], came
        await board.close()
        return found

    assert asyncio.run(run(260)) == (["running", "waiting", "waiting", "failed"], True)
    assert asyncio.run(run(800)) == (["running", "waiting", "waiting", "waiting"], False)


def test_the_queue_is_bounded() -> None:
    async def run() -> None:
        board = Board(Bounds(workers=1, waiting=3, per_client=2))
        for who in ("a", "a", "b", "c"):
            board.submit(who, "simulate", LONG, {})
        with pytest.raises(FullError, match="2 jobs of yours"):
            board.submit("a", "simulate", LONG, {})
        with pytest.raises(FullError, match="3 jobs wait already"):
            board.submit("d", "simulate", LONG, {})
        await board.close()

    asyncio.run(run())


def test_who_asks_the_same_has_the_place_of_the_one_that_it_follows() -> None:
    async def run() -> list[int]:
        board = Board(Bounds(workers=1))
        for who in "abc":
            board.submit(who, "simulate", LONG, {})
        same = [board.submit(who, "simulate", LONG, {}, "a key") for who in "de"]
        found = [board.ahead(job) for job in same]
        await board.close()
        return found

    assert asyncio.run(run()) == [2, 2]


def test_results_are_let_go() -> None:
    async def run() -> None:
        board = Board(Bounds(workers=1, kept=2, kept_s=0.3))
        jobs = []
        for _ in range(3):
            jobs.append(job := board.submit("a", "explain", {"log": "x\n"}, {}))
            while job.state not in ENDED:
                await job.changed.wait()
        assert [board.find(job.id) is None for job in jobs] == [True, False, False]
        await asyncio.sleep(0.4)
        assert all(board.find(job.id) is None for job in jobs)
        await board.close()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("bounds", "says", "status"),
    [
        (Bounds(workers=1, job_s=4.0), "not done within 4 s", 504),
        (Bounds(workers=1, job_bytes=2**27), "memory", 507),
    ],
)
def test_time_and_memory_are_bounded(bounds: Bounds, says: str, status: int) -> None:
    async def run() -> Job:
        board = Board(bounds)
        job = await board.answer("a", "simulate", LONG, {})
        following = await board.answer("a", "explain", {"log": "x\n"}, {}) if "within" in says else None
        await board.close()
        assert following is None or following.state == "failed"  # the slot is free again
        return job

    before = {one.pid for one in workers()}  # those of a page's server that other tests share
    job = asyncio.run(run())
    assert (job.state, job.status) == ("failed", status)
    assert says in job.errors[0]["error"]
    assert {one.pid for one in workers()} <= before


def test_a_cancel_stops_the_process(page: Page) -> None:
    job = page.post("/api/simulate", LONG).document["job"]
    while not page.get(f"/api/jobs/{job}").document["progress"]:
        time.sleep(0.05)
    during = {one.pid for one in workers()}
    answer = page.ask("DELETE", f"/api/jobs/{job}").document
    assert answer["state"] == "cancelled"
    assert len(during - {one.pid for one in workers()}) == 1  # the one that was at it
    assert page.get(f"/api/jobs/{job}/result").status == 404
    assert page.ask("DELETE", f"/api/jobs/{job}").document["state"] == "cancelled"


def test_events_tell_how_it_goes(page: Page) -> None:
    job = page.post("/api/plan", {"fleet": TRIO, "seed": 7}).document["job"]  # asked by nobody else
    answer = page.get(f"/api/jobs/{job}/events")  # until its end
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = [
        dict(line.split(": ", 1) for line in part.splitlines())
        for part in answer.body.decode().strip().split("\n\n")
    ]
    names = [one.get("event") for one in events if "event" in one]
    assert names[-1] == "done"
    assert "progress" in names
    assert '"gap": 0.0' in [one["data"] for one in events if one.get("event") == "progress"][-1]
    state = page.get(f"/api/jobs/{job}").document
    assert state["state"] == "done"
    assert state["result"]["schema"] == "cotenant/plan/1"


def test_what_there_is_not_is_not_found(page: Page) -> None:
    for path in ("/api/jobs/x", "/api/jobs/x/result", "/api/jobs/x/events", "/api/nothing", "/nothing"):
        answer = page.get(path)
        assert answer.status == 404
        assert answer.errors
    assert page.ask("DELETE", "/api/jobs/x").status == 404
    assert page.get("/api/live").document == {"gateway": None}


def test_too_many_jobs_are_refused_with_a_time_to_wait(page: Page) -> None:
    bodies: list[Any] = [page.post("/api/simulate", LONG, x_client="greedy") for _ in range(20)]
    assert {one.status for one in bodies} == {202, 429}
    full = next(one for one in bodies if one.status == 429)
    assert full.headers["retry-after"]
    for one in bodies:
        if one.status == 202:
            page.ask("DELETE", f"/api/jobs/{one.document['job']}")
