"""The gateway's journal, and disks that take nothing."""

from __future__ import annotations

import json
import os
import shutil
import signal
import threading
import time
from dataclasses import replace

import pytest

from bench.live_case import MIB, Gateway, plan_document
from cotenant.domain.running import EngineProcess
from cotenant.edge.gateway.journal import Entry, Journal
from cotenant.errors import InputError

pytest.importorskip("aiohttp")


PROCESS = EngineProcess(1234, "boot/5", ("llama-server", "-m", "x"), "http://127.0.0.1:81", "log")


@pytest.fixture
def gateway(tmp_path):
    one = Gateway(tmp_path, plan_document({"alpha": 100 * MIB, "beta": 100 * MIB}, 300 * MIB))
    for model in ("alpha", "beta"):
        one.wait_for(model, "ready")
    yield one
    one.stop()


def test_a_disk_that_takes_nothing_stops_neither_serving_nor_the_watch(gateway):
    """No journal and no log can be written: engines that die are still seen, and started again."""
    state, moved = gateway.folder / "state", gateway.folder / "moved"
    first, _ = gateway.engines()
    state.rename(moved)
    state.write_text("no folder")
    os.kill(first, signal.SIGKILL)
    end = time.monotonic() + 10
    while '"engine_gone"' not in gateway.logged() and time.monotonic() < end:
        time.sleep(0.05)
    assert gateway.chat("alpha")[0] == gateway.chat("beta")[0] == 200
    assert gateway.logged().count('"journal_not_written"') == 1
    state.unlink()
    shutil.move(moved, state)
    end = time.monotonic() + 15
    while first in gateway.engines() and time.monotonic() < end:
        time.sleep(0.1)
    assert first not in gateway.engines()  # it has caught up
    assert len(gateway.engines()) == 2


def test_an_engine_that_is_stopped_by_its_keyboard_does_not_hold_up_the_end(tmp_path):
    document = plan_document({"alpha": 100 * MIB}, 300 * MIB)
    one = Gateway(tmp_path, document, "--drain", "0.5s")
    one.wait_for("alpha", "ready")
    (pid,) = one.engines()
    os.kill(pid, signal.SIGSTOP)  # hung: SIGTERM does not reach it
    answers = []
    asking = threading.Thread(target=lambda: answers.append(one.chat("alpha")))
    asking.start()
    time.sleep(0.3)
    assert one.stop(wait_s=30) == 0
    asking.join(10)
    assert answers[0][0] == 503
    assert not os.path.exists(f"/proc/{pid}")


@pytest.mark.parametrize(
    "changes",
    [
        {"pid": 2**70}, {"pid": -1}, {"pid": 0}, {"pid": 1}, {"pid": True}, {"pid": 5.0}, {"log": "a\0b"},
        {"url": "http://[::1"}, {"url": "http://127.0.0.1:99999"}, {"url": "http://a:b@127.0.0.1"}, {"argv": []},
        {"argv": "llama-server"}, {"argv": [1]}, {"started": None},
    ],
)  # fmt: skip
def test_a_journal_that_we_cannot_have_written_is_set_aside(tmp_path, changes):
    told = {"pid": 1234, "started": "boot/5", "argv": ["x"], "url": "http://127.0.0.1:81", "log": "log"} | changes
    text = json.dumps([{"replica": "a", "key": "key", "process": told}])
    (tmp_path / "engines.json").write_text(text)
    journal = Journal(tmp_path)
    assert journal.entries() == ()
    assert (tmp_path / "engines.corrupt").read_text() == text
    journal.close()


def test_a_key_that_would_split_a_header_is_none(tmp_path):
    row = {"replica": "a", "key": "a\r\nX: y", "process": {"pid": 9, "started": "b", "argv": ["x"], "log": ""}}
    row["process"]["url"] = PROCESS.url
    (tmp_path / "engines.json").write_text(json.dumps([row]))
    journal = Journal(tmp_path)
    assert journal.entries() == ()
    journal.close()


def test_two_engines_of_one_replica_stand_side_by_side_in_the_journal(tmp_path):
    journal = Journal(tmp_path)
    old, new = Entry("a", PROCESS, "old"), Entry("a", replace(PROCESS, pid=1235), "new")
    journal.put(old)
    journal.put(new)
    assert journal.entries() == (old, new)
    journal.drop(old.process)
    journal.close()
    again = Journal(tmp_path)
    assert again.entries() == (new,)
    again.close()


def test_each_engine_writes_into_a_file_of_its_own(tmp_path):
    journal = Journal(tmp_path / "state")
    names = [
        "chat-1",
        "a b",
        "a_b",
        "a/b",
        "../../etc/passwd",
        ".",
        "聊天",
        "聊" * 500,
        "x" * 300,
        "\ud800",
        "é",
        "e\n",
    ]
    places = [journal.log_of(name) for name in names]
    assert len(set(places)) == len(names)
    assert places[0].name == "chat-1.log"
    for place in places:
        assert place.parent == tmp_path / "state" / "logs"
        place.parent.mkdir(exist_ok=True)
        place.write_text("")  # short enough for a file system
    journal.close()


def test_a_log_that_grows_for_ever_is_begun_anew_while_its_engine_writes(tmp_path):
    journal = Journal(tmp_path / "state")
    path = journal.log_of("chat-1")
    path.parent.mkdir()
    with path.open("ab") as engine:  # as an engine's output is opened
        engine.write(b"1" * 3000)
        engine.flush()
        journal.trim_logs(4000)
        assert path.stat().st_size == 3000
        engine.write(b"2" * 2000)
        engine.flush()
        journal.trim_logs(4000)
        engine.write(b"3")
        engine.flush()
    assert path.read_bytes() == b"3"
    assert path.with_suffix(".log.1").read_bytes() == b"1" * 3000 + b"2" * 2000
    journal.close()


def test_state_that_cannot_be_kept_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot keep state"):
        Journal(tmp_path / "file" / "state")
