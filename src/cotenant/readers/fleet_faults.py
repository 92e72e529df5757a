"""What a fleet file lacks, told apart from what it says wrongly."""

from __future__ import annotations

from cotenant.errors import InputError


class MissingError(InputError):
    """Something that must stand at `path` does not: no news where what stands there is misspelt or broken, for
    that is said already."""
