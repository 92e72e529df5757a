"""A process that speaks each engine's HTTP and fails on command: `python stub_engine.py --port PORT [--alias NAME] ...`.

Where an engine must misbehave, or be fast, this one stands in; nothing of the gateway is replaced. It needs
nothing but Python. Its answers are words ``w0 w1 w2 ...``, as many as max_tokens says.

    POST /_stub {"fail": MODE, "times": N, "after": K, "token_s": S, "width": W}   how the next N requests go wrong

MODE: ``hang`` (nothing comes), ``die`` (the process kills itself), ``cut`` (the connection ends after K
tokens), ``die-late`` (dies after K tokens), ``stall`` (silent after K tokens), ``garbage`` (no HTTP), ``500``,
``429`` (it is full), ``not-json``,
``wrong`` (an empty answer, 200), ``health`` (health says 503 from now on), ``mute`` (health does not answer), ``oom``
(it asks for more memory than its limit, answers 500 and ends), ``slow`` (a second for each token).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
import time
from typing import Any

REASONS = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found", 500: "Error", 503: "Unavailable"}


class Stub:
    """What all connections share."""

    def __init__(self, told: argparse.Namespace) -> None:
        self.told = told
        self.fail, self.times, self.after, self.token_s = "", 0, 0, told.token_s
        self.asleep, self.wrong_after_wake, self.running, self.tokens = False, told.wrong_after_wake, 0, 0
        self.width = 0  # further letters of each word
        self.woken, self.adapters, self.seen, self.priorities = False, set(), [], []
        self.ready_at = time.monotonic() + told.load_s
        self.health_mode = ""

    def next_failure(self) -> str:
        if self.fail and self.times > 0:
            self.times -= 1
            return self.fail
        return ""


class Connection(asyncio.Protocol):
    """One client: HTTP/1.1 with keep-alive, one request at a time."""

    def __init__(self, stub: Stub) -> None:
        self.stub, self.buffer, self.task = stub, b"", None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        if self.task is not None:
            self.task.cancel()

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        self._begin()

    def _begin(self) -> None:
        if self.task is not None and not self.task.done():
            return
        head, found, rest = self.buffer.partition(b"\r\n\r\n")
        if not found:
            return
        lines = head.decode("latin-1").split("\r\n")
        parts = (line.partition(":") for line in lines[1:])
        headers = {name.strip().lower(): value.strip() for name, _, value in parts}
        length = int(headers.get("content-length", "0"))
        if len(rest) < length:
            return
        self.buffer = rest[length:]
        method, path, _ = lines[0].split(" ")
        self.task = asyncio.ensure_future(
            self._answer(method, path.partition("?")[0], headers, rest[:length], path)
        )
        self.task.add_done_callback(lambda _: self.transport.is_closing() or self._begin())

    def send(self, status: int, body: object, kind: str = "application/json") -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        head = f"HTTP/1.1 {status} {REASONS.get(status, 'X')}\r\nContent-Type: {kind}\r\nContent-Length: {len(data)}\r\n\r\n"
        self.transport.write(head.encode() + data)

    async def _answer(self, method: str, path: str, headers: dict[str, str], body: bytes, whole: str) -> None:
        stub = self.stub
        if path == "/_stub":
            given = json.loads(body or b"{}")
            for name, value in given.items():
                setattr(stub, name, value)
            if given.get("fail") in ("health", "mute"):
                stub.health_mode, stub.fail = given["fail"], ""
            told = {"seen": stub.seen[-50:], "priorities": stub.priorities[-50:], "running": stub.running}
            return self.send(200, told | {"adapters": sorted(stub.adapters)})
        if path in ("/health", "/api/version", "/health_generate"):
            if stub.health_mode == "mute":
                await asyncio.sleep(3600)
            bad = stub.health_mode == "health" or time.monotonic() < stub.ready_at
            return self.send(
                503 if bad else 200, {"status": "loading model" if bad else "ok", "version": "0.0-stub"}
            )
        if path == "/metrics":
            return self.send(200, self._metrics(), "text/plain")
        if stub.told.key and headers.get("authorization") != f"Bearer {stub.told.key}":
            return self.send(401, {"error": {"message": "bad key"}})
        if path == "/props" and stub.told.build:
            return self.send(200, {"build_info": stub.told.build, "total_slots": 1})
        if path == "/v1/models":
            return self.send(200, {"object": "list", "data": [{"id": stub.told.model, "object": "model"}]})
        if path in ("/sleep", "/wake_up", "/is_sleeping", "/collective_rpc", "/reset_prefix_cache"):
            return self._sleep(path)
        if path in ("/release_memory_occupation", "/resume_memory_occupation"):
            return self._sleep("/sleep" if path.startswith("/release") else "/wake_up")
        if path in (
            "/v1/load_lora_adapter",
            "/v1/unload_lora_adapter",
            "/load_lora_adapter",
            "/unload_lora_adapter",
        ):
            name = json.loads(body)["lora_name"]
            (stub.adapters.discard if "unload" in path else stub.adapters.add)(name)
            return self.send(200, {"success": True})
        if path in ("/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/api/generate"):
            return await self._generate(path, headers, body)
        self.send(404, {"error": {"message": f"no {path}"}})

    def _sleep(self, path: str) -> None:
        stub = self.stub
        if path == "/sleep":
            stub.asleep = True
        if path == "/wake_up":
            stub.asleep, stub.woken = False, True
        self.send(200, {"is_sleeping": stub.asleep} if path == "/is_sleeping" else {})

    def _metrics(self) -> bytes:
        running, tokens = self.stub.running, self.stub.tokens
        return (
            f"llamacpp:requests_processing {running}\nllamacpp:requests_deferred 0\nllamacpp:tokens_predicted_total {tokens}\n"
            f'vllm:num_requests_running{{model_name="m"}} {running}\nvllm:num_requests_waiting{{model_name="m"}} 0\n'
            f'vllm:kv_cache_usage_perc{{model_name="m"}} 0.25\nvllm:num_preemptions_total{{model_name="m"}} 3\n'
            f'vllm:prompt_tokens_total{{model_name="m"}} 7\nvllm:generation_tokens_total{{model_name="m"}} {tokens}\n'
            f"sglang:num_running_reqs {running}\nsglang:num_queue_reqs 0\nsglang:token_usage 0.5\n"
            f"tgi_batch_current_size {running}\ntgi_queue_size 0\n"
        ).encode()

    async def _generate(self, path: str, headers: dict[str, str], body: bytes) -> None:
        stub = self.stub
        try:
            given = json.loads(body)
        except ValueError:
            return self.send(400, {"error": {"message": "bad json"}})
        stub.seen.append(str(given.get("model")))
        stub.priorities.append(given.get("priority"))
        mode = stub.next_failure()
        if stub.asleep:
            return self.send(500, {"error": {"message": "asleep"}})
        if mode == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if mode == "hang":
            await asyncio.sleep(3600)
        if mode == "garbage":
            self.transport.write(b"\x00\xff\xfe not http at all\r\n\r\n")
            return self.transport.close()
        if mode == "500":
            return self.send(500, {"error": {"message": "CUDA error: out of memory"}})
        if mode == "429":
            return self.send(429, {"error": "Model is overloaded", "error_type": "overloaded"})
        if mode == "oom":
            return self._run_out_of_memory()
        if mode == "not-json":
            return self.send(200, b"<html>oops</html>", "text/html")
        stub.running += 1
        try:
            await self._words(path, given, mode)
        finally:
            stub.running -= 1

    def _run_out_of_memory(self) -> None:
        """A real limit, a real MemoryError; as engines do, it answers once and is gone."""
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (2**28, 2**28))
        try:
            bytearray(2**30)
        except MemoryError:
            self.send(500, {"error": {"message": "out of memory"}})
            asyncio.get_running_loop().call_later(0.05, os._exit, 1)

    async def _words(self, path: str, given: dict[str, Any], mode: str) -> None:
        stub = self.stub
        if path == "/v1/embeddings":
            return self.send(
                200,
                {
                    "object": "list",
                    "model": given.get("model"),
                    "data": [{"object": "embedding", "index": 0, "embedding": [0.1, 0.2]}],
                    "usage": {"prompt_tokens": 1, "total_tokens": 1},
                },
            )
        count = int(given.get("max_tokens") or given.get("max_completion_tokens") or 4)
        token_s = 1.0 if mode == "slow" else stub.token_s
        wrong = mode == "wrong" or (stub.wrong_after_wake and stub.woken)
        letter = "x" if stub.told.other_after_wake and stub.woken else "w"
        words = ["" if wrong else f"{letter}{n}{'x' * stub.width} " for n in range(count)]
        chat = path == "/v1/chat/completions"
        kind = "chat.completion" if chat else "text_completion"
        base = {"id": "stub", "created": 1, "model": given.get("model")}
        if not given.get("stream"):
            if token_s:
                await asyncio.sleep(token_s * count)
            stub.tokens += count
            text = "".join(words)
            choice = {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
            usage = {"prompt_tokens": 3, "completion_tokens": count, "total_tokens": count + 3}
            return self.send(
                200,
                base
                | {
                    "object": kind,
                    "choices": [{"index": 0, "finish_reason": "length", **choice}],
                    "usage": usage,
                    "response": text,
                },
            )
        self.transport.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        for place, word in enumerate(words):
            if mode in ("cut", "die-late", "stall") and place == stub.after:
                if mode == "die-late":
                    os.kill(os.getpid(), signal.SIGKILL)
                if mode == "stall":
                    await asyncio.sleep(3600)
                return self.transport.close()
            if token_s:
                await asyncio.sleep(token_s)
            part = {"delta": {"content": word}} if chat else {"text": word}
            self._event(
                base | {"object": kind + ".chunk", "choices": [{"index": 0, "finish_reason": None, **part}]}
            )
            stub.tokens += 1
        self._event(
            base | {"object": kind + ".chunk", "choices": [{"index": 0, "finish_reason": "length", "delta": {}}]}
        )
        self._chunk(b"data: [DONE]\n\n")
        self.transport.write(b"0\r\n\r\n")

    def _event(self, value: object) -> None:
        self._chunk(b"data: " + json.dumps(value).encode() + b"\n\n")

    def _chunk(self, data: bytes) -> None:
        self.transport.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")


async def serve(told: argparse.Namespace) -> None:
    """Listen until the end."""
    stub = Stub(told)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(stub), told.host, told.port, backlog=1024)
    async with server:
        await server.serve_forever()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--alias", "--served-model-name", dest="model", default="stub")
    parser.add_argument("--key", default=os.environ.get("LLAMA_API_KEY") or os.environ.get("VLLM_API_KEY", ""))
    parser.add_argument("--load-s", type=float, default=float(os.environ.get("STUB_LOAD_S", "0")))
    parser.add_argument("--token-s", type=float, default=float(os.environ.get("STUB_TOKEN_S", "0")))
    parser.add_argument("--build", default="")
    parser.add_argument("--wrong-after-wake", action="store_true")
    parser.add_argument("--other-after-wake", action="store_true")
    told, _ = parser.parse_known_args()
    # an engine's other flags are taken and ignored
    try:
        asyncio.run(serve(told))
    except OSError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
