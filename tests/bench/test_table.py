import json
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2]))
    from bench import table

    return table


@pytest.mark.parametrize(
    ("value", "reach", "expected"),
    [
        (0.4, "<= 0.5", True), (0.5, "<= 0.5", True), (0.6, "<= 0.5", False), (0.5, "< 0.5", False),
        (9, ">= 8", True),
        (7, "> 7", False), (True, "== 1", True), (None, "<= 1", None), (3.0, "", None),
    ],
)  # fmt: skip
def test_holds(table: ModuleType, value: float | None, reach: str, expected: bool | None) -> None:
    assert table.holds(value, reach) is expected
    assert table.Row("a", value, "s", reach).document()["holds"] is expected


def test_a_reach_must_be_a_comparison(table: ModuleType) -> None:
    with pytest.raises(ValueError, match="comparison"):
        table.holds(1.0, "about 3")


def test_what_cannot_run_stays_in_the_list(table: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    def refused() -> float:
        raise table.CannotRunError("no data folder")

    def broken() -> float:
        return 1 / 0

    rows = [
        table.measured("a", "s", "<= 1", refused),
        table.measured("b", "s", "<= 1", broken),
        table.measured("c", "s", "<= 1", lambda: (0.5, {"runs": 3})),
        table.measured("d", "s", "<= 1", lambda: 2.0),
    ]
    assert table.show(rows, as_json=True) == 1
    listed = json.loads(capsys.readouterr().out)
    assert [row["holds"] for row in listed] == [None, None, True, False]
    assert [row["reason"] for row in listed] == ["no data folder", "ZeroDivisionError: division by zero", "", ""]
    assert listed[2]["runs"] == 3
    assert table.show(rows[:3], as_json=False) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["id", "value", "unit", "reach", "holds"]
    assert lines[3].split() == ["c", "0.5", "s", "<=", "1", "yes", "runs", "3"]


def test_arguments(table: ModuleType) -> None:
    found = table.arguments("x", ["--json", "--shared", "somewhere"])
    assert found.json
    assert found.shared == Path("somewhere")
    assert found.vidur is None
