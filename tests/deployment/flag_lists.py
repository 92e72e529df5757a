"""What each release of an engine takes, as its own source says (tests/contracts/flags)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from cotenant.domain.engine import Version

FOLDER = Path(__file__).parents[1] / "contracts" / "flags"
ENGINES = sorted(path.name for path in FOLDER.iterdir() if path.is_dir())


@dataclass(frozen=True, slots=True)
class FlagList:
    """One release's flags; `document` is the whole file, with where they were read."""

    version: Version
    flags: frozenset[str]
    document: dict[str, Any]


@cache
def lists_of(engine: str) -> tuple[FlagList, ...]:
    """Every list of an engine, the oldest release first."""
    found = []
    for path in (FOLDER / engine).glob("*.json"):
        document = json.loads(path.read_text(encoding="utf-8"))
        assert (document["engine"], document["version"]) == (engine, path.stem)
        found.append(FlagList(Version.parse(document["version"]), frozenset(document["flags"]), document))
    return tuple(sorted(found, key=lambda one: one.version))


def known_to(engine: str, version: Version) -> frozenset[str]:
    """The flags of the list that was read of that release. A release without one is held to the two around it
    together: a flag that neither has is unknown to it; of the newest, the list before it."""
    lists = lists_of(engine)
    exact = [one.flags for one in lists if one.version == version]
    older = [one.flags for one in lists if one.version < version][-1:]
    newer = [one.flags for one in lists if version < one.version][:1]
    return exact[0] if exact else frozenset().union(*older, *newer)


ALL = [(engine, str(one.version)) for engine in ENGINES for one in lists_of(engine)]
"""(engine, release) of every list."""
