"""Requests to engines over HTTP, streamed and timed; readings are taken meanwhile.

Prompts are token ids where the engine takes them (exactly as long as asked), else words. They are drawn from a
seed, so that no two begin alike and no prefix is found in a cache.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import random
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

from cotenant.domain.verification import Ask, Reading, Reply
from cotenant.edge.verifying.engine import LiveEngine
from cotenant.verification.ports import Stop

_IDS = ("llama.cpp", "vllm")  # engines whose completions take token ids
_MOST_LINES = 200_000


class UnderWay:
    """Connections with a request on them. An engine drops a request whose client is gone."""

    def __init__(self) -> None:
        self._open: set[http.client.HTTPConnection] = set()
        self._lock = threading.Lock()
        self.over = threading.Event()  # all have been ended, and none is to be sent

    def add(self, connection: http.client.HTTPConnection) -> None:
        """One more. Raises ConnectionAbortedError where all have been ended."""
        with self._lock:
            if self.over.is_set():
                raise ConnectionAbortedError("ended before it was sent")
            self._open.add(connection)

    def drop(self, connection: http.client.HTTPConnection) -> None:
        """It has ended."""
        with self._lock:
            self._open.discard(connection)

    def cut(self) -> None:
        """End them all now: whoever waits for an answer sees a broken connection."""
        with self._lock:
            self.over.set()
            for one in self._open:
                if one.sock is not None:
                    with contextlib.suppress(OSError):
                        one.sock.shutdown(socket.SHUT_RDWR)


class HttpLoad:
    """Closed loop: as many at once as told; an ask with `at_s` waits for its time (open loop)."""

    def __init__(
        self, engines: Mapping[str, LiveEngine], *, seed: int, vocabulary: Mapping[str, int],
        silent: Sequence[str] = (), sample_s: float = 0.25, timeout_s: float = 600.0,
    ) -> None:  # fmt: skip
        self.engines, self.seed, self.vocabulary, self.silent = engines, seed, vocabulary, frozenset(silent)
        self.sample_s, self.timeout_s, self.sent = sample_s, timeout_s, 0
        self._draws = random.Random(seed)

    def uniform(self) -> float:
        """The next draw of the seed."""
        return self._draws.random()

    def send(
        self, asks: Sequence[Ask], *, concurrency: Mapping[str, int], stop: Stop
    ) -> tuple[tuple[Reply, ...], tuple[tuple[str, Reading], ...], str]:
        """See `verification.ports.Load`."""
        replies: list[Reply] = []
        readings: list[tuple[str, Reading]] = []
        halted: list[str] = []
        under_way = UnderWay()
        began = time.monotonic()
        pools = {name: ThreadPoolExecutor(max(1, count)) for name, count in concurrency.items()}
        lock = threading.Lock()

        def one(number: int, ask: Ask) -> None:
            if under_way.over.wait(max(0.0, began + ask.at_s - time.monotonic())):
                return
            reply = self.ask(ask, number, under_way)
            with lock:
                if not (under_way.over.is_set() and reply.error):  # else it is we who cut it
                    replies.append(reply)

        first, self.sent = self.sent, self.sent + len(asks)
        futures = [pools[ask.replica].submit(one, first + place, ask) for place, ask in enumerate(asks)]
        try:
            while True:
                open_ = [future for future in futures if not future.done()]
                for name in concurrency:
                    reading = self.engines[name].reading()
                    readings.append((name, reading))
                    if not halted and (reason := stop(reading, tuple(replies))):
                        halted.append(reason)
                        under_way.cut()
                if not open_:
                    break
                time.sleep(self.sample_s)
        except BaseException:  # Ctrl-C: nobody's engine goes on answering for nobody
            under_way.cut()
            raise
        finally:
            for pool in pools.values():
                pool.shutdown(cancel_futures=True)
        for future in futures:
            if not future.cancelled():
                future.result()  # a fault of ours is not to be lost in it
        return tuple(replies), tuple(readings), halted[0] if halted else ""

    def ask(self, ask: Ask, number: int, under_way: UnderWay) -> Reply:
        """One request, to its end, or until it is cut."""
        engine = self.engines[ask.replica]
        parts = urlsplit(engine.url)
        rng = random.Random(f"{self.seed}/{number}/{ask.replica}")
        body, path = self._body(ask, engine, rng)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        connection = kind(parts.hostname or "127.0.0.1", parts.port, timeout=self.timeout_s)
        began = time.monotonic()
        try:
            connection.connect()
            under_way.add(connection)
            connection.request("POST", parts.path.rstrip("/") + path, json.dumps(body), _headers(engine.key))
            answer = connection.getresponse()
            if answer.status != 200:
                return Reply(ask, f"{answer.status}: {_words(answer.read(4096))}")
            if ask.replica in self.silent:
                answer.read()
                took = time.monotonic() - began
                return Reply(ask, "", took, took, ask.input_tokens, 0)
            return _streamed(ask, answer, began)
        except (OSError, http.client.HTTPException, ValueError) as error:
            return Reply(ask, str(error)[:200] or type(error).__name__)
        finally:
            under_way.drop(connection)
            connection.close()

    def _body(self, ask: Ask, engine: LiveEngine, rng: random.Random) -> tuple[dict[str, Any], str]:
        prompt: object
        if engine.launch.engine in _IDS:
            high = max(2, self.vocabulary.get(ask.replica, 1000))
            prompt = [rng.randrange(high // 4, high // 2 + 1) for _ in range(ask.input_tokens)]
        else:
            prompt = " ".join(rng.choice(_NOUNS) for _ in range(ask.input_tokens))
        name = engine.launch.model
        if ask.replica in self.silent:
            return {"model": name, "input": prompt}, "/v1/embeddings"
        return {
            "model": name, "prompt": prompt, "max_tokens": ask.output_tokens, "temperature": 0, "stream": True,
            "ignore_eos": True, "stream_options": {"include_usage": True},
        }, "/v1/completions"  # fmt: skip


_NOUNS = ("sun", "sea", "tree", "road", "bird", "rain", "door", "hill", "book", "star", "lake", "town")


def _streamed(ask: Ask, answer: http.client.HTTPResponse, began: float) -> Reply:
    first = last = 0.0
    pieces = 0
    prompt, generated = ask.input_tokens, 0
    for _ in range(_MOST_LINES):
        line = answer.readline(65536)
        if not line:
            break
        if not line.startswith(b"data:"):
            continue
        data = line[5:].strip()
        if data == b"[DONE]":
            return Reply(ask, "", first - began, last - began, prompt, generated or pieces)
        told = json.loads(data)
        if not isinstance(told, dict):
            return Reply(ask, f"an event that is none: {_words(data)}"[:200])
        if "error" in told:
            return Reply(ask, _words(data))
        usage = told.get("usage")
        if isinstance(usage, dict):
            prompt, generated = usage.get("prompt_tokens", prompt), usage.get("completion_tokens", 0)
        if told.get("choices"):
            last = time.monotonic()
            first = first or last
            pieces += 1
    return Reply(ask, "the answer ended in the middle")


def _headers(key: str) -> dict[str, str]:
    found = {"Content-Type": "application/json"}
    return found | {"Authorization": f"Bearer {key}"} if key else found


def _words(data: bytes) -> str:
    """What an error answer says, in one line."""
    try:
        told = json.loads(data)
        found = told["error"]
        text = str(found["message"] if isinstance(found, dict) else found)
    except (ValueError, KeyError, TypeError, RecursionError):
        text = data.decode("utf-8", "replace")
    return " ".join(text.split())[:200]
