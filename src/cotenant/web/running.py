"""Jobs over HTTP: asked for, followed, fetched and cancelled."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response, StreamingResponse

from cotenant.web import bodies
from cotenant.web.documents import compact
from cotenant.web.jobs import ENDED, FullError, Job
from cotenant.web.memo import question_key
from cotenant.web.state import State
from cotenant.web.strict import StrictRoute, faults, refusal

_BEAT_S = 10.0
_MOST_FOLLOWERS = 256  # streams of events, which stay open as long as their jobs run
_NO_JOB = bodies.refusals(404)
_STREAM: dict[int | str, dict[str, Any]] = {**_NO_JOB, 200: {"content": {"text/event-stream": {}}}}


def running(state: State) -> APIRouter:
    """Paths of long questions."""
    router = APIRouter(prefix="/api", route_class=StrictRoute)
    _asked(state, router)
    _followed(state, router)
    return router


def _asked(state: State, router: APIRouter) -> None:
    @router.post("/plan", response_model=bodies.JobTicket, status_code=202)
    async def plan(body: bodies.PlanBody, request: Request) -> Response:
        """Place a fleet's models on its cards."""
        return submitted(state, request, "plan", body.model_dump(exclude_none=True))

    @router.post("/simulate", response_model=bodies.JobTicket, status_code=202)
    async def simulate(body: bodies.SimulateBody, request: Request) -> Response:
        """Replay a plan against its traffic."""
        if body.plan is None and body.fleet is None:
            return refusal(422, "a plan or a fleet is replayed, or a plan under another fleet's traffic", path="$")
        return submitted(state, request, "simulate", body.model_dump(exclude_none=True))


def _followed(state: State, router: APIRouter) -> None:
    @router.get("/jobs/{job_id}", response_model=bodies.JobState, responses=_NO_JOB)
    async def job(job_id: str) -> Response:
        """How a job stands, with its answer once there is one."""
        found = state.board.find(job_id)
        return unknown() if found is None else _plain(job_bytes(found, state.board.ahead(found)))

    @router.get("/jobs/{job_id}/result", response_model=dict[str, Any], responses=_NO_JOB)
    async def result(job_id: str) -> Response:
        """The answer alone: the bytes of the command line's `--json`."""
        found = state.board.find(job_id)
        if found is None or found.state in ("waiting", "running", "cancelled"):
            return unknown() if found is None else refusal(404, f"the job is {found.state}: it has no answer")
        return faults(found.status, found.errors) if found.errors else _plain(found.result)

    @router.get("/jobs/{job_id}/events", response_class=StreamingResponse, responses=_STREAM)
    async def events(job_id: str) -> Response:
        """Server-sent events: `progress` (message, cost, bound, gap), `state`, and at the end `done`, `failed` or
        `cancelled`."""
        found = state.board.find(job_id)
        if found is None:
            return unknown()
        if state.followers >= _MOST_FOLLOWERS:
            return refusal(429, "as many follow jobs as can", "ask for the job itself", retry_after="5")
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        return StreamingResponse(_events(state, found), media_type="text/event-stream", headers=headers)

    @router.delete("/jobs/{job_id}", response_model=bodies.JobState, responses=_NO_JOB)
    async def cancel(job_id: str) -> Response:
        """Stop a job, wherever it is."""
        found = state.board.find(job_id)
        if found is None:
            return unknown()
        await state.board.cancel(found)
        return _plain(job_bytes(found, 0))


def submitted(state: State, request: Request, kind: str, asked: Mapping[str, Any]) -> Response:
    """The job's id, or 429 where the queue takes no more."""
    try:
        known = state.named_in(asked)
        job = state.board.submit(client_of(request), kind, asked, known, question_key(kind, asked))
    except FullError as full:
        return refusal(429, full.reason, "cancel one, or wait", retry_after="5")
    return Response(compact({"job": job.id}), 202, media_type="application/json")


def client_of(request: Request) -> str:
    """Who asks, for fairness: the address, and the tab where the page says which it is."""
    address = request.client.host if request.client else ""
    return f"{address} {request.headers.get('x-client', '')[:64]}"


def unknown() -> Response:
    """No such job."""
    return refusal(404, "no such job: it was forgotten, or never asked for")


def job_bytes(job: Job, ahead: int) -> bytes:
    """`JobState`, with the result's own bytes inside."""
    head = {
        "job": job.id, "kind": job.kind, "state": job.state, "ahead": ahead, "progress": job.progress,
        "errors": job.errors,
    }  # fmt: skip
    return compact(head)[:-1] + b',"result":' + (job.result.strip() or b"null") + b"}"


def _plain(body: bytes) -> Response:
    return Response(body, media_type="application/json", headers={"cache-control": "no-store"})


async def _events(state: State, job: Job) -> AsyncIterator[bytes]:
    state.followers += 1
    try:
        async for event in _told(state, job):
            yield event
    finally:
        state.followers -= 1


async def _told(state: State, job: Job) -> AsyncIterator[bytes]:
    sent, told = 0, ""
    while True:
        changed = job.changed
        first = max(sent - job.dropped, 0)
        for message in job.progress[first:]:
            yield _event("progress", message)
        sent = job.dropped + len(job.progress)
        if job.state in ENDED:
            yield _event(job.state, {"job": job.id, "errors": job.errors})
            return
        if told != job.state:
            told = job.state
            yield _event("state", {"state": told, "ahead": state.board.ahead(job)})
        try:
            async with asyncio.timeout(_BEAT_S):
                await changed.wait()
        except TimeoutError:
            yield b": still here\n\n"


def _event(name: str, data: Mapping[str, Any]) -> bytes:
    return f"event: {name}\ndata: {json.dumps(data, allow_nan=False)}\n\n".encode()
