"""A fleet file or a plan of the user's own, for the page to open with: `cotenant ui FLEET|PLAN`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cotenant.errors import InputError


def opened_file(path: Path) -> dict[str, Any]:
    """`{name, plan}` or `{name, fleet}`, the fleet as its file's text. What it names is refused as
    anything else of the page's would be. Raises InputError for what cannot be read or is neither."""
    from cotenant.edge.text import read_text
    from cotenant.readers.json_text import parse_json
    from cotenant.readers.yaml_text import read_document

    text = read_text(path)
    if text.lstrip().startswith("{"):
        found = parse_json(text, what=str(path), path=str(path))
        if isinstance(found, Mapping) and str(found.get("schema", "")).startswith("cotenant/plan/"):
            if not isinstance(found.get("fleet"), Mapping):
                raise InputError(
                    f"{path} does not hold the fleet that it was made for", hint="cotenant plan FLEET -o plan.json"
                )
            return {"name": path.name, "plan": dict(found)}
    fleet = read_document(text, path=str(path)).value
    if not isinstance(fleet, Mapping) or not {"gpus", "models"} <= set(fleet):
        raise InputError(
            f"{path} is neither a fleet nor a plan",
            hint="a fleet has gpus and models; a plan is of cotenant plan -o",
        )
    return {"name": path.name, "fleet": text}
