"""The Python face: opens what must be opened, then calls the rooms.

Each function takes a path, a mapping or the value itself and returns the value that its JSON prints. Words are
those of the command line; an engine's own options keep the engine's names. Everything else is imported when it
is needed, so that `import cotenant` and a single estimate stay light.
"""

from __future__ import annotations

from cotenant.api.carrying_out import deploy, verify
from cotenant.api.estimating import estimate
from cotenant.api.explaining import explain
from cotenant.api.planning import compare_plans, plan, what_if
from cotenant.api.simulating import simulate, simulate_many
from cotenant.api.sources import load_fleet, load_model

__all__ = [
    "compare_plans",
    "deploy",
    "estimate",
    "explain",
    "load_fleet",
    "load_model",
    "plan",
    "simulate",
    "simulate_many",
    "verify",
    "what_if",
]
