"""`cotenant verify` over sockets, on an engine that speaks as told: verdicts, and what it leaves behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

import cotenant
from cotenant.domain.verification import Held
from cotenant.errors import InputError
from tests.edge.verified import MIB, STUB, engine_at, plan_of, port, running


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
        engines.LiveEngine.start(engine_at(url, tmp_path))
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
        engine_at(f"http://127.0.0.1:{number}", tmp_path).start()
        told.terminate()
        assert told.wait(20) == 130
    finally:
        told.kill()
        told.wait()
    assert running(stub) == []


def test_engines_of_a_run_that_was_killed_are_stopped_by_the_next_and_by_nobody_meanwhile(stub, tmp_path):
    place = plan_of(tmp_path, port=(number := port()))
    state = tmp_path / "state"
    words = [sys.executable, "-m", "cotenant", "verify", str(place), "--state", str(state), "--quick"]
    words += ["--engine-binary", f"llama.cpp={stub}", "--watch", "60s"]
    told = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        engine_at(f"http://127.0.0.1:{number}", tmp_path).start()
        with pytest.raises(InputError, match="another verification runs with the state in"):
            cotenant.verify(str(place), quick=True, state=str(state))
    finally:
        told.kill()
        told.wait()
    assert len(running(stub)) == 1
    assert cotenant.verify(str(place), quick=True, state=str(state)).replicas
    assert running(stub) == []
