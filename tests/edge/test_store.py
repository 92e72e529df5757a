"""Our own files: where they live, never half written, never silently lost."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cotenant.edge import store
from cotenant.errors import FormatError, InputError


def test_folders_follow_the_xdg_variables(monkeypatch, tmp_path):
    for variable in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert store.config_dir() == tmp_path / ".config/cotenant"
    assert store.cache_dir() == tmp_path / ".cache/cotenant"
    assert store.data_dir() == tmp_path / ".local/share/cotenant"
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "c"))
    assert store.user_catalogue_dir() == tmp_path / "c/cotenant/catalogue"
    monkeypatch.setenv("XDG_CONFIG_HOME", "relative/is/ignored")
    assert store.config_dir() == tmp_path / ".config/cotenant"


def test_a_value_comes_back_and_no_temporary_file_stays(tmp_path):
    path = tmp_path / "deep" / "er" / "x.json"
    assert store.read_json(path) is None
    store.write_json(path, {"a": [1, 2.5, "ß"]})
    store.write_json(path, {"a": [1, 2.5, "ß"], "b": None})
    assert store.read_json(path) == {"a": [1, 2.5, "ß"], "b": None}
    assert os.listdir(path.parent) == ["x.json"]


def test_a_failed_write_leaves_the_old_file_and_no_rubbish(tmp_path):
    path = tmp_path / "x.json"
    store.write_json(path, 1)
    with pytest.raises(ValueError, match="Out of range float"):
        store.write_json(path, float("nan"))
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "full").write_text("")
    with pytest.raises(InputError, match="cannot write"):
        store.write_json(tmp_path / "folder", 2)
    with pytest.raises(InputError, match="cannot write"):
        store.write_json(path / "below-a-file", 2)
    assert store.read_json(path) == 1
    assert sorted(os.listdir(tmp_path)) == ["folder", "x.json"]


@pytest.mark.parametrize("damage", [b"", b'{"a": 1', b'{"a": 1, "a": 2}', b"\x00\xff", b"[" * 5000, b"NaN"])
def test_a_damaged_file_is_named_and_set_aside(tmp_path, damage):
    path = tmp_path / "plan.json"
    for kept in ("plan.json.corrupt", "plan.json.corrupt-2"):
        path.write_bytes(damage)
        with pytest.raises(FormatError, match=r"plan\.json is damaged") as caught:
            store.read_json(path)
        assert kept in caught.value.hint
        assert (tmp_path / kept).read_bytes() == damage
        assert store.read_json(path) is None


WRITER = """
import sys
from pathlib import Path
from cotenant.edge.store import update_json
for _ in range(25):
    update_json(Path(sys.argv[1]), lambda value: {"count": (value or {"count": 0})["count"] + 1})
"""


def test_two_processes_that_update_at_once_lose_nothing(tmp_path):
    path = tmp_path / "counter.json"
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(path)]) for _ in range(2)]
    assert [writer.wait(timeout=60) for writer in writers] == [0, 0]
    assert store.read_json(path) == {"count": 50}


def test_a_reader_never_sees_half_a_file(tmp_path):
    """While one process rewrites the file, every read finds one whole value."""
    path = tmp_path / "big.json"
    store.write_json(path, list(range(3000)))
    code = "import sys;from pathlib import Path;from cotenant.edge.store import write_json\n"
    code += "for n in range(40): write_json(Path(sys.argv[1]), list(range(3000 + n)))"
    writer = subprocess.Popen([sys.executable, "-c", code, str(path)])
    reads = 0
    while writer.poll() is None:
        value = store.read_json(path)
        assert value == list(range(len(value)))
        reads += 1
    assert writer.returncode == 0
    assert reads > 0


def test_an_unreadable_place_is_an_input_error(tmp_path):
    with pytest.raises(InputError, match="cannot read"):
        store.read_json(tmp_path)
    with pytest.raises(InputError, match="cannot lock"):
        store.update_json(Path("/proc/nowhere/x.json"), lambda value: value)


def test_a_new_file_follows_the_umask_and_a_replaced_one_keeps_its_mode(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        new = tmp_path / "new.json"
        store.write_atomic(new, b"1")
        assert new.stat().st_mode & 0o777 == 0o640
        new.chmod(0o604)
        store.write_atomic(new, b"2")
        assert new.stat().st_mode & 0o777 == 0o604
        kept = tmp_path / "keys.json"
        store.write_atomic(kept, b"3", private=True)
        assert kept.stat().st_mode & 0o777 == 0o600
    finally:
        os.umask(before)
