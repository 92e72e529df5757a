"""Keys and the journal: what is read, what is refused, what is set aside."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.domain.running import EngineProcess
from cotenant.edge.gateway.journal import Entry, Journal
from cotenant.edge.gateway.keys import Client, read_keys
from cotenant.errors import InputError, InputErrors
from cotenant.readers.prometheus import totals


def keys_file(tmp_path, text):
    place = tmp_path / "keys"
    place.write_text(text)
    place.chmod(0o600)
    return place


def test_keys_name_clients_and_bound_priorities(tmp_path):
    keys = read_keys(keys_file(tmp_path, "# ours\nalice alices-key priority=5\n\nbob bobs-own-key\n"))
    assert len(keys) == 2
    assert keys.client("Bearer alices-key") == Client("alice", 5)
    assert keys.client("bearer  bobs-own-key") == Client("bob")
    for wrong in ("", "alices-key", "Basic alices-key", "Bearer ", "Bearer alices-ke", "Bearer \udcff"):
        assert keys.client(wrong) is None


def test_every_fault_is_told_and_no_key_is_shown(tmp_path):
    with pytest.raises(InputErrors) as caught:
        read_keys(keys_file(tmp_path, "alice short\nbob bobs-own-key priority=high\n"))
    assert [fault.path.rpartition(":")[2] for fault in caught.value.errors] == ["1", "2"]
    assert "bobs-own-key" not in str([fault.message for fault in caught.value.errors])
    with pytest.raises(InputError, match="no key stands"):
        read_keys(keys_file(tmp_path, "# nothing\n"))
    with pytest.raises(InputError, match="cannot read"):
        read_keys(tmp_path / "missing")


ENTRY = Entry(
    "a-1", EngineProcess(1234, "boot/5", ("llama-server", "-m", "x"), "http://127.0.0.1:1", "log"), "key"
)


def test_the_journal_remembers_and_is_held_by_one(tmp_path):
    journal = Journal(tmp_path)
    journal.put(ENTRY)
    with pytest.raises(InputError, match="another gateway"):
        Journal(tmp_path)
    journal.close()
    again = Journal(tmp_path)
    assert again.entries() == (ENTRY,)
    assert (tmp_path / "engines.json").stat().st_mode & 0o077 == 0
    again.drop(ENTRY.process)
    assert again.entries() == ()
    again.close()


@pytest.mark.parametrize(
    "text",
    ["", "{", "[1]", '[{"replica": "a"}]', "[" * 10_000, json.dumps([{"replica": 1, "key": "", "process": {}}])],
)
def test_a_corrupt_journal_is_set_aside_and_nothing_is_adopted(tmp_path, text):
    (tmp_path / "engines.json").write_text(text)
    journal = Journal(tmp_path)
    assert journal.entries() == ()
    assert (tmp_path / "engines.corrupt").read_text() == text
    journal.close()


def test_metrics_add_up_over_labels():
    text = 'a_total{x="1"} 2\na_total{x="2"} 3 1700000000\n# HELP a_total words\nb 1e3\nc NaN\nd +Inf\ne x\n f 1\n'
    assert totals(text) == {"a_total": 5.0, "b": 1000.0}


@given(st.text())
def test_any_text_is_read(text):
    assert all(isinstance(value, float) for value in totals(text).values())
