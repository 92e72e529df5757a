"""What a plan becomes for one target: named text files, and what their reader should know."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DeployFile:
    """One file. `name` is relative, with `/` between folders; `executable` where it is to be run."""

    name: str
    text: str
    executable: bool = False


@dataclass(frozen=True, slots=True)
class Deployment:
    """All files of a target in a fixed order. `notes` say what must be there, or be known, before they are used;
    `feasible` is the plan's own: false where a model has no place and is therefore missing."""

    target: str
    files: tuple[DeployFile, ...]
    notes: tuple[str, ...]
    feasible: bool
    input_hash: str = ""
