"""Names in llama-swap: each that a client may ask for reaches an engine that knows what is meant.

A model of llama-swap is one process. Where a machine has one replica of a model it is called as the model is, and
folded models and adapters are further names of it. Where it has several, each is called by its replica's id, and a
selector of the model's name hands requests out; folded models get such selectors too, and adapters one over
``ID/ADAPTER`` names of each replica.

Upstream llama-swap passes the name that was asked for, or always one (`useModelName`); a selector has by then put
its target's name in place (internal/server/filters.go, selector.go). Engines that know adapters by name are told
the names that reach them, and for the others a request is given the field by which they know them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from cotenant.deployment.launch import Launch, answering_as
from cotenant.engines.names import takes_several
from cotenant.errors import UnsupportedError


@dataclass(frozen=True, slots=True)
class Known:
    """A replica as llama-swap knows it: its key and its further names, the one name that is passed to the engine
    ("": the one that was asked for), and what a request for each name adds. `asked_as` says by which of the names
    each of the fleet's models and adapters is reached here."""

    launch: Launch
    key: str
    aliases: tuple[str, ...] = ()
    upstream: str = ""
    fields: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    asked_as: Mapping[str, str] = field(default_factory=dict)


def known(found: Sequence[Launch]) -> tuple[Known, ...]:
    """The replicas of one machine under unique names. Raises UnsupportedError where two models share one."""
    by_model: dict[str, int] = {}
    for one in found:
        by_model[one.replica.model] = by_model.get(one.replica.model, 0) + 1
    models = tuple(_alone(one) if by_model[one.replica.model] == 1 else _one_of_several(one) for one in found)
    _check(models)
    return models


def selectors(models: Sequence[Known], sets: Sequence[Sequence[str]]) -> dict[str, Any]:
    """A selector for each name that several replicas serve. Requests spill from one to the next where all may run
    together, which llama-swap demands for that; else they go to one that runs."""
    targets: dict[str, list[Known]] = {}
    for one in models:
        for name in one.asked_as:
            targets.setdefault(name, []).append(one)
    several = {name: each for name, each in targets.items() if len(each) > 1}
    return {name: _selector([one.asked_as[name] for one in each], each, sets) for name, each in several.items()}


def _alone(one: Launch) -> Known:
    adapters = one.adapter_names if one.hosting.adapter_requests else ()
    key, *folded = one.models
    fields = _fields(one, key, adapters)
    names = (*folded, *adapters)
    return Known(one, key, names, key if fields else "", fields, {name: name for name in (key, *names)})


def _one_of_several(one: Launch) -> Known:
    """Adapters known by name are told to the engine under the names that reach it."""
    key = one.replica.id
    adapters = {name: f"{key}/{name}" for name in one.adapter_names if one.hosting.adapter_requests}
    asked_as = dict.fromkeys(one.models, key) | adapters
    names = tuple(adapters.values())
    fields = _fields(one, key, names)
    if not names or fields:
        return Known(one, key, names, one.replica.model, fields, asked_as)
    renamed = [
        replace(each, name=adapters[each.name], source=each.source or f"./{each.name}")
        for each in one.replica.adapters
    ]
    also = (*one.replica.also_serves, key) if takes_several(one.replica.engine) else ()
    launch = answering_as(one, one.replica.model, also, renamed)
    return Known(launch, key, names, "", {}, asked_as)


def _fields(one: Launch, key: str, names: Sequence[str]) -> dict[str, Mapping[str, Any]]:
    """What a request adds by the name that it asked for; nothing where names alone say it."""
    how = one.hosting.adapter_requests
    if how is None or how.by_name or not names:
        return {}
    found = {key: how.fields(None, one.adapter_names)}
    found |= {name: how.fields(number, one.adapter_names) for number, name in enumerate(names)}
    return {name: told for name, told in found.items() if told}


def _selector(targets: list[str], models: Sequence[Known], sets: Sequence[Sequence[str]]) -> dict[str, Any]:
    names = {one.launch.name for one in models}
    if not any(names <= set(group) for group in sets):
        return {"strategy": "warm", "targets": targets}
    slots = min(one.launch.slots for one in models)
    return {"strategy": "spillover", "targets": targets, "settings": {"spillover": slots}}


def _check(models: Sequence[Known]) -> None:
    """No name stands for two things: models, or a model and one of the replicas of another."""
    meant: dict[str, set[str]] = {}
    for one in models:
        model, key = one.launch.replica.model, one.key
        for name in one.asked_as:
            meant.setdefault(name, set()).add(model)
        for name in {key, *one.aliases} - set(one.asked_as):
            meant.setdefault(name, set()).add(f"a replica of {model}")
    for name, those in meant.items():
        if len(those) > 1:
            both = " and ".join(sorted(those))
            raise UnsupportedError(f"llama-swap: {both} would answer to {name[:60]!r}", hint="rename one of them")
