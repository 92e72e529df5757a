"""The same question is answered once: kept, shared while it runs, and handed on where the first one gives up."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

import pytest

from cotenant.web.jobs import Board, Bounds, Job
from cotenant.web.memo import Memo, question_key
from cotenant.web.state import Options, State
from tests.web.conftest import Page
from tests.web.test_jobs import LONG, RAW

SHORT = {"fleet": RAW, "duration": "30s", "seed": 3}


def test_a_question_asked_again_is_answered_at_once(page: Page) -> None:
    first = page.post("/api/simulate", SHORT).document["job"]
    page.get(f"/api/jobs/{first}/events")
    again = page.post("/api/simulate", SHORT).document["job"]
    state = page.get(f"/api/jobs/{again}").document
    assert again != first
    assert (state["state"], state["progress"]) == ("done", [])
    answer = page.get(f"/api/jobs/{again}/result").body
    assert answer == page.get(f"/api/jobs/{first}/result").body
    other = page.post("/api/simulate", SHORT | {"seed": 4}).document["job"]
    page.get(f"/api/jobs/{other}/events")
    assert page.get(f"/api/jobs/{other}/result").body != answer


def test_who_asks_the_same_meanwhile_follows_and_inherits() -> None:
    async def run() -> tuple[list[Job], int]:
        board = Board(Bounds(workers=2))
        one, two, three = (board.submit(who, "simulate", LONG, {}, "key") for who in "abc")
        assert [job.state for job in (one, two, three)] == ["running"] * 3
        at_work = len(board._tasks)
        while not two.progress:
            await asyncio.sleep(0.05)
        await board.cancel(two)  # a follower goes alone
        assert (one.state, two.state, three.state) == ("running", "cancelled", "running")
        await board.cancel(one)  # the first one goes: the last one's question lives on
        while three.state != "running":
            await asyncio.sleep(0.05)
        assert three.task is not None
        await board.close()
        return [one, two, three], at_work

    jobs, at_work = asyncio.run(run())
    assert at_work == 1
    assert {job.state for job in jobs} == {"cancelled"}


def test_followers_share_what_goes_wrong() -> None:
    async def run() -> list[Job]:
        board = Board(Bounds(workers=1))
        jobs = [board.submit(who, "plan", {"fleet": "gpus: 3"}, {}, "key") for who in "ab"]
        while any(job.state == "running" for job in jobs):
            await asyncio.sleep(0.02)
        await board.close()
        return jobs

    first, second = asyncio.run(run())
    assert first.state == second.state == "failed"
    assert first.errors == second.errors != []


def test_the_page_opens_with_an_answer_that_is_there() -> None:
    async def run() -> Job:
        state = State(Options(warm=True))
        await state.warm()
        text = json.loads((await state.catalogue()).data)
        fleet = next(one["fleet"] for one in text["examples"] if one["name"] == text["first_example"])
        asked = {"seed": 0, "fleet": fleet, "replay": False, "why": False}
        job = state.board.submit("a stranger", "plan", asked, {}, question_key("plan", asked))
        # it follows the one that began with the server, or finds it done
        assert len(state.board._tasks) == (job.state == "running")
        while job.state == "running":
            await job.changed.wait()
        late = state.board.submit("another", "plan", asked, {}, question_key("plan", asked))
        assert (late.state, late.result) == ("done", job.result)
        await state.close()
        return job

    assert json.loads(asyncio.run(run()).result)["feasible"] is True


def test_keys_are_of_the_whole_question_and_the_users_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    before = question_key("plan", SHORT)
    assert before == question_key("plan", dict(reversed(SHORT.items()))) != question_key("simulate", SHORT)
    assert question_key("plan", SHORT | {"time_limit": "3s"}) is None
    own = tmp_path / "cotenant" / "catalogue"
    own.mkdir(parents=True)
    (own / "gpus.json").write_text("[]")
    with_cards = question_key("plan", SHORT)
    assert before != with_cards
    time.sleep(0.02)
    (own / "gpus.json").write_text("[ ]")
    assert question_key("plan", SHORT) not in (before, with_cards)


def test_the_memo_is_bounded() -> None:
    memo = Memo(10)
    memo.keep(None, b"12345")
    memo.keep("a", b"12345")
    memo.keep("b", b"12345")
    assert memo.find("a") == b"12345"
    memo.keep("c", b"123")  # b is the oldest that nobody asked for
    assert [memo.find(key) for key in ("a", "b", "c", None)] == [b"12345", None, b"123", None]
