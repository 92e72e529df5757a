"""The router and its worlds compiled by mypyc (it comes with mypy): the same source, three times as fast.

Kept in the user's cache under a digest of the source, so that a change is compiled anew.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import cotenant
from bench.table import CannotRunError

_HERE, _PACKAGE = Path(__file__).parent, Path(cotenant.__file__).parent
_WORLD = ("ground", "machine", "clients", "restart", "world", "chunk")
_PLAIN = ("errors", "units")
_POLICY = ("turns", "refusal", "dispatch", "eviction")
_SETUP = """
import sys
from setuptools import setup
from mypyc.build import mypycify
setup(name="worlds", packages=[], ext_modules=mypycify(sys.argv.pop().split(","), opt_level="2"))
"""


def build() -> Path:
    """A folder to stand first in PYTHONPATH. Raises CannotRunError where it cannot be compiled here."""
    found = sources()
    digest = hashlib.sha256(sys.version.encode())
    for name, path in sorted(found.items()):
        digest.update(name.encode() + path.read_bytes())
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cotenant" / "bench"
    place = cache / digest.hexdigest()[:24]
    if not place.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            made = Path(folder) / "made"
            _compile(made, found)
            made.rename(place)
    return place


def sources() -> dict[str, Path]:
    """Where each module stands, by its place in the copy."""
    found = {f"bench/fault_{name}.py": _HERE / f"fault_{name}.py" for name in _WORLD}
    found |= {f"cotenant/{name}.py": _PACKAGE / f"{name}.py" for name in _PLAIN}
    for path in (_PACKAGE / "serving").glob("*.py"):
        if path.stem not in ("__init__", "from_plan"):
            found[f"cotenant/serving/{path.name}"] = path
    return found | {
        f"cotenant/policy/{name}.py": _PACKAGE / "policy" / f"{name}.py" for name in (*_POLICY, "kinds")
    }


def _compile(place: Path, found: dict[str, Path]) -> None:
    for name, path in found.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, place / name)
    for name in ("bench", "cotenant", "cotenant/serving", "cotenant/policy"):
        (place / name / "__init__.py").touch()
    (place / "setup.py").write_text(_SETUP)
    left = ("bench/fault_chunk.py", "cotenant/errors.py", "cotenant/units.py", "cotenant/policy/kinds.py")
    files = ",".join(sorted(name for name in found if name not in left))
    try:
        subprocess.run(
            [sys.executable, "setup.py", "build_ext", "--inplace", files], cwd=place, check=True,
            capture_output=True, text=True, env={**os.environ, "PYTHONPATH": ""},
        )  # fmt: skip
    except subprocess.CalledProcessError as error:
        last = (error.stderr or error.stdout).strip().rpartition("\n")[2]
        raise CannotRunError(f"mypyc does not compile the worlds here: {last[:200]}") from None
    shutil.rmtree(place / "build", ignore_errors=True)
