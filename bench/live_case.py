"""A gateway as a user runs it: its own process, stub engines behind it, spoken to over sockets."""

from __future__ import annotations

import http.client
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

MIB = 2**20
STUB = Path(__file__).parents[1] / "tests" / "edge" / "stub_engine.py"
Document = dict[str, Any]


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def plan_document(
    models: dict[str, int], capacity: int, *, slots: int = 2, engine: str = "llama.cpp@11549"
) -> Document:
    """A plan of one replica a model (name -> bytes) on one device; engines listen on ports that are free."""
    device = {"type": "CPU", "node": 0, "index": 0}
    terms = ("weights_bytes", "kv_cache_bytes", "activations_bytes", "runtime_bytes")
    return {
        "schema": "cotenant/plan/1", "cotenant": "0", "catalogue": "", "calibration": None, "input_hash": "",
        "feasible": True, "cost_per_hour": None, "objective_value": 1.0, "lower_bound": 1.0, "gap": 0.0,
        "deterministic": True, "headroom": 0.0, "rounds": [], "naive": None, "shortfalls": [], "warnings": [],
        "replicas": [
            {
                "id": f"{name}-1", "model": name, "model_id": name, "checkpoint": "/models/none.gguf",
                "quantization": "gguf-q4_k_m", "quantization_flag": "", "engine": engine, "port": free_port(),
                "devices": [device], "tensor_parallel_size": 1, "n_ctx": 2048, "n_parallel": slots,
                "n_gpu_layers": 0, "max_num_seqs": slots, "gpu_memory_utilization": None,
                "kv_cache_memory_bytes": None, "adapters": [], "sharing": "co-resident", "start_order": 0,
                "kv_needed_bytes": 0, "kv_worst_case_bytes": 0, "ttft_s": None, "tpot_s": None, "why": "",
                "runner_up": "",
            }
            for name in models
        ],
        "gpus": [
            device
            | dict.fromkeys(terms, 0)
            | {
                "price_per_hour": None, "capacity_bytes": capacity, "used_bytes": 0, "budget_bytes": 0,
                "headroom_bytes": 0, "load_peak_bytes": 0, "sleepers": [],
                "replicas": [
                    dict.fromkeys(terms, 0)
                    | {"id": f"{name}-1", "rank": 0, "bytes": size, "budget_bytes": size, "load_peak_bytes": size}
                    for name, size in models.items()
                ],
            }
        ],
    }  # fmt: skip


class Gateway:
    """`cotenant serve`, started and spoken to."""

    def __init__(
        self,
        folder: Path,
        document: Document,
        *flags: str,
        environment: dict[str, str] | None = None,
        stub: Sequence[str] = (),
    ) -> None:
        """`stub`: further flags of the stub engines, which inherit nothing else."""
        self.folder, self.document = folder, document
        plan, script = folder / "plan.json", folder / "stub-engine"
        plan.write_text(json.dumps(document))
        words = " ".join(map(shlex.quote, (sys.executable, str(STUB), *stub, "--of", str(folder))))
        script.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
        script.chmod(0o755)
        self.argv = [
            sys.executable, "-m", "cotenant", "serve", str(plan), "--port", "0", "--json", "--state",
            str(folder / "state"), *flags,
        ]  # fmt: skip
        if "--engine-binary" not in flags:
            self.argv += ["--engine-binary", f"llama.cpp={script}"]
        self.open: list[http.client.HTTPConnection] = []
        self.environment = os.environ | {"HF_STUB": ""} | (environment or {})
        self.start()

    def start(self) -> None:
        """Run it until it says where it listens."""
        with (self.folder / "gateway.log").open("a") as log:
            self.process = subprocess.Popen(
                self.argv, stdout=subprocess.PIPE, stderr=log, text=True, env=self.environment
            )  # fmt: skip
        text = ""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            text += line
            if line.rstrip() == "}":
                break
        assert text, self.logged()
        self.told = json.loads(text)
        assert "url" in self.told, text
        self.port = int(self.told["url"].rpartition(":")[2])

    def logged(self) -> str:
        """All that it logged."""
        return (self.folder / "gateway.log").read_text()

    def ask(
        self, path: str, body: object = None, *, method: str | None = None, headers: dict[str, str] | None = None,
        timeout: float = 20,
    ) -> tuple[int, dict[str, str], Any]:  # fmt: skip
        """(status, headers, JSON or text) of one request."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        connection.request(method or ("GET" if body is None else "POST"), path, data, headers or {})
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        told = {name.lower(): value for name, value in answer.getheaders()}
        return answer.status, told, json.loads(text) if text.startswith("{") else text

    def chat(self, model: str, **more: object) -> tuple[int, dict[str, str], Any]:
        """One chat request."""
        headers = more.pop("headers", None)
        body = {"model": model, "messages": [{"role": "user", "content": "secret words"}], **more}
        return self.ask("/v1/chat/completions", body, headers=headers)  # type: ignore[arg-type]

    def stream(self, model: str, **more: object) -> http.client.HTTPResponse:
        """A stream, to be read."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        body = {"model": model, "messages": [], "stream": True, **more}
        connection.request("POST", "/v1/chat/completions", json.dumps(body))
        answer = connection.getresponse()
        self.open.append(connection)
        answer.connection = connection  # type: ignore[attr-defined] # for who wants to cut it
        return answer

    def raw(self, data: bytes, *, wait_s: float = 5) -> bytes:
        """Bytes to its socket, and all that comes back until it closes or falls silent."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=wait_s) as one:
            one.sendall(data)
            found = b""
            try:
                while part := one.recv(65536):
                    found += part
            except TimeoutError:
                pass
            return found

    def stub(self, model: str, **told: object) -> Document:
        """Speak to the stub behind a model: how it is to fail next."""
        (replica,) = (one for one in self.document["replicas"] if one["model"] == model)
        connection = http.client.HTTPConnection("127.0.0.1", replica["port"], timeout=5)
        connection.request("POST", "/_stub", json.dumps(told))
        found: Document = json.loads(connection.getresponse().read())
        connection.close()
        return found

    def status(self, headers: dict[str, str] | None = None) -> Document:
        """/status.json."""
        found: Document = self.ask("/status.json", headers=headers)[2]
        return found

    def state(self, model: str) -> str:
        """The state of a model's replica."""
        return next(str(one["state"]) for one in self.status()["replicas"] if one["model"] == model)

    def wait_for(self, model: str, state: str, wait_s: float = 15) -> None:
        """Until a replica is in a state."""
        end = time.monotonic() + wait_s
        while self.state(model) != state:
            assert time.monotonic() < end, f"{model} is {self.state(model)}, not {state}\n{self.logged()}"
            time.sleep(0.02)

    def entries(self) -> list[tuple[str, int]]:
        """(replica, pid) of the engines in its journal."""
        place = self.folder / "state" / "engines.json"
        rows = json.loads(place.read_text()) if place.exists() else []
        return [(row["replica"], row["process"]["pid"]) for row in rows]

    def engines(self) -> list[int]:
        """Pids of the engines in its journal."""
        return [pid for _, pid in self.entries()]

    def stop(self, wait_s: float = 15) -> int:
        """SIGTERM, and its exit status."""
        for connection in self.open:
            connection.close()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(wait_s)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            if self.process.stdout is not None:
                self.process.stdout.close()
