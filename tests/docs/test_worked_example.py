"""docs/worked-example.md: every equation holds by its own text, and every figure is what the program computes."""

import re
from fractions import Fraction
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "worked-example.md").read_text(encoding="utf-8")
EQUATION = re.compile(r"`([\d,. x+/()]+) = ([\d,]+)`")
TOKEN = re.compile(r"[\d,]+(?:\.\d+)?|[x+/()]")


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT))
    from bench import worked_example

    return worked_example


def worked_out(words: str) -> Fraction:
    """Sums of products and quotients, exactly, without eval."""
    tokens = TOKEN.findall(words)
    assert "".join(tokens) == words.replace(" ", "")

    def total() -> Fraction:
        value = product()
        while tokens and tokens[0] == "+":
            tokens.pop(0)
            value += product()
        return value

    def product() -> Fraction:
        value = atom()
        while tokens and tokens[0] in "x/":
            value = value * atom() if tokens.pop(0) == "x" else value / atom()
        return value

    def atom() -> Fraction:
        token = tokens.pop(0)
        if token != "(":
            return Fraction(token.replace(",", ""))
        value = total()
        assert tokens.pop(0) == ")"
        return value

    value = total()
    assert not tokens
    return value


def test_page_is_what_the_program_computes(page: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    status = page.run(["--check"])
    assert status == 0, f"write it anew with `python -m bench.worked_example`:\n{capsys.readouterr().out}"


def test_every_equation_holds() -> None:
    found = EQUATION.findall(PAGE)
    assert len(found) >= 60
    assert len(found) == PAGE.count(" = ")  # no equation is written in a way that is not read here
    wrong = [(words, result) for words, result in found if worked_out(words) != int(result.replace(",", ""))]
    assert wrong == []


@pytest.mark.parametrize(
    ("model", "published", "token", "bf16"),
    [
        ("Llama-3.1-70B", 70_553_706_496, 327_680, 141_107_412_992),
        ("Llama-3.1-8B", 8_030_261_248, 131_072, 16_060_522_496),
        ("Mistral-7B", 7_248_023_552, 131_072, 14_496_047_104),
    ],
)
def test_known_figures_stand_in_the_page(model: str, published: int, token: int, bf16: int) -> None:
    assert f"= {published:,}`, and its published total is {published:,}." in PAGE
    assert re.search(rf"\| {re.escape(model)} \| `2 x \d+ x 8 x 128 x 2 = {token:,}` \|", PAGE)
    assert f"| {model} | bf16 | `2 x {published:,} = {bf16:,}` |" in PAGE


def test_estimated_terms_equal_the_equations_beside_them() -> None:
    """Where an estimate stands in the same row as its equation, the two are one number."""
    rows = [line for line in PAGE.splitlines() if re.match(r"\| vllm@", line)]
    assert len(rows) == 3
    for line in rows:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        assert cells[2].endswith(f"= {cells[3]}`")
    for line in PAGE.splitlines():  # activations: the larger of layer and sampler, and what is kept
        figures = EQUATION.findall(line)
        if "x 2.5 +" in line and len(figures) == 3:
            layer, sampler, kept = (int(result.replace(",", "")) for _, result in figures)
            assert f"| {max(layer, sampler) + kept:,} |" in line
