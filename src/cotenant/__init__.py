"""Cotenant plans, proves and runs many LLMs on few GPUs.

The functions below are the whole Python face; each takes a path, a mapping or the value itself and returns
the value that its JSON prints. They are loaded on first use, so that `import cotenant` stays light.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cotenant._version import __version__

if TYPE_CHECKING:
    from cotenant.api import (
        compare_plans,
        deploy,
        estimate,
        explain,
        load_fleet,
        load_model,
        plan,
        simulate,
        simulate_many,
        verify,
        what_if,
    )

__all__ = [
    "__version__",
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


def __getattr__(name: str) -> Any:
    if name in __all__:
        from cotenant import api

        return getattr(api, name)
    raise AttributeError(f"module 'cotenant' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
