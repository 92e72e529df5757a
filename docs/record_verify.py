"""Record the run that docs/commands/verify.md shows: `python docs/record_verify.py HOME`.

HOME is where examples/two-models-one-box was installed: its interpreter, engine and two models are taken, two
slots of 256 tokens each. Writes docs/recorded/verify-two-models.html and the block of text in the page.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

DOCS = Path(__file__).resolve().parent
BOX = DOCS.parent / "examples" / "two-models-one-box" / "plan_box.py"
PAGE = DOCS / "commands" / "verify.md"
OPTIONS = {"ctx_size": 512}  # beside those of the example: short, so that slots fill soon
CALLED = "two-models.json"


def main(home: str) -> int:
    """Plan, verify, write."""
    spec = importlib.util.spec_from_file_location("plan_box", BOX)
    if spec is None or spec.loader is None:
        raise SystemExit(f"no {BOX}")
    box = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(box)
    box.OPTIONS |= OPTIONS
    known = {
        one["id"]: one["checkpoint"] for one in json.loads((Path(home) / "plan.json").read_text())["replicas"]
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        box.main(str(folder / CALLED), *(f"{model}={file}" for model, file in known.items()))
        _hold_both(folder / CALLED)
        html = DOCS / "recorded" / "verify-two-models.html"
        argv = [
            str(Path(home) / "venv" / "bin" / "python"),
            "-m",
            "cotenant",
            "verify",
            CALLED,
            "--html",
            str(html),
        ]
        environment = os.environ | {"XDG_DATA_HOME": str(folder / "data"), "COLUMNS": "110"}
        environment |= {"PYTHONPATH": str(DOCS.parent / "src"), "NO_COLOR": "1"}
        done = subprocess.run(argv, cwd=folder, stdout=subprocess.PIPE, text=True, env=environment, check=False)
    if done.returncode not in (0, 3):
        return done.returncode
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(f"```text\n$ cotenant verify {CALLED}")
    _, _, after = rest.partition("\n```\n")
    shown = "\n".join(line.rstrip() for line in done.stdout.rstrip().splitlines())
    block = f"```text\n$ cotenant verify {CALLED} --html two-models.html\n{shown}\n```\n"
    PAGE.write_text(before + block + after, encoding="utf-8")
    return 0


def _hold_both(place: Path) -> None:
    """A budget for both at once, so that they are also driven together."""
    plan = json.loads(place.read_text())
    (box,) = plan["gpus"]
    box["capacity_bytes"] = sum(share["bytes"] for share in box["replicas"]) + 2**24
    place.write_text(json.dumps(plan))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
