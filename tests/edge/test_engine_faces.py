"""What drivers say to engines, and how they read what comes back, against faces that answer as the engines do.

vLLM: vllm/entrypoints (serve/sleep, serve/lora, instrumentator: /version); SGLang: srt/entrypoints/http_server.py;
TGI: router/src/server.rs, lib.rs (Info); Ollama: server/routes.go, api/types.go; llama.cpp: tools/server/README.md
(/props). The values are ours.
"""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from cotenant.domain.running import Health
from cotenant.edge.engines import find_driver
from cotenant.errors import EngineError

Said = list[tuple[str, str, object, str | None]]


@contextmanager
def face(answers: dict[str, object], status: int = 200) -> Iterator[tuple[str, Said]]:
    """(address, what it is told): answers by path, 404 elsewhere."""
    said: Said = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            told = json.loads(body) if body else None
            said.append((self.command, self.path, told, self.headers.get("Authorization")))
            found = answers.get(self.path.partition("?")[0])
            data = found.encode() if isinstance(found, str) else json.dumps(found).encode()
            self.send_response(404 if found is None else status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = answer  # noqa: N815 - http.server's own names

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", said
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(
    ("engine", "path", "answer", "version"),
    [
        ("vllm", "/version", {"version": "0.21.0"}, "0.21.0"),
        ("sglang", "/get_server_info", {"model_path": "m", "version": "0.5.3", "tp_size": 1}, "0.5.3"),
        ("tgi", "/info", {"model_id": "m", "version": "3.3.6", "max_input_tokens": 1}, "3.3.6"),
        ("ollama", "/api/version", {"version": "0.12.6"}, "0.12.6"),
        ("llama.cpp", "/props", {"build_info": "b6800-1a2b3c4", "total_slots": 1}, "6800"),
    ],
)
def test_each_engine_says_its_version(engine, path, answer, version):
    driver = find_driver(engine)
    with face({path: answer}) as (url, said):
        assert driver.version(url, key="k") == version
    assert said[0][:2] == ("GET", path)
    for wrong in ({"version": 7}, [1], "no json"):
        with face({path: wrong}) as (url, _), pytest.raises(EngineError):
            driver.version(url)


@pytest.mark.parametrize(
    ("engine", "load", "unload"),
    [
        ("vllm", "/v1/load_lora_adapter", "/v1/unload_lora_adapter"),
        ("sglang", "/load_lora_adapter", "/unload_lora_adapter"),
    ],
)
def test_adapters_at_run_time(engine, load, unload):
    driver = find_driver(engine)
    with face({load: {"success": True}, unload: {"success": True}}) as (url, said):
        driver.load_adapter(url, "legal", "/adapters/legal", key="k")
        driver.unload_adapter(url, "legal", key="k")
    assert [one[:3] for one in said] == [
        ("POST", load, {"lora_name": "legal", "lora_path": "/adapters/legal"}),
        ("POST", unload, {"lora_name": "legal"}),
    ]
    if engine == "vllm":
        assert {one[3] for one in said} == {"Bearer k"}
    refused = pytest.raises(EngineError, match=r"400.*no such file")
    with face({load: {"message": "no such file"}}, status=400) as (url, _), refused:
        driver.load_adapter(url, "legal", "/nowhere")


@pytest.mark.parametrize("engine", ["llama.cpp", "tgi", "ollama"])
def test_engines_whose_adapters_are_fixed_say_so(engine):
    driver = find_driver(engine)
    with pytest.raises(EngineError, match="at start only"):
        driver.load_adapter("http://127.0.0.1:1", "a", "b")
    with pytest.raises(EngineError, match="until it stops"):
        driver.unload_adapter("http://127.0.0.1:1", "a")


def test_vllm_wakes_from_level_two_in_its_own_order():
    """Weights, then read again, then the cache, then its prefixes forgotten: else it answers nonsense."""
    paths = ("/sleep", "/wake_up", "/collective_rpc", "/reset_prefix_cache")
    driver = find_driver("vllm")
    with face(dict.fromkeys(paths, "")) as (url, said):
        driver.sleep(url, level=2)
        driver.wake(url, level=2)
        driver.sleep(url, level=1)
        driver.wake(url, level=1)
    assert [(path, told) for _, path, told, _ in said] == [
        ("/sleep?level=2", None), ("/wake_up?tags=weights", None),
        ("/collective_rpc", {"method": "reload_weights"}), ("/wake_up?tags=kv_cache", None),
        ("/reset_prefix_cache", None), ("/sleep?level=1", None), ("/wake_up", None),
    ]  # fmt: skip
    assert {method for method, *_ in said} == {"POST"}


def test_a_step_of_a_wake_that_fails_is_not_passed_over():
    with face({"/wake_up": ""}) as (url, _), pytest.raises(EngineError, match="/collective_rpc answered 404"):
        find_driver("vllm").wake(url, level=2)


def test_vllm_is_asleep_where_it_says_so():
    driver = find_driver("vllm")
    with face({"/health": "", "/is_sleeping": {"is_sleeping": True}}) as (url, _):
        assert driver.health(url) is Health.ASLEEP
    with face({"/health": "", "/is_sleeping": {"is_sleeping": False}}) as (url, _):
        assert driver.health(url) is Health.READY
    with face({"/health": ""}) as (url, _):  # started without its development endpoints
        assert driver.health(url) is Health.READY


def test_ollama_tells_what_it_holds_and_lets_it_go():
    driver = find_driver("ollama")
    rows = [
        {"name": "gemma3:270m", "model": "gemma3:270m", "size": 600, "size_vram": 512, "context_length": 4096},
        {"name": "qwen3:0.6b", "model": "qwen3:0.6b", "size": 900, "size_vram": 0},
    ]
    with face({"/api/ps": {"models": rows}, "/api/generate": {"done": True}}) as (url, said):
        assert driver.loaded(url) == {"gemma3:270m": 512, "qwen3:0.6b": 0}
        driver.sleep(url)
    assert [one[2] for one in said if one[1] == "/api/generate"] == [
        {"model": "gemma3:270m", "keep_alive": 0}, {"model": "qwen3:0.6b", "keep_alive": 0},
    ]  # fmt: skip
    for wrong in ({"models": 3}, {"models": None}, [1]):
        with face({"/api/ps": wrong}) as (url, _), pytest.raises(EngineError):
            driver.loaded(url)


@pytest.mark.parametrize(
    ("engine", "path"),
    [
        ("llama.cpp", "/health"),
        ("tgi", "/health"),
        ("sglang", "/health"),
        ("vllm", "/health"),
        ("ollama", "/api/version"),
    ],
)
def test_health_by_status(engine, path):
    for status, health in ((200, Health.READY), (503, Health.LOADING), (500, Health.UNWELL), (302, Health.UNWELL)):
        with face({path: {}}, status=status) as (url, _):
            assert find_driver(engine).health(url) is health
    assert find_driver(engine).health("http://127.0.0.1:1", timeout_s=0.2) is Health.SILENT
