"""llama-swap: a model a replica, and the matrix of what may run together, counted from the plan's own bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cotenant.deployment.cells import weights_bytes
from cotenant.deployment.coexistence import together
from cotenant.deployment.launch import LOAD_S, Launch, folder, launches, nodes, on_a_machine, path_notes
from cotenant.deployment.llama_swap_names import Known, known, selectors
from cotenant.deployment.mig import mig_notes, mig_variable
from cotenant.deployment.quoting import check_printable, shell, to_yaml
from cotenant.domain.deployment import DeployFile
from cotenant.domain.plan import Plan
from cotenant.errors import UnsupportedError
from cotenant.units import GIB

_HEADER = "# A model of llama-swap a replica. The matrix holds what the plan's bytes say may run together.\n"
_SWAPS = "llama-swap stops and starts engines: a wake is a load, not what the plan's sleep mode takes"
_ONE_EACH = "each machine has its own llama-swap, which knows the models of that machine"
_MAY_WAIT = 1000
"""Requests of a model that may wait beside those that run: engines queue what finds no slot, and while a model
loads all wait. Beyond `concurrencyLimit` llama-swap answers 429, without one beyond ten (so says its schema)."""


def files(plan: Plan) -> tuple[tuple[DeployFile, ...], tuple[str, ...]]:
    """`llama-swap.yaml` for each machine, and the files that its commands name.

    Raises UnsupportedError where two models of a machine answer to one name, and for text that llama-swap alters.
    """
    found = launches(plan)
    made: list[DeployFile] = []
    for node, each in nodes(found).items():
        place = folder(node, found)
        made.append(DeployFile(f"{place}llama-swap.yaml", _HEADER + to_yaml(_config(plan, each))))
        made += [DeployFile(f"{place}{name}", text) for one in each for name, text in one.files.items()]
    return tuple(made), tuple(_notes(plan, found))


def _notes(plan: Plan, found: Sequence[Launch]) -> list[str]:
    where = "where llama-swap is started"
    notes = [_SWAPS] if plan.turns else []
    notes += [_ONE_EACH] if len(nodes(found)) > 1 else []
    notes += [
        f"{one.replica.id}: no request to llama-swap reaches {' or '.join(one.adapter_names)} alone"
        for one in found
        if one.adapter_names and one.hosting.adapter_requests is None
    ]
    return [*notes, *mig_notes(found, where), *path_notes(found, f"{where}, or at that path")]


def _config(plan: Plan, found: Sequence[Launch]) -> dict[str, Any]:
    models = known(found)
    short = {one.launch.name: f"m{number}" for number, one in enumerate(models)}
    sets = together(plan, found)
    matrix = {
        "vars": {short[one.launch.name]: _safe(one.key, "the name") for one in models},
        "evict_costs": {short[one.name]: max(1, weights_bytes(plan, one.replica.id) // GIB) for one in found},
        "sets": {f"set{number}": " & ".join(short[name] for name in group) for number, group in enumerate(sets)},
    }
    config: dict[str, Any] = {
        "healthCheckTimeout": LOAD_S,
        "models": {one.key: _model(one) for one in models},
        "routing": {"router": {"use": "matrix", "settings": {"matrix": matrix}}},
    }
    chosen = selectors(models, sets)
    if chosen:
        config["selectors"] = {_safe(name, "the name"): told for name, told in chosen.items()}
    if len(sets) == 1:
        config["hooks"] = {"on_startup": {"preload": [one.key for one in models]}}
    return config


def _model(one: Known) -> dict[str, Any]:
    launch = on_a_machine(one.launch)
    told = {**launch.card_variables, **launch.variables}
    model: dict[str, Any] = {
        "cmd": " ".join(shell(_safe(word, "the word")) for word in launch.argv),
        "env": [*_slices(launch), *(f"{name}={_safe(value, name)}" for name, value in told.items())],
        "proxy": f"http://127.0.0.1:{launch.replica.port}",
        "checkEndpoint": launch.hosting.health,
        "ttl": 0,
        "concurrencyLimit": launch.slots + _MAY_WAIT,
    }
    if one.aliases:
        model["aliases"] = [_safe(name, "the name") for name in one.aliases]
    if one.upstream:
        model["useModelName"] = _safe(one.upstream, "the model's name")
    if one.fields:
        model["filters"] = {"setParamsByID": dict(one.fields)}
    return model


def _slices(one: Launch) -> list[str]:
    """llama-swap fills in the variables of its own environment, and does not start where one is not set."""
    told = ",".join(f"${{env.{mig_variable(index)}}}" for index in one.cards)
    return [f"CUDA_VISIBLE_DEVICES={told}"] if one.mig_profiles else []


def _safe(text: str, what: str) -> str:
    """llama-swap replaces ${NAME} everywhere and reads commands line by line; neither can be escaped."""
    if "${" in text:
        raise UnsupportedError(
            f"llama-swap would replace what stands in {text[:60]!r}", hint="rename it without ${"
        )
    return check_printable(text, what, "llama-swap")
