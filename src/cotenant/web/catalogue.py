"""What the page offers: models, cards, precisions, engines, targets and examples, in one document."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from cotenant.web.documents import compact
from cotenant.web.shelf import UPLOAD_BYTES

if TYPE_CHECKING:
    from cotenant.catalogue.models import ModelEntry


def catalogue_document() -> dict[str, Any]:
    """`cotenant/catalogue/1`. Bytes are whole numbers, prices dollars an hour or null."""
    from cotenant.catalogue import VERSION
    from cotenant.catalogue.quantization import all_formats
    from cotenant.deployment.targets import TARGETS
    from cotenant.domain.workload import TASKS
    from cotenant.report.document import header

    return {
        **header("catalogue", catalogue=VERSION),
        "models": [*_own(), *_models()],
        "gpus": _gpus(),
        "quantizations": [{"name": one.name, "title": one.title} for one in all_formats()],
        "engines": [_engine(name) for name in _engines()],
        "targets": [
            {"name": name, "title": one.title, "engines": None if one.engines is None else list(one.engines)}
            for name, one in TARGETS.items()
        ],
        "tasks": list(TASKS),
        **_policies(),
        **_conditions(),
        "defaults": _defaults(),
        "upload_bytes": UPLOAD_BYTES,
        "examples": _examples(),
        "first_example": FIRST,
    }


FIRST = "a100-trio"  # the example that the page opens with


def first_example() -> str:
    """Its fleet file."""
    return next(str(one["fleet"]) for one in _examples() if one["name"] == FIRST)


def _policies() -> dict[str, list[str]]:
    """How models share cards in a replay; which of these replay a plan as it stands, the others place anew."""
    from cotenant.simulation.policies import AS_PLANNED, POLICIES

    return {"policies": list(POLICIES), "policies_of_plans": list(AS_PLANNED)}


def catalogue_bytes() -> bytes:
    """The document as it is sent."""
    return compact(catalogue_document())


def _conditions() -> dict[str, list[str]]:
    from cotenant.simulation.conditions import DISPATCHES, PREEMPTS

    return {"dispatches": list(DISPATCHES), "preempts": list(PREEMPTS)}


def _defaults() -> dict[str, str]:
    """What a fleet file means where it leaves something out, as it would be written there."""
    from cotenant.readers.fleet_schema import published

    told = published()["properties"]
    return {name: told[name]["default"] for name in ("headroom", "kv_overflow")}


def _engines() -> tuple[str, ...]:
    from cotenant.engines import engine_names

    return engine_names()


def _engine(name: str) -> dict[str, Any]:
    from cotenant.engines import find_engine

    rules, newest = find_engine(name)
    told = rules.rules(newest)
    share = told.share_option if told.allocate is None else None  # else it allocates what its options ask for
    return {
        "id": name, "title": rules.title, "oldest": str(rules.oldest), "newest": str(newest), "utilisation": share,
    }  # fmt: skip


@cache
def _models() -> tuple[dict[str, Any], ...]:
    from cotenant.catalogue.models import all_entries

    return tuple(_model(entry) for entry in all_entries())


def _model(entry: ModelEntry) -> dict[str, Any]:
    from cotenant.edge.models import open_model
    from cotenant.errors import CotenantError

    row = {
        "name": entry.id, "aliases": list(entry.aliases), "task": entry.task, "license": entry.license,
        "parameters": entry.published.parameters, "context_tokens": None, "modalities": ["text"],
        "quantizations": sorted(entry.checkpoints), "supported": True, "why_not": "",
    }  # fmt: skip
    try:
        spec = open_model(entry.id).spec
    except CotenantError as error:
        return row | {"supported": False, "why_not": error.message}
    return row | {
        "parameters": spec.num_parameters, "context_tokens": spec.max_model_len,
        "modalities": list(spec.modalities), "stored": spec.quantization or spec.dtype,
    }  # fmt: skip


def _own() -> list[dict[str, Any]]:
    """The user's own models by name; what each is made of, it says when it is asked for."""
    from cotenant.edge.own_models import own_models

    return [
        {"name": one.name, "aliases": list(one.aliases), "task": one.task, "license": None, "parameters": None,
         "context_tokens": None, "modalities": ["text"], "quantizations": sorted(one.checkpoints),
         "supported": True, "why_not": ""}
        for one in own_models()
    ]  # fmt: skip


def _gpus() -> list[dict[str, Any]]:
    from cotenant.catalogue.gpus import all_gpus
    from cotenant.edge.own_gpus import own_gpus

    own = own_gpus()
    mine = {one.name for one in own}
    return [
        {
            "name": one.name, "aliases": list(one.aliases), "vendor": one.vendor, "architecture": one.architecture,
            "driver_bytes": one.driver_bytes.value, "cuda_bytes": one.cuda_bytes.value,
            "memory_bandwidth": one.memory_bandwidth, "price_per_hour": one.price_per_hour,
            "price_source": one.price_source,
        }
        for one in (*own, *(card for card in all_gpus() if card.name not in mine))
    ]  # fmt: skip


def _examples() -> list[dict[str, Any]]:
    """Fleet files as text, as a user would write them."""
    folder = files("cotenant.web").joinpath("examples")
    found = sorted((one for one in folder.iterdir() if one.name.endswith(".yaml")), key=lambda one: one.name)
    return [{"name": one.name.removesuffix(".yaml"), "fleet": one.read_text(encoding="utf-8")} for one in found]
