"""The user's own models: `catalogue/models.yaml` (or .json) in the configuration folder.

models:
  - name: lab-7b                      # what it is called here
    aliases: [lab]
    model: {parameters: 7B, layers: 32, kv_heads: 8, head_dim: 128}    # or a hub id, a folder, a file
    path: /models/lab-7b              # what the engine is given to load; by default what the model says
    task: chat
    checkpoints: {fp8: /models/lab-7b-fp8}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cotenant.catalogue.strict import Row, nearest, raise_faults
from cotenant.edge.own_files import own_rows
from cotenant.errors import CotenantError, InputError, InputErrors

KEYS = ("name", "aliases", "model", "path", "task", "checkpoints")


@dataclass(frozen=True, slots=True)
class OwnModel:
    """One row of the file. `model` is anything that names a model; "" where the row does not say."""

    name: str
    aliases: tuple[str, ...]
    model: object
    path: str
    task: str
    checkpoints: Mapping[str, str]


def find_own_model(name: str) -> OwnModel | None:
    """The user's model of that name or alias (case does not matter), or None."""
    wanted = name.lower()
    for model in own_models():
        if wanted in (word.lower() for word in (model.name, *model.aliases)):
            return model
    return None


def own_models() -> tuple[OwnModel, ...]:
    """The models in the user's file; empty where there is none. Raises InputErrors naming the file."""
    return own_rows("models", _models)


def _models(value: object) -> tuple[OwnModel, ...]:
    rows = value.get("models") if isinstance(value, Mapping) else value
    if not isinstance(rows, list) or (isinstance(value, Mapping) and set(value) != {"models"}):
        raise InputErrors(
            [InputError("models are a list", hint="models: [{name: lab-7b, model: ...}]", path="$.models")]
        )
    faults: list[CotenantError] = []
    models = tuple(_model(Row(row, f"$.models[{i}]", faults, KEYS)) for i, row in enumerate(rows))
    raise_faults(faults)
    return models


def _model(row: Row) -> OwnModel:
    source: Any = row.values.get("model")
    if row.values and not isinstance(source, (str, Mapping)):
        row.note("must name a model or give its figures", source, "model")
    return OwnModel(
        name=row.text("name"),
        aliases=row.texts("aliases"),
        model=source,
        path=row.text("path", ""),
        task=_task(row),
        checkpoints=_checkpoints(row),
    )


def _task(row: Row) -> str:
    from cotenant.domain.workload import TASKS

    task = row.text("task", "")
    if task and task not in TASKS:
        row.faults.append(
            InputError(f"unknown task {task[:60]!r}", hint=nearest(task, TASKS), path=f"{row.path}.task")
        )
    return task


def _checkpoints(row: Row) -> Mapping[str, str]:
    """Format names, as the catalogue spells them, to hub ids or paths."""
    from cotenant.catalogue.quantization import find_format

    given = row.values.get("checkpoints", {})
    if not isinstance(given, Mapping) or not all(isinstance(held, str) and held for held in given.values()):
        row.note("must map formats to hub ids or paths", given, "checkpoints")
        return {}
    found: dict[str, str] = {}
    for name, held in given.items():
        try:
            found[find_format(str(name)).name] = held
        except InputError as error:
            path = f"{row.path}.checkpoints.{name}"
            row.faults.append(InputError(error.message, hint=error.hint, path=path))
    return found
