"""What a campaign has done, in a file beside the engines' logs, so that a broken one goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cotenant.edge.store import read_json, write_json
from cotenant.errors import InputError


class FileJournal:
    """Written whole after each step. `digest` names the plan and what was asked: another one begins anew."""

    def __init__(self, path: Path, digest: str) -> None:
        """Raises FormatError for a damaged journal, which is set aside."""
        self.path, self.digest = path, digest
        found = read_json(path)
        kept = found.get("steps") if isinstance(found, dict) and found.get("digest") == digest else None
        self.steps: dict[str, Any] = dict(kept) if isinstance(kept, dict) else {}

    def get(self, key: str) -> Any:
        """None where that step was not done."""
        return self.steps.get(key)

    def put(self, key: str, value: Any) -> None:
        """Keep it."""
        self.steps[key] = value
        write_json(self.path, {"digest": self.digest, "steps": self.steps})

    def done(self) -> None:
        """All of it came to an end: the next run begins anew."""
        try:
            self.path.unlink(missing_ok=True)
        except OSError as error:
            raise InputError(f"cannot remove {self.path}: {error.strerror or error}") from None
