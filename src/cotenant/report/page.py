"""One HTML page, whole in one file: no scripts, no foreign hosts, light and dark, phone and desk.

What is put in must be escaped already. `STYLE` gives the plots of `plots.py` their colours.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape


class Html(str):
    """Text that is HTML already: what it was made of has been escaped."""

    __slots__ = ()


# Okabe and Ito's palette (jfly.uni-koeln.de/color), told apart with any colour vision; darker on white, lighter on
# black, so that lines keep a contrast of 3 to 1.
STYLE = """
:root{color-scheme:light dark;--bg:#fff;--fg:#1b1f24;--dim:#57606a;--rule:#d8dee4;--card:#f6f8fa;--good:#116329;
--shade:#0004;--bad:#b3261e;--c0:#0067a3;--c1:#c25100;--c2:#007a57;--c3:#a3478a;--c4:#8a6d00;--c5:#3d7ea6;--c6:#5b4bb5;--c7:#555}
@media(prefers-color-scheme:dark){:root{--bg:#0d1117;--fg:#e6edf3;--dim:#9da7b3;--rule:#30363d;--card:#161b22;
--shade:#fff4;--good:#56d364;--bad:#ff7b72;--c0:#58a6ff;--c1:#ffa657;--c2:#3fcf9b;--c3:#e58fca;--c4:#e3c04b;--c5:#79c0ff;
--c6:#b4a5ff;--c7:#b1bac4}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--fg);font:15px/1.5 system-ui,sans-serif}
main{max-width:1400px;margin:0 auto;padding:20px 16px 48px}
h1{font-size:1.35rem;margin:0 0 4px}h2{font-size:1.05rem;margin:32px 0 8px}
p{margin:4px 0;max-width:75ch}.dim{color:var(--dim)}.good{color:var(--good)}.bad{color:var(--bad)}
.grid{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,340px),1fr));gap:16px}
figure{margin:0;padding:12px;background:var(--card);border:1px solid var(--rule);border-radius:8px;min-width:0}
figcaption{font-weight:600;margin-bottom:4px}figcaption .dim{font-weight:400}
figure svg{display:block;width:100%;height:auto}
svg text{font-size:12px;fill:var(--fg)}svg text.dim{fill:var(--dim)}svg text.mark{fill:var(--bad);font-size:11px}
svg .rule{stroke:var(--rule)}svg .tick{stroke:var(--dim)}svg .mark{stroke:var(--bad);stroke-dasharray:5 3}
svg text.mark{stroke:none}
svg .line{fill:none;stroke:var(--c);stroke-width:1.8}svg .fill{fill:var(--c);stroke:var(--c);stroke-width:.6}
svg .strong{fill-opacity:.8}svg .weak{fill-opacity:.35}
.c0{--c:var(--c0)}.c1{--c:var(--c1)}.c2{--c:var(--c2)}.c3{--c:var(--c3)}.c4{--c:var(--c4)}.c5{--c:var(--c5)}
.c6{--c:var(--c6)}.c7{--c:var(--c7)}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:2px 14px;margin:6px 0 0;padding:0;font-size:.87rem}
.legend li{overflow-wrap:anywhere}.legend svg{display:inline-block;width:24px;height:10px;margin-right:6px;
vertical-align:middle}
.wide{overflow-x:auto;margin:10px 0;border:1px solid var(--rule);border-radius:8px;background:
linear-gradient(90deg,var(--bg) 40%,transparent) left/56px 100% local,
linear-gradient(270deg,var(--bg) 40%,transparent) right/56px 100% local,
linear-gradient(90deg,var(--shade),transparent) left/22px 100% scroll,
linear-gradient(270deg,var(--shade),transparent) right/22px 100% scroll;background-repeat:no-repeat}
table{border-collapse:separate;border-spacing:0;width:100%;font-variant-numeric:tabular-nums}
th,td{padding:5px 10px;text-align:right;white-space:nowrap;border-bottom:1px solid var(--rule)}
tr:last-child td{border-bottom:0}.hint{display:none}
@media(max-width:640px){.hint{display:block;margin:-4px 0 8px;font-size:.87rem}
.wide th:first-child,.wide td:first-child{position:sticky;left:0;background:var(--bg);min-width:6.5em;
max-width:45vw;white-space:normal;overflow-wrap:anywhere}}
summary{cursor:pointer;font-size:1.05rem;font-weight:600;margin:28px 0 8px}summary::marker{color:var(--dim)}
th{color:var(--dim);font-weight:500}th.l,td.l{text-align:left}
.note{border-left:3px solid var(--c1);padding:2px 10px;margin:6px 0;overflow-wrap:anywhere;max-width:none}
""".strip()

_NARROW = 4  # columns that a phone shows at once
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def page(title: str, body: Sequence[str]) -> str:
    """The whole document. `body` are parts in order, each HTML."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body><main>\n"
        + "\n".join(body)
        + "\n</main></body></html>\n"
    )


def section(title: str, parts: Sequence[str]) -> str:
    """A heading and its plots side by side, as many as the width holds."""
    return f'<section><h2>{escape(title)}</h2><div class="grid">{"".join(parts)}</div></section>'


def folded(summary: str, parts: Sequence[str], *, shown: bool = False) -> str:
    """`parts` under a line (HTML) that opens and closes them."""
    return f"<details{' open' if shown else ''}><summary>{summary}</summary>{''.join(parts)}</details>"


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, left: Sequence[int] = (0,)) -> str:
    """Figures to the right but for the columns in `left`; cells that are `Html` go in as they are."""

    def cell(tag: str, place: int, text: str) -> str:
        side = ' class="l"' if place in left else ""
        return f"<{tag}{side}>{text if isinstance(text, Html) else escape(text)}</{tag}>"

    head = "".join(cell("th", place, name) for place, name in enumerate(columns))
    lines = "".join(
        f"<tr>{''.join(cell('td', place, text) for place, text in enumerate(row))}</tr>" for row in rows
    )
    hint = '<p class="dim hint">Scroll the table sideways for the rest →</p>' if len(columns) > _NARROW else ""
    return (
        f'<div class="wide" tabindex="0"><table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table></div>'
        + hint
    )


def notes(texts: Sequence[str]) -> str:
    """Warnings, one paragraph each."""
    return "".join(f'<p class="note">{escape(text)}</p>' for text in texts)
