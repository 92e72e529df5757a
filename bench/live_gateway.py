"""What the gateway costs: milliseconds added to each request, and processor time beside LiteLLM's proxy.

The same stub engine answers at once; keys, metrics and ledger are on, a log line a request is not (LiteLLM's
logging is off as well). Added is the difference of the same quantile with and without the gateway, round by round.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from statistics import median

from bench.live_case import MIB, STUB, Gateway, free_port, plan_document
from bench.live_load import at_once, at_rate
from bench.table import CannotRunError, Row, measured

BODY: dict[str, object] = {
    "model": "alpha",
    "messages": [{"role": "user", "content": "How many roads must a man walk down? " * 8}],
    "max_tokens": 16,
}
KEY = "bench-key-0123456789"
RATE, ROUND_S, ROUNDS = 200.0, 3.0, 3


@contextmanager
def gateway(*flags: str) -> Iterator[Gateway]:
    """A gateway with keys before one fast stub."""
    with tempfile.TemporaryDirectory() as folder:
        keys = Path(folder) / "keys"
        keys.write_text(f"bench {KEY}\n", encoding="ascii")
        keys.chmod(0o600)
        document = plan_document({"alpha": 100 * MIB}, 200 * MIB, slots=64)
        one = Gateway(Path(folder), document, "--api-keys", str(keys), "--quiet", *flags)
        try:
            end = time.monotonic() + 30
            while one.ask("/status.json", headers=bearer())[2]["replicas"][0]["state"] != "ready":
                if time.monotonic() > end:
                    raise CannotRunError("the stub engine does not come up")
                time.sleep(0.05)
            yield one
        finally:
            one.stop()


def bearer() -> dict[str, str]:
    """The header of our key."""
    return {"Authorization": f"Bearer {KEY}"}


def engine_of(one: Gateway) -> tuple[int, str]:
    """(port, key) of the stub behind it."""
    row = json.loads((one.folder / "state" / "engines.json").read_text(encoding="utf-8"))[0]
    return int(row["process"]["url"].rpartition(":")[2]), str(row["key"])


def cpu_s(pid: int) -> float:
    """Seconds of processor that a process has used, user and system."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@cache
def added() -> Mapping[str, float]:
    """Milliseconds added at p50 and p99, and what it was measured on."""
    rounds: list[tuple[float, float, float, float]] = []
    with gateway() as one:
        port, key = engine_of(one)
        asyncio.run(at_rate(one.port, BODY, rate=RATE, seconds=1, key=KEY))
        asyncio.run(at_rate(port, BODY, rate=RATE, seconds=1, key=key))
        before = cpu_s(one.process.pid)
        for _ in range(ROUNDS):
            direct = asyncio.run(at_rate(port, BODY, rate=RATE, seconds=ROUND_S, key=key))
            through = asyncio.run(at_rate(one.port, BODY, rate=RATE, seconds=ROUND_S, key=KEY))
            if through.statuses != {200: int(RATE * ROUND_S)}:
                raise CannotRunError(f"not every request was answered: {through.statuses}")
            rounds.append(
                (through.quantile(0.5), direct.quantile(0.5), through.quantile(0.99), direct.quantile(0.99))
            )
        cpu = cpu_s(one.process.pid) - before
    return {
        "p50_ms": 1000 * median(row[0] - row[1] for row in rounds),
        "p99_ms": 1000 * median(row[2] - row[3] for row in rounds),
        "through_p99_ms": 1000 * median(row[2] for row in rounds),
        "cpu_ms_a_request": 1000 * cpu / (RATE * ROUND_S * ROUNDS),
        "requests": RATE * ROUND_S * ROUNDS,
        "load_average": os.getloadavg()[0],
    }


def _added(name: str) -> tuple[float, Mapping[str, object]]:
    found = added()
    others = {key: round(value, 2) for key, value in found.items() if key != name}
    return found[name], others


def ours_per_cpu_s() -> float:
    """Requests that the gateway answers with a second of processor, under load from 8 clients."""
    with gateway() as one:
        asyncio.run(at_once(one.port, BODY, clients=8, requests=500, key=KEY))
        before = cpu_s(one.process.pid)
        found = asyncio.run(at_once(one.port, BODY, clients=8, requests=3000, key=KEY))
        return len(found.seconds) / (cpu_s(one.process.pid) - before)


def litellm_per_cpu_s(program: Path) -> float:
    """The same through LiteLLM's proxy: one worker, logging off, a master key."""
    if not program.exists():
        raise CannotRunError(f"no LiteLLM at {program}")
    engine, port = free_port(), free_port()
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "config.yaml"
        config.write_text(
            f"""model_list:
  - model_name: alpha
    litellm_params: {{model: openai/alpha, api_base: "http://127.0.0.1:{engine}/v1", api_key: none}}
litellm_settings: {{drop_params: true, set_verbose: false, request_timeout: 60, telemetry: false}}
general_settings: {{master_key: "sk-{KEY}", disable_spend_logs: true}}
""",
            encoding="utf-8",
        )
        words = [str(program), "--config", str(config), "--port", str(port), "--num_workers", "1"]
        environment = os.environ | {"LITELLM_LOG": "ERROR", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
        with (Path(folder) / "log").open("w") as log:
            behind = subprocess.Popen([sys.executable, str(STUB), "--port", str(engine)])
            proxy = subprocess.Popen(words, stdout=log, stderr=log, env=environment)
            try:
                _wait(port, proxy)
                asyncio.run(at_once(port, BODY, clients=8, requests=200, key=f"sk-{KEY}"))
                before = cpu_s(proxy.pid)
                found = asyncio.run(at_once(port, BODY, clients=8, requests=1000, key=f"sk-{KEY}"))
                if not found.seconds:
                    raise CannotRunError(f"LiteLLM answered {found.statuses}")
                return len(found.seconds) / (cpu_s(proxy.pid) - before)
            finally:
                for process in (proxy, behind):
                    process.terminate()
                    process.wait(20)


def _wait(port: int, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 180
    while time.monotonic() < end:
        if process.poll() is not None:
            raise CannotRunError("LiteLLM ended as soon as it was started")
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/health/liveliness", timeout=2).close()
        except (OSError, urllib.error.URLError):
            time.sleep(0.5)
        else:
            return
    raise CannotRunError("LiteLLM does not come up")


def rows(litellm: Path | None) -> list[Row]:
    """The gateway's rows."""

    def ratio() -> tuple[float, Mapping[str, object]]:
        if litellm is None:
            raise CannotRunError("LiteLLM is given by --litellm PROGRAM")
        theirs, ours = litellm_per_cpu_s(litellm), ours_per_cpu_s()
        return ours / theirs, {"ours_per_cpu_s": round(ours), "litellm_per_cpu_s": round(theirs)}

    return [
        measured("gateway_p50_ms", "ms", "<= 2", lambda: _added("p50_ms")),
        measured("gateway_p99_ms", "ms", "<= 10", lambda: _added("p99_ms")),
        measured("litellm_ratio", "x", ">= 3", ratio),
    ]
