"""Draw the README's pictures from what the program prints: `python docs/pictures.py`.

Each is an SVG of a real run, so that a picture can be checked like any other answer.
"""

from __future__ import annotations

import io
import re
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme

import cotenant
from cotenant.report.plan_text import print_plan

HERE = Path(__file__).parent
WIDTH = 104
DARK = TerminalTheme(
    (22, 27, 34),
    (230, 237, 243),
    [(72, 79, 88), (255, 123, 114), (63, 185, 80), (210, 153, 34), (88, 166, 255), (188, 140, 255), (57, 197, 207),
     (177, 186, 196)],
    [(110, 118, 129), (255, 161, 152), (86, 211, 100), (227, 179, 65), (121, 192, 255), (210, 168, 255),
     (86, 212, 221), (240, 246, 252)],
)  # fmt: skip


def draw(name: str, title: str, console: Console) -> None:
    """Write the recorded console as an SVG that needs no font from elsewhere."""
    svg = console.export_svg(title=title, theme=DARK)
    svg = re.sub(r"@font-face \{[^}]*\}", "", svg).replace("Fira Code", "ui-monospace, Menlo, Consolas")
    (HERE / "images" / f"{name}.svg").write_text(svg, encoding="utf-8")


def main() -> None:
    """All pictures."""
    console = Console(
        record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor",
        highlight=False, markup=False, emoji=False,
    )  # fmt: skip
    plan = cotenant.plan(HERE.parent / "examples" / "a100-trio.yaml", replay=True)
    print_plan(plan, console, commands=False)
    draw("plan", "cotenant plan examples/a100-trio.yaml --replay", console)


if __name__ == "__main__":
    main()
