"""The fields of a custom resource as a strict JSON Schema: what an API server would refuse, and nothing else.

    python tests/contracts/reduce_crds.py CRD.yaml REPOSITORY COMMIT LICENCE [KEPT/PATH ...] > crds/KIND.json

Descriptions, defaults and markers go; objects with named fields take no others. Below `spec`, with paths given,
only these (and what lies beneath them) stay: the exporters write no more, and a pod's fields are a megabyte.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import yaml

_KEPT = (
    "type", "required", "enum", "pattern", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems",
    "maxProperties",
)  # fmt: skip


def reduced(schema: dict[str, Any], path: tuple[str, ...], wanted: list[tuple[str, ...]]) -> dict[str, Any]:
    """One level, and what lies beneath."""
    if schema.get("x-kubernetes-int-or-string"):
        return {"type": ["integer", "string"]}
    found = {name: schema[name] for name in _KEPT if name in schema}
    if "properties" in schema:
        found["properties"] = {
            name: reduced(each, (*path, name), wanted)
            for name, each in schema["properties"].items()
            if _stays((*path, name), wanted)
        }
        found["required"] = [name for name in schema.get("required", []) if name in found["properties"]]
        if not schema.get("x-kubernetes-preserve-unknown-fields"):
            found["additionalProperties"] = False
    if isinstance(schema.get("additionalProperties"), dict):
        found["additionalProperties"] = reduced(schema["additionalProperties"], path, wanted)
    if "items" in schema:
        found["items"] = reduced(schema["items"], path, wanted)
    return found


def _stays(path: tuple[str, ...], wanted: list[tuple[str, ...]]) -> bool:
    """Whether the path leads to a wanted one, or lies beneath it."""
    if not wanted or path[0] != "spec":
        return True
    return any(path[: len(each)] == each[: len(path)] for each in wanted)


def main(file: str, repository: str, commit: str, licence: str, *paths: str) -> None:
    """Prints the document."""
    crd = yaml.safe_load(Path(file).read_text(encoding="utf-8"))
    (version,) = [each for each in crd["spec"]["versions"] if each["storage"]]
    schema = version["schema"]["openAPIV3Schema"]
    del schema["properties"]["metadata"]
    schema["properties"].pop("status", None)
    found = reduced(schema, (), [tuple(path.split("/")) for path in paths])
    found["properties"]["metadata"] = {"type": "object"}
    kind, group = crd["spec"]["names"]["kind"], crd["spec"]["group"]
    found["properties"]["kind"] = {"const": kind}
    found["properties"]["apiVersion"] = {"const": f"{group}/{version['name']}"}
    found["required"] = ["apiVersion", "kind", "metadata", "spec"]
    source = {"repository": repository, "commit": commit, "licence": licence, "kept": list(paths)}
    print(json.dumps({"source": source, "schema": found}, separators=(",", ":"), sort_keys=True))


if __name__ == "__main__":
    main(*sys.argv[1:])
