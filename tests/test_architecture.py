"""The house stands as docs/architecture.md draws it: rooms, floors, arrows, and the face."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import cotenant

ROOT = Path(__file__).resolve().parents[1]
HOUSE = ROOT / "src" / "cotenant"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def rooms() -> set[str]:
    """Folders and modules of the package that are not machinery."""
    folders = {path.name for path in HOUSE.iterdir() if (path / "__init__.py").exists()}
    modules = {path.stem for path in HOUSE.glob("*.py") if not path.name.startswith("_")}
    return folders | modules


def floors_of_the_page() -> list[set[str]]:
    """The drawn floors, top to bottom."""
    drawn = re.search(r"in one line:\n\n((?:    .+\n)+)", PAGE)
    assert drawn is not None
    return [set(line.split()) for line in drawn.group(1).splitlines()]


def floors_of_the_contract() -> list[set[str]]:
    """The floors that import-linter keeps, rooms that do not exist yet left out."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = project["tool"]["importlinter"]["contracts"]
    floors = [set(re.findall(r"\w+", layer)) & rooms() for layer in contract["layers"]]
    return [floor for floor in floors if floor]


def test_the_page_lists_exactly_the_rooms_that_exist() -> None:
    listed = re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)
    assert len(listed) == len(set(listed))
    assert set(listed) == rooms()


def test_the_page_and_the_contract_draw_the_same_floors() -> None:
    assert floors_of_the_page() == floors_of_the_contract()


def test_what_the_page_names_exists() -> None:
    for path in re.findall(r"`((?:catalogue|readers|engines|report|estimation|planning)/[\w/.]*)`", PAGE):
        assert (HOUSE / path).exists(), path


def test_imports_go_downward_only() -> None:
    script = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([str(script)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_only_the_outer_rooms_open_files() -> None:
    """No `open(`, socket, clock or environment below the edge; packaged data goes through importlib.resources."""
    outside = re.compile(
        r"^\s*(?:import|from)\s+(?:os|pathlib|socket|subprocess|time|datetime|random|requests|httpx|huggingface_hub)\b"
        r"|(?<![\w.])open\(",
        re.MULTILINE,
    )
    for room in rooms() - {"edge", "api", "web", "cli"}:
        place = HOUSE / room
        for file in [*place.rglob("*.py")] if place.is_dir() else [place.with_suffix(".py")]:
            found = outside.search(file.read_text(encoding="utf-8"))
            assert found is None, f"{file.relative_to(HOUSE)}: {found.group().strip()}"


def test_the_face_is_what_is_documented() -> None:
    from cotenant import api

    assert set(cotenant.__all__) == {"__version__", *api.__all__}
    assert dir(cotenant) == sorted(cotenant.__all__)
    for name in api.__all__:
        function = getattr(cotenant, name)
        assert function is getattr(api, name)
        assert function.__doc__
        assert f"cotenant.{name}(" in _documented(), name


def _documented() -> str:
    return "\n".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs").rglob("*.md"))


def test_an_unknown_name_is_refused_as_usual() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = cotenant.no_such_name


def test_each_room_says_what_it_is() -> None:
    for room in rooms():
        place = HOUSE / room / "__init__.py" if (HOUSE / room).is_dir() else HOUSE / f"{room}.py"
        first = place.read_text(encoding="utf-8").lstrip().splitlines()[0]
        assert first.startswith('"""'), room
        assert "TODO" not in first, room
