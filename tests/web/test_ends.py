"""How questions end when something goes wrong: callers that leave, workers that hang, break or cannot start."""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from cotenant.web import hands
from cotenant.web.jobs import ENDED, Board, Bounds, Job
from cotenant.web.state import Options
from tests.web.conftest import LLAMA, Page, served
from tests.web.test_jobs import LONG, workers

LOG = {"log": "x\n"}
QUESTION = {"model": LLAMA, "gpu": "L4", "max_model_len": 8192}


@pytest.fixture(scope="module")
def own() -> Iterator[Page]:
    """A server of our own, whose workers are hurt."""
    yield from served(Options(port=0, quick_s=60.0))


def process_of(board: Board) -> psutil.Process:
    """The worker of a board that is asked next."""
    until(lambda: len(board._free) == board.bounds.workers)
    found = board._free[-1]._process
    assert found is not None
    return psutil.Process(found.pid)


def until(holds: Callable[[], bool]) -> None:
    late = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < late
        time.sleep(0.02)


def left(page: Page, path: str, body: object) -> http.client.HTTPConnection:
    """A question whose answer nobody has read yet."""
    line = http.client.HTTPConnection("127.0.0.1", page.port)
    line.request("POST", path, json.dumps(body).encode(), {"content-type": "application/json"})
    return line


def test_who_leaves_takes_the_question_along(own: Page) -> None:
    """Four that hang and are left no longer fill their client's share; the one at work ends with its process."""
    assert own.post("/api/explain", LOG).status == 422
    worker = process_of(own.state.short)
    worker.suspend()  # what a log could do that is read without end
    lines = [left(own, "/api/explain", LOG) for _ in range(4)]
    until(lambda: len(own.state.short._jobs) == 4)
    assert own.post("/api/explain", LOG).status == 429
    for line in lines:
        line.close()
    until(lambda: not own.state.short._jobs)
    assert not worker.is_running() or worker.status() == psutil.STATUS_ZOMBIE
    assert own.post("/api/explain", LOG).status == 422


def test_an_estimate_that_hangs_holds_up_nobody_else(own: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends when its time is up, and says so; another client is answered meanwhile."""
    assert own.post("/api/estimate", QUESTION).status == 200
    worker = process_of(own.state.quick)
    worker.suspend()
    with monkeypatch.context() as patch:
        patch.setattr(own.state.quick, "bounds", replace(own.state.quick.bounds, job_s=2.0))
        stuck = left(own, "/api/estimate", QUESTION | {"max_model_len": 4096})
        until(lambda: any(one.state == "running" for one in own.state.quick._jobs.values()))
        own.get("/api/live")  # its time has begun
    other = own.post("/api/estimate", QUESTION | {"max_model_len": 2048}, x_client="another")
    assert own.get("/api/live").document == {"gateway": None}  # the loop goes on
    assert other.status == 200
    answer = stuck.getresponse()
    assert answer.status == 504
    assert json.loads(answer.read())["errors"][0]["error"] == "not done within 2 s"
    stuck.close()
    assert own.post("/api/estimate", QUESTION | {"max_model_len": 1024}).status == 200


def test_an_estimate_that_is_left_costs_no_process(own: Page) -> None:
    """Sliders leave most of their questions: what waits goes, what runs comes to its end."""
    assert own.post("/api/estimate", QUESTION | {"concurrent": 1, "context_tokens": {"p95": 99}}).status == 200
    before = {one.pid for one in workers()}
    for number in range(12):
        left(own, "/api/estimate", QUESTION | {"used": f"{number}MiB"}).close()
    until(lambda: all(one.state in ENDED for one in own.state.quick._jobs.values()))
    assert own.post("/api/estimate", QUESTION | {"used": "77MiB"}).status == 200
    assert before <= {one.pid for one in workers()}


def test_a_worker_that_cannot_start_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> tuple[Job, Job]:
        board = Board(Bounds(workers=1))
        with monkeypatch.context() as patch:
            patch.setattr(hands.sys, "executable", "/nowhere/python")
            refused = await board.answer("a", "explain", LOG, {})
        after = await board.answer("a", "explain", LOG, {})
        await board.close()
        return refused, after

    refused, after = asyncio.run(run())
    assert (refused.state, refused.status) == ("failed", 503)
    assert refused.errors[0]["error"] == "no worker could be started: No such file or directory"
    assert (after.state, after.status) == ("failed", 422)  # the log is no log, which a worker says


def test_a_fault_of_ours_is_no_refusal_and_the_worker_lives() -> None:
    async def run() -> list[Job]:
        board = Board(Bounds(workers=1))
        jobs = [
            await board.answer("a", kind, asked, {}) for kind, asked in (("explain", LOG), ("no such kind", {}))
        ]
        jobs.append(await board.answer("a", "explain", LOG, {}))
        await board.close()
        return jobs

    before = {one.pid for one in workers()}
    refused, broken, after = asyncio.run(run())
    assert (broken.status, broken.errors[0]["error"]) == (500, "a fault of ours (KeyError)")
    assert refused.status == after.status == 422
    assert {one.pid for one in workers()} <= before


def test_a_worker_that_is_killed_was_most_likely_out_of_memory() -> None:
    async def run() -> Job:
        board = Board(Bounds(workers=1))
        job = board.submit("a", "simulate", LONG, {})
        while not job.progress:
            await job.changed.wait()
        (worker,) = [one for one in workers() if one.pid not in before]
        worker.kill()
        while job.state not in ENDED:
            await job.changed.wait()
        await board.close()
        return job

    before = {one.pid for one in workers()}
    job = asyncio.run(run())
    assert (job.state, job.status) == ("failed", 507)
    assert "out of memory, most likely" in job.errors[0]["error"]


def test_a_cancel_before_the_first_step_frees_the_worker() -> None:
    """The task of a job that is cancelled at once never runs: its worker must not be lost with it."""

    async def run() -> Job:
        board = Board(Bounds(workers=1))
        job = board.submit("a", "simulate", LONG, {})
        await board.cancel(job)
        assert job.state == "cancelled"
        after = await board.answer("a", "explain", LOG, {})
        await board.close()
        return after

    assert asyncio.run(run()).state == "failed"


def test_a_worker_that_is_ended_leaves_no_folder() -> None:
    """Killed with a cancel it cannot take its folder along; there would be one more with each."""

    async def run() -> list[bool]:
        board = Board(Bounds(workers=1))
        found = []
        for _ in range(2):
            job = board.submit("a", "simulate", LONG, {})
            while not job.progress:
                await job.changed.wait()
            (worker,) = [one for one in workers() if one.pid not in before]
            folder = Path(worker.cwd())
            await board.cancel(job)
            found += [folder.name.startswith("cotenant-ui-"), folder.exists()]
        await board.close()
        return found

    before = {one.pid for one in workers()}
    assert asyncio.run(run()) == [True, False] * 2


def test_a_client_leaves_room_for_the_others() -> None:
    async def run() -> list[str]:
        board = Board(Bounds(workers=2, running_per_client=1))
        jobs = [board.submit(who, "simulate", LONG, {}) for who in ("a", "a", "b")]
        states = [job.state for job in jobs]
        await board.cancel(jobs[0])
        states += [jobs[1].state]
        await board.close()
        return states

    assert asyncio.run(run()) == ["running", "waiting", "running", "running"]


def test_uploads_and_checks_at_once(own: Page) -> None:
    """What threads read is theirs: nothing that the loop changes meanwhile."""
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 256, "vocab_size": 320,
        "intermediate_size": 512, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
        "max_position_embeddings": 2048, "torch_dtype": "bfloat16",
    }  # fmt: skip
    found: list[int] = []

    def upload() -> None:
        found.extend(own.post("/api/models", {"config": config}).status for _ in range(8))

    def estimate() -> None:
        for number in range(8):
            told = own.post("/api/models", {"config": config}).document["id"]
            words = {"model": told, "gpu": "L4", "concurrent": number + 1, "context_tokens": {"p95": 512}}
            found.append(own.post("/api/estimate", words).status + 1)

    threads = [threading.Thread(target=one) for one in (upload, upload, estimate, estimate)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert found == [201] * 32
