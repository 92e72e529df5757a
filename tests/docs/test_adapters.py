"""docs/adapters.md is what the plans of examples/adapters say, and sharing a base saves at least the base."""

import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "adapters.md").read_text(encoding="utf-8")
BASE = 16_060_522_496  # Llama-3.1-8B in 16 bits


@pytest.fixture
def adapters(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT))
    from bench import adapters

    return adapters


def test_page_is_what_the_program_computes(adapters: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    status = adapters.run(["--check"])
    assert status == 0, f"write it anew with `python -m bench.adapters`:\n{capsys.readouterr().out}"


def test_columns_add_up_and_differ_by_what_is_saved() -> None:
    figures = [
        [int(cell.replace(",", "")) for cell in re.findall(r"([\d,]+) \(", line)] for line in PAGE.splitlines()
    ]
    rows = [line for line in figures if len(line) == 3]
    assert len(rows) == 12
    for kind in (rows[:6], rows[6:]):
        assert all(apart - together == saved for together, apart, saved in kind)
        parts = [sum(row[column] for row in kind[:5]) for column in range(3)]
        assert parts == kind[5]
        assert kind[5][2] > BASE  # a second base, a second process
        assert kind[0][1] == 2 * kind[0][0]


def test_equations_hold() -> None:
    found = re.findall(r"`([\d,]+) x ([\d,]+) x ([\d,]+) = ([\d,]+)`", PAGE)
    assert len(found) == 3
    for *factors, result in found:
        first, second, third = (int(factor.replace(",", "")) for factor in factors)
        assert first * second * third == int(result.replace(",", ""))


def test_one_slot_of_rank_16_by_hand() -> None:
    """A and B of every linear layer of Llama-3.1-8B: rank x (inputs + outputs) x 2 bytes, 32 times."""
    sides = [(4096, 4096), (4096, 1024), (4096, 1024), (4096, 4096), (4096, 14336), (4096, 14336), (14336, 4096)]
    by_hand = 32 * 16 * 2 * sum(map(sum, sides))
    assert f"= {by_hand:,}` bytes for all linear layers" in PAGE
