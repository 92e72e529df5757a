"""Engine drivers and processes against a stub engine: a real process that speaks the engine's HTTP."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from cotenant.domain.engine import EngineSettings
from cotenant.domain.llama_cpp import LlamaCppOptions
from cotenant.domain.running import Command, EngineProcess, Health, Launch
from cotenant.edge.engines import find_driver, processes, programs
from cotenant.edge.engines.calls import call_json
from cotenant.errors import EngineError, InputError, UnknownEngineError

STUB = Path(__file__).with_name("stub_engine.py")


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def start_stub(tmp_path: Path, *flags: str) -> EngineProcess:
    port = free_port()
    command = Command((sys.executable, str(STUB), str(port), *flags))
    process = processes.launch(command, url=f"http://127.0.0.1:{port}", log=tmp_path / "stub.log")
    end = time.monotonic() + 10
    while time.monotonic() < end and find_driver("llama.cpp").health(process.url) is Health.SILENT:
        time.sleep(0.01)
    return process


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
        "-np", "2", "-fit", "off", "--host", "127.0.0.1", "--metrics", "-lv", "4",
    )  # fmt: skip
    assert command.environment == {"LLAMA_API_KEY": "secret"}
    with pytest.raises(InputError, match="no program"):
        programs.tell({"llama.cpp": str(tmp_path / "missing")})


def test_a_missing_program_and_an_unknown_engine_are_said(tmp_path):
    with pytest.raises(InputError, match="could not be started"):
        processes.launch(Command((str(tmp_path / "none"),)), url="http://127.0.0.1:1", log=tmp_path / "log")
    with pytest.raises(UnknownEngineError, match="no driver"):
        find_driver("abacus")
