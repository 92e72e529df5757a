"""Plans to export: as the planner makes them, and with names that nobody should use."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from cotenant import api
from cotenant.domain.plan import Plan
from cotenant.readers.plan_document import read_plan
from cotenant.report.document import plan_document
from tests.planning import fleets

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
ENGINES = ("vllm", "sglang", "tgi", "tensorrt-llm", "llama.cpp", "ollama")


@cache
def document_text(engine: str = "vllm", cards: int = 2, size: int = 8) -> str:
    """The plan of two small models with that engine, as JSON."""
    lengths = {"concurrent": 8, "context_tokens": {"p95": 2048}}
    fleet = {
        "engine": engine,
        "headroom": "2%",
        "gpus": [{"type": "A100-80GB-SXM", "count": cards, "node": {"size": size}}],
        "models": [
            {"name": "code", "model": "mistralai/Mistral-7B-Instruct-v0.3", "traffic": lengths},
            {"name": "triage", "model": "meta-llama/Llama-3.1-8B-Instruct", "traffic": lengths},
        ],
    }
    return json.dumps(plan_document(api.plan(fleet), catalogue="test"))


def document(engine: str = "vllm", **changes: Any) -> dict[str, Any]:
    """A fresh copy of that plan's JSON."""
    found: dict[str, Any] = json.loads(document_text(engine, **changes))
    return found


def plan_of(engine: str = "vllm") -> Plan:
    """That plan, read back."""
    return read_plan(document(engine))


def trio() -> Plan:
    """Three models on one card, two of them always busy."""
    return _trio()


@cache
def _trio() -> Plan:
    return api.plan(fleets.trio())


def hostile(engine: str, name: str, checkpoint: str) -> Plan:
    """A plan whose first model has that name and that checkpoint."""
    found = document(engine)
    found["replicas"][0].update(model=name, checkpoint=checkpoint)
    return read_plan(found)


NAMES = st.text(
    st.characters(exclude_categories=("Cs",), exclude_characters="\x00"), min_size=1, max_size=30
).filter(lambda name: not name.startswith("-"))
"""Any text that UTF-8 can hold; what begins like a flag is refused when the plan is read."""

NASTY = (
    "$(touch /tmp/owned)", "`id`", "a'b\"c", "a b", "%i%%", "${PORT}", "$(PORT)", "$$", "\\", "a\nb",
    "yes", "1e3", "0x1f", "0o7", "~", "null", "a: b", "#x", "é漢", "a\tb", "'", '"', "{{x}}", "&a", "*a",
    "!x", "|", ";", "a;b", " a ", "\x85", "\u2028", "\ufeff",
)  # fmt: skip
"""Names that some reader takes for something else."""
