"""This machine's own names: what listens on them is reached by nobody else."""

from __future__ import annotations

LOOPBACK = ("127.0.0.1", "::1", "localhost")
