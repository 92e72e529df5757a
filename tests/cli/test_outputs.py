"""Files that commands write: told on stderr, and never into a folder that a typing mistake would make."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run

RAW = "examples/raw-figures.yaml"


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from cotenant import api
    from cotenant.catalogue import VERSION
    from cotenant.report.document import plan_document

    place = tmp_path_factory.mktemp("plan") / "plan.json"
    place.write_text(json.dumps(plan_document(api.plan(RAW), catalogue=VERSION)))
    return place


def test_a_file_that_is_written_is_told(run: Run, tmp_path: Path, plan: Path) -> None:
    page = tmp_path / "page.html"
    answer = run("simulate", str(plan), "--duration", "2s", "--html", str(page), "--json")
    assert json.loads(answer.out)["schema"] == "cotenant/simulate/1"
    assert f"wrote {page}" in answer.err
    written = tmp_path / "plan.json"
    assert f"wrote {written}" in run("plan", RAW, "-o", str(written)).err
    assert json.loads(written.read_text())["schema"] == "cotenant/plan/1"


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (("plan", RAW, "-o"), "--output"),
        (("plan", RAW, "--what-if", "traffic=1..2", "--html"), "--html"),
        (("simulate", RAW, "--html"), "--html"),
        (("verify", RAW, "--html"), "--html"),
        (("deploy", RAW, "--to", "compose", "--out"), "--out"),
    ],
)
def test_a_folder_that_is_not_there_is_refused_before_any_work(
    run: Run, tmp_path: Path, words: tuple[str, ...], option: str
) -> None:
    place = tmp_path / "mistyped" / "file"
    answer = run(*words, str(place))
    assert (answer.status, answer.out) == (1, "")
    assert f"{option}: no folder {place.parent} to put file into" in answer.err
    assert f"hint: mkdir -p {place.parent}" in answer.err
    assert not place.parent.exists()


def test_a_folder_of_its_own_is_made(run: Run, tmp_path: Path, plan: Path) -> None:
    assert run("deploy", str(plan), "--to", "compose", "--out", str(tmp_path / "new")).status == 0
    assert (tmp_path / "new" / "compose.yaml").is_file()


def test_a_place_is_told_once(run: Run, plan: Path) -> None:
    answer = run("deploy", str(plan), "--to", "compose", "--out", "/proc/x")
    assert answer.status == 1
    assert answer.err.count("/proc/x") == 1


def test_a_folder_without_a_name_is_refused(
    run: Run, plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not taken for the folder that one stands in."""
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    answer = run("deploy", str(plan), "--to", "compose", "--out", "")
    assert (answer.status, answer.out) == (2, "")
    assert "Invalid value for --out: the name is empty" in answer.err
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("command", ["plan", "simulate", "deploy"])
def test_another_kind_of_file_is_one_line(run: Run, tmp_path: Path, command: str) -> None:
    place = tmp_path / "estimate.json"
    place.write_text(json.dumps({"schema": "cotenant/estimate/1", "cotenant": "0", "model": {}}))
    more = ("--to", "compose") if command == "deploy" else ()
    answer = run(command, str(place), *more)
    assert answer.status == 1
    assert answer.err.count("error: ") == 1
    assert "this is an estimate of one replica, not a fleet" in answer.err


def test_a_duration_that_says_nothing_is_refused(run: Run, plan: Path) -> None:
    answer = run("simulate", str(plan), "--duration", "1us")
    assert (answer.status, answer.out) == (1, "")
    assert "a duration of 1us says nothing" in answer.err
