"""Where the files of a deployment go: links, what stands in their place, what was there before."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cotenant.deployment.targets import export
from cotenant.domain.deployment import DeployFile, Deployment
from cotenant.edge.deployments import write_deployment
from cotenant.errors import InputError
from tests.deployment.conftest import trio


def _files(*names: str) -> Deployment:
    return Deployment("commands", tuple(DeployFile(name, f"{name}\n") for name in names), (), True, "")


def _lying(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_exported_again_nothing_changes_and_what_lies_there_stays(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    (tmp_path / "start.sh").write_text("half of an ear")
    write_deployment(export(trio(), "commands"), tmp_path)
    first = _lying(tmp_path)
    assert first["mine.txt"] == b"mine"
    assert first["start.sh"].endswith(b"wait\n")
    assert os.access(tmp_path / "start.sh", os.X_OK)
    write_deployment(export(trio(), "commands"), tmp_path)
    assert _lying(tmp_path) == first


def test_a_link_to_a_folder_is_followed_and_a_link_to_a_file_is_replaced(tmp_path: Path) -> None:
    victim, folder = tmp_path / "victim", tmp_path / "real"
    victim.write_text("mine")
    folder.mkdir()
    (folder / "a.yaml").symlink_to(victim)
    (tmp_path / "link").symlink_to(folder)
    write_deployment(_files("a.yaml"), tmp_path / "link")
    assert victim.read_text() == "mine"
    assert (folder / "a.yaml").read_text() == "a.yaml\n"
    assert not (folder / "a.yaml").is_symlink()


def test_nothing_is_written_where_one_file_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "b.yaml").mkdir()
    with pytest.raises(InputError, match=r"b\.yaml is a folder"):
        write_deployment(_files("a.yaml", "b.yaml"), tmp_path)
    (tmp_path / "node-1").write_text("")
    with pytest.raises(InputError, match="node-1 is not a folder"):
        write_deployment(_files("a.yaml", "node-1/a.yaml"), tmp_path)
    with pytest.raises(InputError, match="no name inside"):
        write_deployment(_files("a.yaml", "../c.yaml"), tmp_path)
    assert not (tmp_path / "a.yaml").exists()


_FULL = """
import resource, signal, sys
from pathlib import Path
from cotenant.domain.deployment import DeployFile, Deployment
from cotenant.edge.deployments import write_deployment
from cotenant.errors import InputError

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
files = tuple(DeployFile(name, "new" * size) for name, size in (("a", 1), ("node-1/b", 9000), ("c", 1)))
try:
    write_deployment(Deployment("commands", files, (), True, ""), Path(sys.argv[1]))
except InputError as error:
    print(error.message)
"""


def test_a_disk_that_takes_no_more_leaves_what_was_there(tmp_path: Path) -> None:
    """The second file is longer than may be written; of the first and third nothing is seen either."""
    (tmp_path / "a").write_text("old")
    told = subprocess.run([sys.executable, "-c", _FULL, tmp_path], capture_output=True, text=True, check=True)
    assert "cannot write" in told.stdout
    assert "File too large" in told.stdout
    assert _lying(tmp_path) == {"a": b"old"}


def test_what_is_no_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"dangling is a link to .*nowhere', which is not there"):
        write_deployment(_files("a"), tmp_path / "dangling")
    (tmp_path / "file").write_text("")
    for inside in ("file", "file/deeper"):
        with pytest.raises(InputError, match="file is not a folder"):
            write_deployment(_files("a"), tmp_path / inside)
    with pytest.raises(InputError, match="File name too long"):
        write_deployment(_files("a"), tmp_path / ("x" * 300))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_is_read_only_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    with pytest.raises(InputError, match="read-only for you"):
        write_deployment(_files("a"), tmp_path)
