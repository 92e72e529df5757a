"""docs/claims.md is what the program computes, lists both articles, and says what became of each claim."""

import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "claims.md").read_text(encoding="utf-8")
ROWS = [line for line in PAGE.splitlines() if re.match(r"\| \d+ \|", line)]


@pytest.fixture
def claims(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT))
    from bench import claims

    return claims


def test_page_is_what_the_program_computes(claims: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    status = claims.run(["--check"])
    assert status == 0, f"write it anew with `python -m bench.claims`:\n{capsys.readouterr().out}"


def test_check_notices_another_figure(
    claims: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("bench.markdown.DOCS", tmp_path)
    (tmp_path / "claims.md").write_text(PAGE.replace("131,072 B = 0.125 MiB", "131,073 B = 0.125 MiB", 1))
    assert claims.run(["--check"]) == 1
    assert "-| 35 |" in capsys.readouterr().out


def test_every_claim_has_a_verdict() -> None:
    assert len(ROWS) >= 60
    for line in ROWS:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        assert len(cells) == 5
        assert all(cells)
        assert cells[4] in ("**confirmed**", "**corrected**", "**not verifiable**")


@pytest.mark.parametrize(
    ("claim", "ours", "verdict"),
    [
        ("70B in FP16: 140 GB", "141.11 GB", "confirmed"),
        ("70B in INT4: 35 GB", "39.77 GB", "corrected"),
        ("0.31 MB of cache a token for", "327,680 B", "confirmed"),
        ("about 40 GB for one request", "40.00 GiB", "confirmed"),
        ("16 x 40 GB = 640 GB", "640 GiB", "corrected"),
        ("Llama-3.1-8B: about 0.03 MB", "131,072 B", "corrected"),
        ("Mistral-7B: about 0.03 MB", "131,072 B", "corrected"),
        ("Llama-3.1-405B: about 0.49 MB", "516,096 B", "confirmed"),
        ("skeleton: cache", "4,096 GiB", "corrected"),
        ("10.9 times", "741 / 67 = 11.1", "corrected"),
        ("row 1, 70B FP16", "does not fit", "confirmed"),
        ("row 5, four 7B INT4", "8.00 GiB", "corrected"),
        ("lowers perplexity by 0.14", "never used to choose", "not verifiable"),
        ("a loss of 17 %", "17.5 %", "confirmed"),
    ],
)
def test_known_claims(claim: str, ours: str, verdict: str) -> None:
    (line,) = [line for line in ROWS if claim in line.split("|")[2]]
    assert ours in line.split("|")[3]
    assert line.endswith(f"**{verdict}** |")


@pytest.mark.parametrize(
    "figure",
    ["140 GB", "35 GB", "0.31 MB", "40 GB", "160 GB", "640 GB", "1.25 GB", "20 GB", "0.03 MB", "0.49 MB",
     "0.5 %", "95 %",
     "741", "461", "60 %", "7.7 %", "17 %", "712", "93 tok/s", "958 ms", "67 tok/s", "10.9", "0.14", "77 GB",
     "147 GB", "42 GB", "47 GB", "52 GB", "21 GB", "three times", "2 to 3 s", "140 to 208 s", "50 to 66", "32 GB",
     "27.5 GB", "71 %", "10 to 15 %", "3 to 4 times", "1 to 3 GB", "5 to 15 %", "0.5 bytes", "10 %"],
)  # fmt: skip
def test_figures_of_the_articles_are_all_listed(figure: str) -> None:
    assert any(figure in line.split("|")[2] for line in ROWS)
