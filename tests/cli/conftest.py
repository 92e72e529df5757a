"""The real command, in process: its exit status, what it says on stdout, and what on stderr."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner

from cotenant.cli.root import cli


class Answer(NamedTuple):
    """What one call answered."""

    status: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """stdout as JSON: nothing else may stand there."""
        found = json.loads(self.out)
        assert isinstance(found, dict)
        return found


Run = Callable[..., Answer]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without anything of the user's, and no way to the hub."""
    for variable in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(variable, str(tmp_path / variable.lower()))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.delenv("COLUMNS", raising=False)
    return tmp_path


@pytest.fixture
def run(home: Path) -> Run:
    """`run("estimate", "...", "--gpu", "...")`."""

    def call(*arguments: str) -> Answer:
        result = CliRunner().invoke(cli, list(arguments), prog_name="cotenant")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Answer(result.exit_code, result.stdout, result.stderr)

    return call
