"""What a question is about, opened: a model, a fleet, a plan, each from a path, a mapping or the value itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from os import PathLike

    from cotenant.domain.fleet import Fleet
    from cotenant.domain.loaded import LoadedModel
    from cotenant.domain.model import ModelSpec
    from cotenant.domain.plan import Plan

    ModelSource = str | PathLike[str] | Mapping[str, Any] | ModelSpec | LoadedModel
    FleetSource = str | PathLike[str] | Mapping[str, Any] | Fleet
    PlanSource = FleetSource | Plan

Progress = Callable[[str], None]
"""Is told in a few words what is being done."""


def silent(said: str) -> None:
    """Progress that nobody wants to hear of."""


def load_model(source: ModelSource) -> LoadedModel:
    """The model that `source` names: a catalogue name or alias, a hub id, a folder, a config.json, a
    .safetensors or .gguf file, raw figures, a parsed config, or the value itself.

    Raises UnknownModelError naming the nearest, UnknownArchitectureError, FormatError, HubError.
    """
    from cotenant.edge.models import open_model

    return open_model(source)


def load_fleet(source: FleetSource) -> Fleet:
    """The fleet in a YAML or JSON file, a mapping, or the value itself. Raises InputErrors with every fault."""
    from cotenant.domain.fleet import Fleet

    if isinstance(source, Fleet):
        return source
    from cotenant.edge.models import open_model
    from cotenant.edge.own_gpus import own_gpus
    from cotenant.edge.traces import trace_opener
    from cotenant.readers.fleet import fleet_from, read_fleet

    if isinstance(source, Mapping):
        return fleet_from(source, load_model=open_model, load_trace=trace_opener(), extra=own_gpus())
    from cotenant.edge.text import read_text

    return read_fleet(
        read_text(source),
        load_model=open_model,
        load_trace=trace_opener(source),
        path=str(source),
        extra=own_gpus(),
    )


def running_plan(source: PlanSource) -> Plan:
    """The plan that runs now. Raises InputError for what is no plan."""
    from cotenant.edge.plans import given_plan
    from cotenant.errors import InputError

    found = given_plan(source)
    if found is None:
        named = f"{source} is" if isinstance(source, str) else "what runs is"
        raise InputError(f"{named} not a plan", hint="cotenant plan FLEET -o plan.json writes one")
    return found
