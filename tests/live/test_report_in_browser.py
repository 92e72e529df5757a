"""The HTML report in a real browser: drawn at desk and phone width, in light and dark, and nothing sticks out.

Not part of the quick tests: each picture starts a browser. Run it with

    COTENANT_BROWSER=chromium python -m pytest tests/live/test_report_in_browser.py

and add COTENANT_PICTURES=FOLDER to keep the pictures.
"""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
import zlib
from pathlib import Path

import pytest

import cotenant
from cotenant.report.replay_html import replay_html

BROWSER = os.environ.get("COTENANT_BROWSER", "")
pytestmark = pytest.mark.skipif(not BROWSER, reason="COTENANT_BROWSER=chromium opens the report in it")
FLEET = Path(__file__).resolve().parents[2] / "examples" / "raw-figures.yaml"
WIDTHS = (1440, 390)
# The page says of itself how wide it is, so that the browser's own dump can be asked: the script is the test's.
ASK = """<script>
document.title = document.documentElement.scrollWidth + " " + document.querySelectorAll("path").length
</script>"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    replays = [cotenant.simulate(FLEET, duration="60s", policy=policy) for policy in ("static", "restart")]
    place = tmp_path_factory.mktemp("report") / "report.html"
    place.write_text(replay_html(replays, title="raw figures"), encoding="utf-8")
    return place


def browse(page: Path, width: int, *options: str) -> str:
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--window-size={width},2400"]
    done = subprocess.run(
        [BROWSER, *flags, *options, page.as_uri()], capture_output=True, text=True, timeout=120, check=True
    )
    return done.stdout


@pytest.mark.parametrize("width", [1440, 500])
def test_nothing_is_wider_than_the_window(report: Path, tmp_path: Path, width: int) -> None:
    """Chromium's windows are at least 500 wide without a frame, so the phone is looked at in one (below)."""
    asking = tmp_path / "asking.html"
    text = re.sub(r"<meta http-equiv[^>]*>", "", report.read_text(encoding="utf-8"))
    asking.write_text(text.replace("</body>", ASK + "</body>"), encoding="utf-8")
    title = re.search(r"<title>(\d+) (\d+)</title>", browse(asking, width, "--dump-dom"))
    assert title is not None
    assert int(title.group(1)) <= width
    assert int(title.group(2)) > 40


def test_a_phone_shows_all_of_it(report: Path, tmp_path: Path) -> None:
    text = re.sub(r"<meta http-equiv[^>]*>", "", report.read_text(encoding="utf-8"))
    (tmp_path / "inner.html").write_text(text, encoding="utf-8")
    outer = tmp_path / "outer.html"
    script = "document.title = f.contentDocument.documentElement.scrollWidth"
    outer.write_text(f'<title></title><iframe id="f" src="inner.html" width="390" onload="{script}"></iframe>')
    found = re.search(r"<title>(\d+)</title>", browse(outer, 800, "--dump-dom", "--allow-file-access-from-files"))
    assert found is not None
    assert int(found.group(1)) <= 390


@pytest.mark.parametrize("width", WIDTHS)
def test_light_and_dark_differ_and_are_drawn(report: Path, tmp_path: Path, width: int) -> None:
    corners = []
    for scheme in (1, 0):  # light, dark
        picture = tmp_path / f"report-{width}-{'light' if scheme else 'dark'}.png"
        browse(report, width, f"--screenshot={picture}", f"--blink-settings=preferredColorScheme={scheme}")
        corners.append(corner(picture.read_bytes()))
        if os.environ.get("COTENANT_PICTURES"):
            shutil.copy(picture, os.environ["COTENANT_PICTURES"])
    assert min(corners[0]) > 240
    assert max(corners[1]) < 40


def corner(png: bytes) -> bytes:
    """The colour of the first pixel (the first of a row is never filtered by what stands beside it)."""
    depth, kind = struct.unpack(">BB", png[24:26])
    assert (depth, kind) in ((8, 2), (8, 6))
    data, place = b"", 8
    while place < len(png):
        (length,) = struct.unpack(">I", png[place : place + 4])
        if png[place + 4 : place + 8] == b"IDAT":
            data += png[place + 8 : place + 8 + length]
        place += 12 + length
    return zlib.decompressobj().decompress(data, 16)[1:4]
