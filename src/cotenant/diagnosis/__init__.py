"""A log explained, byte by byte: `explain` puts the estimate of the same launch beside what the engine printed."""

from __future__ import annotations

from cotenant.diagnosis.explain import explain

__all__ = ["explain"]
