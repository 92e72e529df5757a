"""The page and its server: `python -m bench.page [--json]`.

same_bytes: random fleets planned by the page's server over HTTP, by the command line and from Python; the share of
them whose three answers are the same bytes. load_p95_ms: fifty clients at one server process, each asking for an
estimate a second (somebody who moves a slider and looks), no two questions alike; beside it the same while two
replays run there, clients that ask anew as soon as they are answered, and the processor's time for an answer,
which does not count who else is on the machine. What needs a browser is measured in bench/page_browser.py.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit

from bench import page_browser
from bench.page_server import ask, planned, server
from bench.table import CannotRunError, Measuring, Row, arguments, show, some

FLEETS, CLIENTS, SECONDS, PACE_S = 200, 50, 10.0, 1.0
MODELS = (
    "meta-llama/Llama-3.1-8B-Instruct", "mistralai/Mistral-7B-Instruct-v0.3", "Qwen/Qwen2.5-7B-Instruct",
    "Qwen/Qwen3-14B", "Qwen/Qwen2.5-32B-Instruct", "BAAI/bge-m3", "google/gemma-3-27b-it",
)  # fmt: skip
CARDS = ("L4", "L40S", "A100-80GB-SXM", "H100-80GB-SXM", "RTX-4090")
ENGINES = ("vllm", "vllm@0.21", "sglang", "tgi", "llama.cpp")

Measured = float | tuple[float, Mapping[str, object]]


def rows(only: Sequence[str] = ()) -> list[Row]:
    """Every id of the contract's `page`, in its order."""
    asked: list[tuple[str, str, str, Measuring]] = [
        ("first_paint_s", "s", "<= 1", in_browser("first_paint_s")),
        ("slider_p95_ms", "ms", "<= 100", in_browser("slider_p95_ms")),
        ("page_kb", "kB", "<= 1000", page_kb),
        ("axe_serious", "", "== 0", in_browser("axe_serious")),
        ("same_bytes", "share", "== 1", same_bytes),
        ("load_p95_ms", "ms", "<= 200", load_p95_ms),
    ]
    return some(asked, only)


def in_browser(name: str) -> Callable[[], Measured]:
    """What `bench.page_browser` measures under that name, where there is a browser."""
    return partial(page_browser.measure, name)


def drawn_fleet(random: Random) -> dict[str, Any]:
    """One to three models on one or two kinds of cards: traffic, targets and wishes as people write them."""
    names = random.sample(["chat", "code", "mail", "search"], random.randint(1, 3))
    return {
        "engine": random.choice(ENGINES[:3]),
        "headroom": f"{random.choice([5, 10, 12, 20])}%",
        "gpus": [_offer(random, card) for card in random.sample(CARDS, random.randint(1, 2))],
        "models": [_model(random, name) for name in names],
    }


def _offer(random: Random, card: str) -> dict[str, Any]:
    if random.random() < 0.5:
        return {"type": card, "count": random.randint(1, 3)}
    return {"type": card, "price": f"${random.randint(30, 400) / 100:.2f}/h", "max": random.randint(1, 4)}


def _model(random: Random, name: str) -> dict[str, Any]:
    p50 = random.randint(50, 1000)
    lengths = {"p50": p50, "p95": p50 * random.randint(2, 4)}
    model: dict[str, Any] = {"name": name, "model": random.choice(MODELS)}
    if random.random() < 0.5:
        model["traffic"] = {"concurrent": random.randint(1, 12), "context_tokens": lengths}
    else:
        rate = random.choice([0.1, 0.5, 1, 3])
        model["traffic"] = {
            "requests_per_second": rate,
            "input_tokens": lengths,
            "output_tokens": {"p50": 50, "p95": 200},
        }
        if random.random() < 0.5:
            model["slo"] = {"ttft": "5s", "tpot": "120ms"}
    if model["model"] == "BAAI/bge-m3":
        model["traffic"] = {"requests_per_second": 2, "input_tokens": {"p50": 100, "p95": 400}}
        model.pop("slo", None)
    if random.random() < 0.3:
        model["priority"] = random.randint(1, 20)
    return model


def same_bytes() -> Measured:
    """The share of fleets whose answers agree."""
    same, feasible, refused = 0, 0, 0
    with server() as url, TemporaryDirectory() as folder:
        for seed in range(FLEETS):
            fleet = drawn_fleet(Random(seed))
            file = Path(folder) / "fleet.json"
            file.write_text(json.dumps(fleet), encoding="utf-8")
            page, line, python = planned(url, fleet), by_command(file), by_python(fleet)
            same += page == line == python
            feasible += b'"feasible": true' in page
            refused += page.startswith(b'{\n  "errors"')
    return same / FLEETS, {"fleets": FLEETS, "feasible": feasible, "refused": refused}


def by_command(file: Path) -> bytes:
    """What `cotenant plan FILE --json` prints."""
    from click.testing import CliRunner

    from cotenant.cli.root import cli

    return CliRunner().invoke(cli, ["plan", str(file), "--json"], prog_name="cotenant").stdout_bytes


def by_python(fleet: Mapping[str, Any]) -> bytes:
    """What a caller of `cotenant.plan` writes down with the documents of the house."""
    from cotenant import api
    from cotenant.catalogue import VERSION
    from cotenant.errors import CotenantError
    from cotenant.report.document import error_document, plan_document

    try:
        document = plan_document(api.plan(fleet), catalogue=VERSION)
    except CotenantError as error:
        document = error_document(error)
    return (json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()


def page_kb() -> Measured:
    """The page with all that it loads, as it is sent, the catalogue included."""
    import re

    with server() as url:
        seen: dict[str, int] = {}
        pending = ["/", "/api/catalogue"]
        while pending:
            path = pending.pop()
            request = urllib.request.Request(url + path, headers={"accept-encoding": "gzip"})
            with urllib.request.urlopen(request, timeout=30) as answer:
                body = answer.read()
                packed = answer.headers.get("content-encoding") == "gzip"
            seen[path] = len(body)
            if path == "/api/catalogue":
                continue
            import gzip

            text = (gzip.decompress(body) if packed else body).decode("utf-8", "replace")
            named = re.findall(
                r"""["'](?:\./|/static/)([\w./-]+\.(?:js|mjs|css|svg|woff2|png|json))(?:\?v=\w+)?["']""", text
            )
            base = path.rsplit("/", 1)[0] if path.startswith("/static/") else "/static"
            for name in named:
                for whole in {f"{base}/{name}", f"/static/{name}"}:
                    if whole not in seen and whole not in pending and _exists(url + whole):
                        pending.append(whole)
                        break
    return sum(seen.values()) / 1000, {"files": len(seen)}


def _exists(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=30):
            return True
    except urllib.error.HTTPError:
        return False


def load_p95_ms() -> Measured:
    """The 95th percentile of what fifty clients wait, in the ten seconds from the moment when the server said
    where it is: it reads its first models and plans its first example meanwhile. Beside it what they wait
    afterwards, and how long the server took to say so.
    """
    long = {"fleet": _long_fleet(), "duration": "20000s"}
    began = time.perf_counter()
    with server() as url:
        up_s = time.perf_counter() - began
        started = asyncio.run(_load(url, PACE_S))
        quiet = asyncio.run(_load(url, PACE_S))
        before = _processor_s()
        greedy = asyncio.run(_load(url, 0.0))
        processor_ms = (_processor_s() - before) / max(1, len(greedy)) * 1000
        jobs = [json.loads(ask(f"{url}/api/simulate", long))["job"] for _ in range(2)]
        while any(not json.loads(ask(f"{url}/api/jobs/{job}"))["progress"] for job in jobs):
            time.sleep(0.1)
        busy = asyncio.run(_load(url, PACE_S))
        for job in jobs:
            ask(f"{url}/api/jobs/{job}", method="DELETE")
    return _at(started, 0.95), {
        "clients": CLIENTS, "answers": len(started), "p50_ms": round(median(started), 1),
        "up_s": round(up_s, 1), "p95_ms_after_ten_seconds": round(_at(quiet, 0.95), 1),
        "p95_ms_beside_two_replays": round(_at(busy, 0.95), 1),
        "p95_ms_without_pause": round(_at(greedy, 0.95), 1), "processor_ms": round(processor_ms, 1),
        "per_second_without_pause": round(len(greedy) / SECONDS),
    }  # fmt: skip


def _processor_s() -> float:
    """Of the one child that runs and of its own children, so far; nan where the system does not say."""
    try:
        (child,) = _children(os.getpid())
        return sum(_seconds_of(one) for one in (child, *_children(child)))
    except (OSError, ValueError):
        return float("nan")


def _children(process: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def _seconds_of(process: int) -> float:
    user, system = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def _long_fleet() -> dict[str, Any]:
    traffic = {
        "requests_per_second": 3,
        "input_tokens": {"p50": 300, "p95": 900},
        "output_tokens": {"p50": 99, "p95": 300},
    }
    return {
        "gpus": [{"type": "L40S", "count": 1}],
        "models": [{"name": "a", "model": MODELS[0], "traffic": traffic}],
    }


def _at(waits: list[float], share: float) -> float:
    return sorted(waits)[int(share * (len(waits) - 1))]


async def _load(url: str, pace_s: float) -> list[float]:
    """Milliseconds of each answer."""
    waits: list[float] = []
    end = time.perf_counter() + SECONDS
    await asyncio.gather(*(_client(url, number, pace_s, end, waits) for number in range(CLIENTS)))
    return waits


async def _client(url: str, number: int, pace_s: float, end: float, waits: list[float]) -> None:
    random = Random(f"{number} {pace_s} {end}")  # no question is asked twice
    await asyncio.sleep(random.random() * pace_s)
    place = urlsplit(url)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    while time.perf_counter() < end:
        words = {
            "model": random.choice(MODELS[:5]), "gpu": random.choice(CARDS), "engine": random.choice(ENGINES[:2]),
            "concurrent": random.randint(1, 64), "context_tokens": {"p50": random.randint(100, 999), "p95": 4000},
        }  # fmt: skip
        body = json.dumps(words).encode()
        head = f"POST /api/estimate HTTP/1.1\r\nHost: {place.netloc}\r\nContent-Type: application/json\r\n"
        head += f"X-Client: {number}\r\nContent-Length: {len(body)}\r\n\r\n"
        began = time.perf_counter()
        writer.write(head.encode() + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        if b" 200 " not in answer.split(b"\r\n", 1)[0]:
            raise CannotRunError(answer.split(b"\r\n", 1)[0].decode())
        length = int(answer.lower().split(b"content-length: ", 1)[1].split(b"\r\n", 1)[0])
        await reader.readexactly(length)
        waits.append((time.perf_counter() - began) * 1000)
        await asyncio.sleep(max(0.0, pace_s - (time.perf_counter() - began)))
    writer.close()


if __name__ == "__main__":
    options = arguments("The page and its server.", some_rows=True)
    sys.exit(show(rows(options.only), as_json=options.json))
