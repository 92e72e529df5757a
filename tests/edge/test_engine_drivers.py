"""Engine drivers and processes against a stub engine: a real process that speaks the engine's HTTP."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from bench.live_case import STUB, free_port
from cotenant.domain.engine import EngineSettings
from cotenant.domain.llama_cpp import LlamaCppOptions
from cotenant.domain.running import Command, EngineProcess, Health, Launch
from cotenant.edge.engines import find_driver, processes, programs
from cotenant.edge.engines.calls import call_json
from cotenant.edge.engines.checkup import checkup
from cotenant.errors import EngineError, InputError, UnknownEngineError


def start_stub(tmp_path: Path, *flags: str) -> EngineProcess:
    port = free_port()
    command = Command((sys.executable, str(STUB), "--port", str(port), *flags))
    process = processes.launch(command, url=f"http://127.0.0.1:{port}", log=tmp_path / "stub.log")
    end = time.monotonic() + 10
    while time.monotonic() < end and find_driver("llama.cpp").health(process.url) is Health.SILENT:
        time.sleep(0.01)
    return process


def test_children_of_any_thread_are_found():
    """A router starts its models from a thread of its own."""
    code = (
        "import subprocess, sys, threading, time\n"
        "def work():\n"
        "    child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "    print(child.pid, flush=True)\n"
        "    time.sleep(60)\n"
        "threading.Thread(target=work, daemon=True).start()\n"
        "time.sleep(60)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    child = int(parent.stdout.readline())
    try:
        assert processes.descendants(parent.pid) == (child,)
        found = EngineProcess(child, processes.start_of(child), ("", "-c"), "", "")
        processes.ask_to_stop(found, kill=True)  # it leads no group: it alone ends
        end = time.monotonic() + 5
        while not processes.gone(found) and time.monotonic() < end:
            time.sleep(0.01)
        assert processes.gone(found)
        assert parent.poll() is None
    finally:
        parent.kill()
        parent.wait()
        parent.stdout.close()


@pytest.fixture
def stub(tmp_path):
    process = start_stub(tmp_path)
    yield process
    processes.stop(process)


def test_an_engine_is_started_watched_and_stopped(stub):
    driver = find_driver("llama.cpp")
    assert driver.health(stub.url) is Health.READY
    assert driver.metrics(stub.url).running == 0
    assert processes.alive(stub)
    assert processes.same_command(stub)
    memory = processes.memory(stub)
    assert memory.anonymous_bytes > 2**20
    assert memory.resident_bytes <= memory.peak_bytes * 1.01
    assert processes.stop(stub)
    assert not processes.alive(stub)
    assert processes.exit_status(stub) == -signal.SIGTERM
    assert driver.health(stub.url) is Health.SILENT
    with pytest.raises(EngineError, match="gone"):
        processes.memory(stub)


def test_another_process_with_the_same_pid_is_left_alone():
    other = subprocess.Popen(["sleep", "30"])
    try:
        claimed = EngineProcess(other.pid, "boot/1", ("sleep", "30"), "http://127.0.0.1:1", "")
        assert not processes.alive(claimed)
        processes.ask_to_stop(claimed, kill=True)
        assert other.poll() is None
        real = replace(claimed, started=processes.start_of(other.pid) or "")
        end = time.monotonic() + 5
        while not processes.same_command(real) and time.monotonic() < end:
            time.sleep(0.01)  # a new program's arguments show a moment after it was started
        assert processes.same_command(real)
        assert not processes.same_command(replace(real, argv=("sleep", "31")))
    finally:
        other.kill()
        other.wait()


def test_workers_that_outlive_their_parent_are_no_longer_ours_to_leave(tmp_path):
    told = tmp_path / "worker"
    code = f"import subprocess as s; pid = s.Popen(['sleep', '60']).pid; open({str(told)!r}, 'w').write(str(pid))"
    process = processes.launch(
        Command((sys.executable, "-c", code)), url="http://127.0.0.1:1", log=tmp_path / "log"
    )
    end = time.monotonic() + 10
    while processes.alive(process) and time.monotonic() < end:
        time.sleep(0.01)
    worker = int(told.read_text())
    assert processes.start_of(worker) is not None
    while not processes.gone(process) and time.monotonic() < end:
        time.sleep(0.01)
    assert processes.start_of(worker) is None


def test_what_health_says(tmp_path, stub):
    driver = find_driver("llama.cpp")
    call_json(stub.url, "/_stub", method="POST", body={"fail": "health"})
    assert driver.health(stub.url) is Health.LOADING
    call_json(stub.url, "/_stub", method="POST", body={"fail": "mute"})
    assert driver.health(stub.url, timeout_s=0.2) is Health.SILENT


def test_secrets_go_by_environment_and_ours_stay_here(tmp_path, monkeypatch):
    monkeypatch.setenv("COTENANT_API_KEYS", "ours")
    told = tmp_path / "environment"
    code = f"import os; open({str(told)!r}, 'w').write(repr(dict(os.environ)))"
    process = processes.launch(
        Command((sys.executable, "-c", code), {"LLAMA_API_KEY": "theirs"}),
        url="http://127.0.0.1:1",
        log=tmp_path / "l",
    )
    end = time.monotonic() + 5
    while processes.alive(process) and time.monotonic() < end:
        time.sleep(0.01)
    assert "theirs" in told.read_text()
    assert "ours" not in told.read_text()
    assert os.stat(tmp_path / "l").st_mode & 0o077 == 0


def test_the_command_is_built_from_typed_fields(monkeypatch, tmp_path):
    server = tmp_path / "llama-server"
    server.write_text("#!/bin/sh\n")
    server.chmod(0o755)
    monkeypatch.setattr(programs, "_told", {})
    programs.tell({"llama.cpp": str(server)})
    settings = EngineSettings(llama_cpp=LlamaCppOptions(n_ctx=2048, n_parallel=2, n_gpu_layers=0))
    launch = Launch("a", "smol; rm -rf /", "llama.cpp", "11549", "/m/x.gguf", settings, 8001)
    command = find_driver("llama.cpp").command(launch, key="secret")
    assert command.argv == (
        str(server), "-m", "/m/x.gguf", "--alias", "smol; rm -rf /", "--port", "8001", "-ngl", "0", "-c", "2048",
        "-np", "2", "-fit", "off", "--host", "127.0.0.1", "--metrics", "--no-repack",
        "--cache-ram", "0", "--ctx-checkpoints", "0",
    )  # fmt: skip
    assert command.environment == {"LLAMA_API_KEY": "secret"}
    with pytest.raises(InputError, match="no program"):
        programs.tell({"llama.cpp": str(tmp_path / "missing")})


def test_a_missing_program_and_an_unknown_engine_are_said(tmp_path):
    with pytest.raises(InputError, match="could not be started"):
        processes.launch(Command((str(tmp_path / "none"),)), url="http://127.0.0.1:1", log=tmp_path / "log")
    with pytest.raises(UnknownEngineError, match="no driver"):
        find_driver("abacus")


def launch_of(engine: str, version: str, **more) -> Launch:
    return Launch("r", "chat", engine, version, "org/model", EngineSettings(), 8101, devices=(1, 0), **more)


@pytest.mark.parametrize(
    ("engine", "version", "first", "last", "variables"),
    [
        ("vllm", "0.21", "serve", ("--host", "127.0.0.1"), {"VLLM_API_KEY": "k"}),
        ("tgi", "3.3", "--model-id", ("--hostname", "127.0.0.1"), {}),
        ("sglang", "0.5", "-m", ("127.0.0.1", "--enable-metrics"), {}),
        ("ollama", "0.20", "serve", ("serve",), {"OLLAMA_HOST": "127.0.0.1:8101", "OLLAMA_KEEP_ALIVE": "-1"}),
    ],
)
def test_each_engine_listens_on_loopback_and_gets_its_key_by_environment(
    monkeypatch, engine, version, first, last, variables
):
    monkeypatch.setattr(programs, "_told", {engine: "/opt/engine"})
    command = find_driver(engine).command(launch_of(engine, version), key="k")
    assert command.argv[:2] == ("/opt/engine", first)
    assert command.argv[-len(last) :] == last
    assert "k" not in command.argv
    cards = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "1,0"}
    assert command.environment == variables | cards


def test_vllm_is_told_to_be_able_to_sleep_only_where_the_plan_says_so(monkeypatch):
    monkeypatch.setattr(programs, "_told", {"vllm": "/opt/vllm"})
    driver = find_driver("vllm")
    assert "--enable-sleep-mode" not in driver.command(launch_of("vllm", "0.21")).argv
    command = driver.command(launch_of("vllm", "0.21", sleep_level=1))
    assert "--enable-sleep-mode" in command.argv
    assert command.environment["VLLM_SERVER_DEV_MODE"] == "1"


@pytest.mark.parametrize("level", [1, 2])
def test_vllm_sleeps_wakes_and_changes_adapters(stub, level):
    driver = find_driver("vllm")
    assert driver.health(stub.url) is Health.READY
    driver.sleep(stub.url, level=level)
    assert driver.health(stub.url) is Health.ASLEEP
    with pytest.raises(EngineError, match="500"):
        checkup(stub.url, "m")
    driver.wake(stub.url, level=level)
    assert driver.health(stub.url) is Health.READY
    assert checkup(stub.url, "m") == "w0 w1 w2 w3 "
    driver.load_adapter(stub.url, "legal", "/adapters/legal")
    driver.unload_adapter(stub.url, "legal")


def test_a_wake_that_answers_wrongly_is_noticed(tmp_path):
    process = start_stub(tmp_path, "--wrong-after-wake")
    try:
        driver = find_driver("vllm")
        assert checkup(process.url, "m")
        driver.sleep(process.url)
        driver.wake(process.url)
        assert driver.health(process.url) is Health.READY  # healthy, and wrong
        with pytest.raises(EngineError, match="empty"):
            checkup(process.url, "m")
    finally:
        processes.stop(process)


@pytest.mark.parametrize(
    ("engine", "kv_used", "generated"),
    [("vllm", 0.25, 4), ("sglang", 0.5, None), ("tgi", None, None), ("llama.cpp", None, 4)],
)
def test_metrics_by_each_engines_names(stub, engine, kv_used, generated):
    call_json(stub.url, "/v1/completions", method="POST", body={"model": "m", "prompt": "x"})
    found = find_driver(engine).metrics(stub.url)
    assert (found.running, found.waiting) == (0, 0)
    assert (found.kv_used, found.generated_tokens) == (kv_used, generated)


@pytest.mark.parametrize("engine", ["llama.cpp", "tgi", "sglang"])
def test_engines_that_do_not_sleep_say_so(stub, engine):
    driver = find_driver(engine)
    assert not driver.can_sleep
    with pytest.raises(EngineError, match="does not sleep"):
        driver.sleep(stub.url)
