"""A real server on a free port, asked over real sockets."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

import uvicorn

from cotenant.web.app import application
from cotenant.web.jobs import ENDED
from cotenant.web.run import configured
from cotenant.web.state import Options, State

LLAMA = "meta-llama/Llama-3.1-8B-Instruct"


@dataclass(frozen=True)
class Answer:
    """Status, headers (lower case) and body."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        return json.loads(self.body)

    @property
    def errors(self) -> list[str]:
        return [one["error"] for one in self.document["errors"]]


class Page:
    """Asks one server."""

    def __init__(self, port: int, state: State) -> None:
        self.port, self.state = port, state

    def ask(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, body, dict(headers or {}))
            answer = connection.getresponse()
            told = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, told, answer.read())
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Answer:
        return self.ask("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})

    def post(self, path: str, value: object, **headers: str) -> Answer:
        told = {"content-type": "application/json", **{n.replace("_", "-"): v for n, v in headers.items()}}
        return self.ask("POST", path, json.dumps(value).encode(), told)

    def raw(self, data: bytes) -> bytes:
        """What comes back for bytes as they are, until the server closes."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=20) as line:
            try:
                line.sendall(data)
                found = b""
                while part := line.recv(65536):
                    found += part
            except ConnectionError:
                return found
        return found

    def job(self, path: str, value: object) -> Answer:
        """The result of a job, by its own address, once it has ended."""
        ticket = self.post(path, value)
        assert ticket.status == 202, ticket.body
        where = f"/api/jobs/{ticket.document['job']}"
        while self.get(where).document["state"] not in ENDED:
            time.sleep(0.05)
        return self.get(f"{where}/result")


@pytest.fixture(scope="session")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with pytest.MonkeyPatch.context() as patch:
        home = tmp_path_factory.mktemp("home")
        for variable in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "HF_HOME"):
            patch.setenv(variable, str(home))
        patch.setenv("HF_HUB_OFFLINE", "1")
        yield from served(Options(port=0))


def served(options: Options) -> Iterator[Page]:
    """A server in a thread of its own, and its end."""
    listening = socket.create_server(("127.0.0.1", 0))
    app, state = application(options)
    server = uvicorn.Server(configured(app))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield Page(listening.getsockname()[1], state)
    finally:
        server.should_exit = True
        thread.join(20)
        listening.close()
