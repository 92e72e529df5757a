"""A deployment as one JSON document, and as one text."""

from __future__ import annotations

from cotenant.domain.deployment import Deployment
from cotenant.report.document import Document, header


def deployment_document(found: Deployment, *, catalogue: str) -> Document:
    """`files[]` with name, text and whether it is run; nothing was written."""
    return {
        **header("deploy", catalogue=catalogue, input_hash=found.input_hash),
        "target": found.target,
        "feasible": found.feasible,
        "files": [{"name": one.name, "text": one.text, "executable": one.executable} for one in found.files],
        "notes": list(found.notes),
    }


def deployment_text(found: Deployment) -> str:
    """The one file as it is; several one after the other, each under a comment with its name, and as documents of
    one stream where all are YAML."""
    if len(found.files) == 1:
        return found.files[0].text
    stream = all(one.name.endswith(".yaml") for one in found.files)
    parts = (f"{'---' + chr(10) if stream else ''}# ==> {one.name} <==\n{one.text}" for one in found.files)
    return ("" if stream else "\n").join(parts)
