"""`cotenant verify` over sockets, on an engine that speaks as told: verdicts, refusals, what it leaves behind."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cotenant
from cotenant.domain.verification import Held
from cotenant.edge.engines import programs
from cotenant.edge.verifying.devices import DeviceSource, smi_process_bytes
from cotenant.edge.verifying.pages import file_pages
from cotenant.errors import EngineError, InputError, InputErrors
from cotenant.readers.device_metrics import dcgm_used_bytes, smi_processes

STUB = Path(__file__).with_name("stub_engine.py")
MIB = 2**20


def plan_of(tmp_path: Path, *, port: int, count: int = 1, device: str = "CPU", capacity: int = 2**31) -> Path:
    """A plan of one or two stubs on llama.cpp's words."""
    from bench.live_case import plan_document

    document = plan_document(dict.fromkeys(("chat", "code")[:count], 100 * MIB), capacity)
    checkpoint = tmp_path / "none.gguf"
    checkpoint.write_bytes(b"GGUF")
    document["replicas"][0]["port"] = port
    for replica in document["replicas"]:
        replica |= {"checkpoint": str(checkpoint), "model_id": str(checkpoint)}
        replica |= {"max_model_len": 64, "n_ctx": 128}
        replica["devices"][0] = {"type": device, "node": 0, "index": 0}
        if device != "CPU":
            replica["n_gpu_layers"] = 99
    document["gpus"][0]["type"] = device
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(document))
    return path


@pytest.fixture
def stub(tmp_path, monkeypatch):
    """The stub as llama.cpp's program; our own folders apart."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    script = tmp_path / "llama-server"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "{STUB}" "$@"\n')
    script.chmod(0o755)
    monkeypatch.setattr(programs, "_told", {})
    programs.tell({"llama.cpp": str(script)})
    return script


def port() -> int:
    from bench.live_case import free_port

    return free_port()


def running(script: Path) -> list[str]:
    """Processes of ours that are left."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = place.read_bytes()
        except OSError:
            continue
        if str(STUB).encode() in words and str(script.parent).encode() in words:
            found.append(words.decode())
    return found


def test_engines_are_started_measured_and_stopped(stub, tmp_path):
    place = plan_of(tmp_path, port=port(), count=2, capacity=2**31)
    found = cotenant.verify(str(place), state=str(tmp_path / "state"))
    assert [one.id for one in found.replicas] == ["chat-1", "code-1"]
    chat = found.replicas[0]
    assert {"loaded", "warm", "peak", "after"} <= set(chat.readings)
    assert all(point.answered and not point.errors for point in chat.points if point.input_tokens <= 64)
    assert chat.readings["loaded"].total_bytes > 5 * MIB
    lines = {(line.replica, line.check): line for line in found.findings}
    assert lines["chat-1", "the edge is where planned"].held is Held.NO  # the stub refuses no length
    assert {"chat-1", "code-1"} == {name for name, check in lines if check == "no model starves another"}
    assert not found.holds
    assert running(stub) == []
    assert not (tmp_path / "state" / "journal.json").exists()  # it came to its end


def test_one_that_runs_already_is_left_alone(stub, tmp_path):
    number = port()
    theirs = subprocess.Popen([sys.executable, "-S", str(STUB), "--port", str(number)])
    try:
        place = plan_of(tmp_path, port=port())
        found = cotenant.verify(
            str(place), urls={"chat": f"http://127.0.0.1:{number}/v1"}, pids={"chat": theirs.pid}, quick=True,
            state=str(tmp_path / "state"),
        )  # fmt: skip
        assert theirs.poll() is None
        assert found.replicas[0].readings["before"].total_bytes > 5 * MIB
        assert found.replicas[0].points[0].answered == 2
    finally:
        theirs.kill()
        theirs.wait()


def test_low_and_high_tide_of_a_short_watch(stub, tmp_path):
    place = plan_of(tmp_path, port=port())
    found = cotenant.verify(str(place), quick=True, watch="400ms", every="50ms", state=str(tmp_path / "state"))
    low, high = found.tides["chat-1"]
    assert 0 <= low[0] < 0.5
    assert 0 < low[1] <= high[1]
    assert len(found.series["chat-1"]) >= 6


def test_a_plans_fleet_that_cannot_be_opened_is_said(stub, tmp_path):
    place = plan_of(tmp_path, port=port())
    told = json.loads(place.read_text())
    chat = {
        "name": "chat",
        "model": "/nowhere/at-all",
        "traffic": {"concurrent": 1, "context_tokens": {"p50": 32}},
    }
    place.write_text(json.dumps(told | {"fleet": {"gpus": [{"type": "L4"}], "models": [chat]}}))
    found = cotenant.verify(str(place), quick=True, state=str(tmp_path / "state"))
    assert any("limits stood in for its traffic" in words for words in found.warnings)


def test_models_that_take_turns_are_not_watched_and_that_is_said(stub, tmp_path):
    place = plan_of(tmp_path, port=port(), count=2, capacity=150 * MIB)
    found = cotenant.verify(str(place), quick=True, watch="400ms", state=str(tmp_path / "state"))
    assert not found.tides
    assert any("nothing was watched" in words for words in found.warnings)
    assert running(stub) == []


def test_a_broken_campaign_goes_on_where_it_was(stub, tmp_path):
    number = port()
    place = plan_of(tmp_path, port=number)
    asked = {"state": str(tmp_path / "state"), "max_errors": 0}
    theirs = subprocess.Popen([sys.executable, "-S", str(STUB), "--port", str(number)])
    try:
        from cotenant.edge.engines.calls import call
        from cotenant.edge.verifying import engine as engines

        url = f"http://127.0.0.1:{number}"
        engines.LiveEngine.start(_engine_at(url, tmp_path))
        call(url, "/_stub", method="POST", body={"fail": "500", "times": 0})
        whole = cotenant.verify(str(place), urls={"chat": url}, **asked)
        assert not whole.stopped
        seen = json.loads(call(url, "/_stub", method="POST", body={})[1])["seen"]
        journal = tmp_path / "state" / "journal.json"
        assert not journal.exists()
        call(url, "/_stub", method="POST", body={"fail": "500", "times": 1, "seen": []})
        broken = cotenant.verify(str(place), urls={"chat": url}, **asked)
        assert "CUDA error: out of memory" in broken.stopped
        assert not broken.holds
        again = cotenant.verify(str(place), urls={"chat": url}, **asked)
        assert not again.stopped
        assert len(again.replicas[0].points) == len(whole.replicas[0].points)
        assert seen
    finally:
        theirs.kill()
        theirs.wait()


def _engine_at(url: str, tmp_path: Path):
    from cotenant.domain.engine import EngineSettings
    from cotenant.domain.running import Launch
    from cotenant.edge.verifying.engine import LiveEngine

    launch = Launch("x", "x", "llama.cpp", "11549", "/m/x.gguf", EngineSettings(), 1, url=url)
    return LiveEngine(launch, log=None, device_bytes=lambda _: None)


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"urls": {"nobody": "http://x"}}, "no replica or model 'nobody'"),
        ({"urls": {"chat": "ftp://x"}}, "is no http address"),
        ({"logs": {"chat": "/nowhere.log"}}, "no log at"),
        ({"pids": {"chat": "-1"}}, "is no process id"),
        ({"metrics": "abacus"}, "is no source of figures"),
        ({"every": "0s"}, "some time must pass"),
        ({"max_kv": "0.9"}, "is not a percentage"),
    ],
)
def test_what_cannot_be_meant_is_refused(stub, tmp_path, asked, says):
    with pytest.raises(InputError, match=says):
        cotenant.verify(str(plan_of(tmp_path, port=port())), state=str(tmp_path / "state"), **asked)
    assert running(stub) == []


def test_a_plan_for_other_hardware_is_refused(stub, tmp_path):
    place = plan_of(tmp_path, port=port(), device="A100-80GB-SXM")
    with pytest.raises(InputError, match="this plan is for A100-80GB-SXM, and this machine has none"):
        cotenant.verify(str(place), state=str(tmp_path / "state"))


def test_a_missing_engine_and_a_taken_port_are_said(stub, tmp_path, monkeypatch):
    place = plan_of(tmp_path, port=(number := port()))
    theirs = subprocess.Popen([sys.executable, "-S", str(STUB), "--port", str(number)])
    try:
        _engine_at(f"http://127.0.0.1:{number}", tmp_path).start()
        with pytest.raises(EngineError, match=f"port {number} is taken"):
            cotenant.verify(str(place), state=str(tmp_path / "state"))
        assert theirs.poll() is None
    finally:
        theirs.kill()
        theirs.wait()
    stub.write_text("#!/bin/sh\necho 'error: no such model' >&2\nexit 1\n")
    with pytest.raises(EngineError, match="ended") as error:
        cotenant.verify(str(place), state=str(tmp_path / "state2"))
    assert "no such model" in error.value.hint or "see" in error.value.hint


@pytest.mark.parametrize(
    "change",
    [
        {"command": ["rm", "-rf", "/"]}, {"engine": "rm -rf /"}, {"port": "80"}, {"checkpoint": 3},
        {"max_model_len": -1}, {"n_ctx": 2**80},
    ],
)  # fmt: skip
def test_a_hostile_plan_starts_nothing_of_its_own(stub, tmp_path, change):
    place = plan_of(tmp_path, port=port())
    document = json.loads(place.read_text())
    document["replicas"][0] |= change
    place.write_text(json.dumps(document))
    if "command" in change:  # a plan's text is never run
        assert cotenant.verify(str(place), quick=True, state=str(tmp_path / "state")).replicas
        return
    try:
        found = cotenant.verify(str(place), quick=True, state=str(tmp_path / "state"))
    except (InputErrors, InputError, EngineError):
        return
    assert found.replicas


NVML = r"""
#include <string.h>
typedef void *nvmlDevice_t;
typedef struct { unsigned long long total, free, used; } memory_t;
typedef struct { unsigned int pid; unsigned long long used; unsigned int gi, ci; } process_t;
int nvmlInitWithFlags(unsigned int flags) { return 0; }
int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned int *count) { *count = 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device) {
  *device = (void *)(1UL + index); return 0; }
int nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length) {
  strncpy(name, "NVIDIA A100-SXM4-80GB", length); return 0; }
int nvmlDeviceGetMemoryInfo(nvmlDevice_t device, memory_t *memory) {
  memory->total = 85899345920ULL; memory->used = 12884901888ULL; memory->free = memory->total - memory->used;
  return 0; }
int nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *count, process_t *found) {
  if (*count < 2) { *count = 2; return 7; }
  *count = 2; found[0].pid = 4242; found[0].used = device == (void *)1 ? 8589934592ULL : 1073741824ULL;
  found[1].pid = 7; found[1].used = device == (void *)1 ? 1048576ULL : ~0ULL;
  return 0; }
const char *nvmlErrorString(int code) { return code == 7 ? "Insufficient Size" : "error"; }
"""


def test_the_real_binding_reads_a_stub_of_the_library(tmp_path):
    pytest.importorskip("pynvml")
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler here")
    (tmp_path / "nvml.c").write_text(NVML)
    library = tmp_path / "libnvidia-ml.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(library), str(tmp_path / "nvml.c")], check=True)
    script = """
from cotenant.edge.verifying.devices import nvml, nvml_cards, nvml_process_bytes
found = nvml()
print(nvml_cards(found))
print([nvml_process_bytes(found, frozenset(pids)) for pids in ({4242}, {7}, {9})])
"""
    environment = os.environ | {"LD_LIBRARY_PATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    cards = [("NVIDIA A100-SXM4-80GB", 85899345920, 12884901888)] * 2
    assert done.stdout.splitlines() == [
        str(cards),
        str([8589934592, None, None]),
    ]  # the fullest; not told; not there


def test_tools_text_is_read():
    text = "4242, 8192, GPU-1\n7, 16 MiB, GPU-2\n4242, 1024, GPU-2\n9, [N/A], GPU-1\nno lines\n"
    assert smi_processes(text) == (
        ("GPU-1", 4242, 8192 * MIB), ("GPU-2", 7, 16 * MIB), ("GPU-2", 4242, 1024 * MIB)
    )  # fmt: skip
    assert smi_process_bytes(frozenset({4242}), text) == 8192 * MIB  # a rank's, as the plan's bytes are
    assert smi_process_bytes(frozenset({4242, 7}), "7, 16 MiB, GPU-2\n4242, 1024, GPU-2\n") == 1040 * MIB
    assert smi_process_bytes(frozenset({9}), text) is None
    gauges = (
        "# TYPE DCGM_FI_DEV_FB_USED gauge\n"
        'DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-1",modelName="NVIDIA A100-SXM4-80GB"} 12288\n'
        'DCGM_FI_DEV_FB_USED{gpu="1",UUID="GPU-2"} 3 1700000000\n'
        'DCGM_FI_DEV_FB_FREE{gpu="0"} 99\nDCGM_FI_DEV_FB_USED{gpu="2"} NaN\n'
    )
    assert dcgm_used_bytes(gauges) == {0: 12288 * MIB, 1: 3 * MIB}


@given(st.text(max_size=200))
def test_any_text_is_survived(text):
    assert all(size >= 0 for _, _, size in smi_processes(text))
    assert all(size >= 0 for size in dcgm_used_bytes(text).values())


def test_gauges_from_a_file_are_those_of_the_replicas_cards(tmp_path):
    from cotenant.edge.plans import given_plan

    gauges = tmp_path / "dcgm.txt"
    gauges.write_text('DCGM_FI_DEV_FB_USED{gpu="0"} 100\nDCGM_FI_DEV_FB_USED{gpu="1"} 7\n')
    plan = given_plan(str(plan_of(tmp_path, port=port(), device="L4")))
    assert plan is not None
    assert DeviceSource(str(gauges)).of(plan.replicas[0])(os.getpid()) == 100 * MIB


def test_gauges_by_url_and_nvidia_smi_itself(tmp_path, monkeypatch):
    from cotenant.edge.plans import given_plan

    class Exporter(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200 if self.path == "/metrics" else 404)
            self.end_headers()
            self.wfile.write(b'DCGM_FI_DEV_FB_USED{gpu="0"} 100\n')

        def log_message(self, *_):
            pass

    plan = given_plan(str(plan_of(tmp_path, port=port(), device="L4")))
    assert plan is not None
    (replica,) = plan.replicas
    with HTTPServer(("127.0.0.1", 0), Exporter) as exporter:
        threading.Thread(target=exporter.serve_forever, daemon=True).start()
        place = f"http://127.0.0.1:{exporter.server_port}"
        assert DeviceSource(f"{place}/metrics").of(replica)(os.getpid()) == 100 * MIB
        assert DeviceSource(f"{place}/elsewhere").of(replica)(os.getpid()) is None
        exporter.shutdown()
    tool = tmp_path / "nvidia-smi"
    tool.write_text(f'#!/bin/sh\necho "{os.getpid()}, 300, GPU-1"\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert DeviceSource("nvidia-smi").of(replica)(os.getpid()) == 300 * MIB
    tool.write_text("#!/bin/sh\nexit 9\n")
    assert DeviceSource("nvidia-smi").of(replica)(os.getpid()) is None


def test_pages_of_a_file_are_counted(tmp_path):
    import mmap

    path = tmp_path / "weights"
    path.write_bytes(b"x" * 8 * MIB)
    assert file_pages(os.getpid(), str(path)) == (0, 0)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        assert sum(mapped[place] for place in range(0, 8 * MIB, 4096)) > 0
        resident, _ = file_pages(os.getpid(), str(path))
        assert resident == 8 * MIB
    assert file_pages(os.getpid(), "/nowhere") == (0, 0)


def test_the_command_says_it_in_json_in_a_page_and_by_its_status(stub, tmp_path, monkeypatch):
    from click.testing import CliRunner

    from cotenant.cli.root import cli

    place, page = plan_of(tmp_path, port=port()), tmp_path / "report.html"
    words = ["verify", str(place), "--quick", "--state", str(tmp_path / "state"), "--html", str(page), "--json"]
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 3  # the stub refuses no length
    document = json.loads(done.stdout)
    assert document["schema"] == "cotenant/verify/1"
    assert {line["verdict"] for line in document["findings"]} <= {"holds", "off", "unknown"}
    assert "<figure>" in page.read_text()
    bad = CliRunner().invoke(cli, [*words, "--url", "chat"])
    assert bad.exit_code == 1
    assert "is not NAME=VALUE" in json.loads(bad.stdout)["errors"][0]["error"]


def test_keys_come_from_the_environment_alone(stub, tmp_path, monkeypatch):
    number = port()
    key = {"LLAMA_API_KEY": "a-key-of-theirs"}
    theirs = subprocess.Popen([sys.executable, "-S", str(STUB), "--port", str(number)], env=os.environ | key)
    try:
        place, url = plan_of(tmp_path, port=port()), f"http://127.0.0.1:{number}"
        asked = {"urls": {"chat": url}, "quick": True, "state": str(tmp_path / "state")}
        with pytest.raises(InputError, match="no key in the environment"):
            cotenant.verify(str(place), key_env="NO_SUCH_KEY", **asked)
        assert "401" in cotenant.verify(str(place), **asked).stopped
        monkeypatch.setenv("THEIR_KEY", "a-key-of-theirs")
        assert not cotenant.verify(str(place), key_env="THEIR_KEY", **asked).stopped
    finally:
        theirs.kill()
        theirs.wait()


def test_an_engine_of_another_version_is_told():
    from cotenant.edge.verifying.engine import version_of
    from tests.edge.test_recorded_metrics import serving

    with serving('{"version": "0.22.1"}') as url:
        assert version_of(url, "vllm") == "0.22.1"
    with serving('{"build_info": "b11000-abc"}') as url:
        assert version_of(url, "llama.cpp") == "11000"
    with serving("[1]") as url:
        assert version_of(url, "vllm") is None


def test_sigterm_leaves_no_engine_behind(stub, tmp_path):
    place = plan_of(tmp_path, port=(number := port()))
    words = [sys.executable, "-m", "cotenant", "verify", str(place), "--state", str(tmp_path / "state")]
    words += ["--engine-binary", f"llama.cpp={stub}", "--watch", "60s"]
    told = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _engine_at(f"http://127.0.0.1:{number}", tmp_path).start()
        told.terminate()
        assert told.wait(20) == 130
    finally:
        told.kill()
        told.wait()
    assert running(stub) == []


def test_what_is_under_way_ends_with_the_step(tmp_path):
    """A rule that stops a step takes back what it sent: nobody's engine goes on answering for nobody."""
    import time

    from cotenant.domain.verification import Ask
    from cotenant.edge.engines.calls import call_json
    from cotenant.edge.verifying.load import HttpLoad

    theirs = subprocess.Popen([sys.executable, "-S", str(STUB), "--port", str(number := port())])
    try:
        engine = _engine_at(f"http://127.0.0.1:{number}", tmp_path)
        engine.start()
        load = HttpLoad({"chat": engine}, seed=1, vocabulary={}, sample_s=0.02)
        running = lambda: call_json(engine.url, "/_stub", method="POST", body={})["running"]  # noqa: E731
        call_json(engine.url, "/_stub", method="POST", body={"fail": "stall", "after": 1, "times": 2})
        began = time.monotonic()
        asks = [Ask("chat", 4, 4)] * 5

        def full(_reading, _replies):
            return "its pool is 95% full" if running() == 2 else ""

        replies, _, stopped = load.send(asks, concurrency={"chat": 2}, stop=full)
        assert (replies, stopped) == ((), "its pool is 95% full")
        while running():
            assert time.monotonic() - began < 60
        call_json(engine.url, "/_stub", method="POST", body={"fail": "stall", "after": 1, "times": 1})

        def interrupted(_reading, _replies):
            if running():
                raise KeyboardInterrupt
            return ""

        later = [*asks, Ask("chat", 4, 4, at_s=300.0)]  # of an open loop, not sent yet
        with pytest.raises(KeyboardInterrupt):
            load.send(later, concurrency={"chat": 9}, stop=interrupted)
        while running():
            assert time.monotonic() - began < 60
        replies, _, stopped = load.send(asks, concurrency={"chat": 2}, stop=lambda *_: "")
        assert (len(replies), stopped, [one.error for one in replies]) == (5, "", [""] * 5)
    finally:
        theirs.kill()
        theirs.wait()
