"""Every `console` block of docs/ and README.md is run, and shows exactly what the command prints.

After a change that is meant, write the new output into the pages:

    COTENANT_UPDATE_EXAMPLES=1 python -m pytest tests/docs

A command may end in `| head -n N` or `| tail -n N`. Spaces at the ends of lines do not count.
"""

from __future__ import annotations

import doctest
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from cotenant.cli.root import cli

ROOT = Path(__file__).resolve().parents[2]
UPDATE = bool(os.environ.get("COTENANT_UPDATE_EXAMPLES"))
_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_CUT = re.compile(r"(.*?)\s*\|\s*(head|tail) -n ([0-9]+)$")


def pages() -> list[Path]:
    """README.md and everything under docs/."""
    return [*ROOT.glob("README.md"), *sorted((ROOT / "docs").rglob("*.md"))]


def blocks() -> Iterator[tuple[Path, str]]:
    """(page, text of one block)."""
    for page in pages():
        for match in _BLOCK.finditer(page.read_text(encoding="utf-8")):
            yield page, match.group(1)


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "HF_HOME"):
        monkeypatch.setenv(variable, str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.chdir(ROOT)


def printed(command: str) -> str:
    """What a `cotenant ...` line prints on a terminal that is none: stdout, then stderr."""
    cut = _CUT.fullmatch(command)
    words = shlex.split(cut.group(1) if cut else command)
    assert words[0] == "cotenant", command
    result = CliRunner().invoke(cli, words[1:], prog_name="cotenant")
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    lines = [line.rstrip() for line in (result.stdout + result.stderr).splitlines()]
    if cut:
        count = int(cut.group(3))
        lines = lines[:count] if cut.group(2) == "head" else lines[-count:]
    return "\n".join(lines).rstrip("\n")


def sessions(block: str) -> list[tuple[str, str]]:
    """(command, expected output) for each prompt of a block."""
    parts = re.split(r"^\$ ", block, flags=re.MULTILINE)
    assert not parts[0].strip(), "a block starts with a prompt"
    found = []
    for part in parts[1:]:
        command, _, output = part.partition("\n")
        found.append((command.strip(), "\n".join(line.rstrip() for line in output.strip("\n").splitlines())))
    return found


def rewritten(block: str) -> str:
    """The block with what its commands print now."""
    return "\n".join(f"$ {command}\n{printed(command)}" for command, _ in sessions(block)) + "\n"


@pytest.mark.parametrize(
    ("page", "block"), [*blocks()], ids=lambda part: part.stem if isinstance(part, Path) else ""
)
def test_the_block_shows_what_is_printed(page: Path, block: str) -> None:
    if UPDATE:
        text = page.read_text(encoding="utf-8")
        page.write_text(text.replace(block, rewritten(block)), encoding="utf-8")
        return
    for command, expected in sessions(block):
        assert printed(command) == expected, f"{page.relative_to(ROOT)}: {command}"


def test_python_sessions_show_what_is_printed() -> None:
    """Every `pycon` block of a page, as one session a page."""
    parser = doctest.DocTestParser()
    for page in pages():
        sessions = "\n".join(re.findall(r"^```pycon\n(.*?)^```$", page.read_text(encoding="utf-8"), re.M | re.S))
        found = parser.get_doctest(sessions, {}, page.stem, str(page), 0)
        failed = doctest.DocTestRunner(verbose=False).run(found).failed
        assert failed == 0, page.name


def test_every_command_has_its_page() -> None:
    from cotenant.cli.root import COMMANDS

    written = {page.stem for page in (ROOT / "docs" / "commands").glob("*.md")}
    assert written == set(COMMANDS)
    for name in written:
        assert f"cotenant {name}" in (ROOT / "docs" / "commands" / f"{name}.md").read_text(encoding="utf-8")
