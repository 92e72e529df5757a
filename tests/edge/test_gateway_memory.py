"""What a container may have is less than its machine has."""

from __future__ import annotations

from pathlib import Path

import pytest

from cotenant.edge.gateway.memory import cgroup_limits, memory_bytes


def machine(tmp_path: Path, cgroup: str, files: dict[str, str]) -> tuple[Path, Path]:
    proc, root = tmp_path / "proc", tmp_path / "cgroup"
    (proc / "self").mkdir(parents=True)
    (proc / "self" / "cgroup").write_text(cgroup)
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return proc, root


@pytest.mark.parametrize(
    ("cgroup", "files", "limits"),
    [
        ("0::/\n", {"memory.max": "4194304\n"}, [4194304]),
        ("0::/\n", {"memory.max": "max\n"}, []),
        ("0::/a/b\n", {"memory.max": "max\n", "a/memory.max": "900\n", "a/b/memory.max": "1000\n"}, [900, 1000]),
        (
            "5:cpu:/x\n4:memory:/x\n",
            {"memory/memory.limit_in_bytes": "9\n", "memory/x/memory.limit_in_bytes": "7"},
            [9, 7],
        ),
        ("4:memory:/docker/1234\n", {"memory/memory.limit_in_bytes": "77\n"}, [77]),
        ("4:cpu,memory:/../..\n", {"memory/memory.limit_in_bytes": "5\n"}, [5]),
        ("0::/a\n", {"a/memory.max": "\xff nonsense"}, []),
        ("nonsense\n\n", {"memory.max": "3"}, []),
    ],
)  # fmt: skip
def test_every_limit_on_the_way_counts(
    tmp_path: Path, cgroup: str, files: dict[str, str], limits: list[int]
) -> None:
    assert list(cgroup_limits(*machine(tmp_path, cgroup, files))) == limits


def test_the_least_is_what_there_is(tmp_path: Path) -> None:
    import psutil

    total = psutil.virtual_memory().total
    assert memory_bytes(*machine(tmp_path / "small", "0::/\n", {"memory.max": "1048576"})) == 2**20
    assert memory_bytes(*machine(tmp_path / "none", "0::/\n", {"memory.max": "max"})) == total
    assert memory_bytes(tmp_path / "nowhere", tmp_path) == total
    assert memory_bytes() <= total
