"""What `verify` refuses: what cannot be meant, other hardware, engines that are missing, hostile plans."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import cotenant
from cotenant.edge.verifying.devices import DeviceSource
from cotenant.errors import EngineError, InputError, InputErrors
from tests.edge.verified import STUB, engine_at, plan_of, port, running


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


def test_without_nvmls_binding_the_extra_to_install_is_named(stub, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    place = plan_of(tmp_path, port=port(), device="A100-80GB-SXM")
    with pytest.raises(InputError, match="nothing here can read cards: nvidia-ml-py is not installed") as error:
        cotenant.verify(str(place), state=str(tmp_path / "state"))
    assert error.value.hint.startswith("pip install '.[verify]' in the clone; or on the machine of the plan")
    with pytest.raises(EngineError, match="nvidia-ml-py is not installed") as error:
        DeviceSource("nvml")
    assert error.value.hint == "pip install '.[verify]' in the clone"
    theirs = subprocess.Popen([sys.executable, "-S", str(STUB), "--port", str(number := port())])
    try:
        urls = {"chat": f"http://127.0.0.1:{number}"}
        engine_at(urls["chat"], tmp_path).start()
        found = cotenant.verify(str(place), urls=urls, quick=True, state=str(tmp_path / "state"))
    finally:
        theirs.kill()
        theirs.wait()
    silent = "what processes hold on cards is not known: nvidia-ml-py is not installed"
    assert f"{silent} (pip install '.[verify]' in the clone)" in found.warnings


def test_a_missing_engine_and_a_taken_port_are_said(stub, tmp_path, monkeypatch):
    place = plan_of(tmp_path, port=(number := port()))
    theirs = subprocess.Popen([sys.executable, "-S", str(STUB), "--port", str(number)])
    try:
        engine_at(f"http://127.0.0.1:{number}", tmp_path).start()
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
