"""llama-swap: a model a replica, and the matrix of what may run together, counted from the plan's own bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cotenant.deployment.coexistence import together
from cotenant.deployment.launch import LOAD_S, Launch, apart, folder, launches, nodes, path_notes
from cotenant.deployment.quoting import check_printable, shell, to_yaml
from cotenant.domain.deployment import DeployFile
from cotenant.domain.plan import Plan
from cotenant.errors import UnsupportedError
from cotenant.units import GIB

_HEADER = "# A model of llama-swap a replica. The matrix holds what the plan's bytes say may run together.\n"


def files(plan: Plan) -> tuple[tuple[DeployFile, ...], tuple[str, ...]]:
    """`llama-swap.yaml` for each machine, and the files that its commands name."""
    found = launches(plan)
    made: list[DeployFile] = []
    for node, each in nodes(found).items():
        place = folder(node, found)
        made.append(DeployFile(f"{place}llama-swap.yaml", _HEADER + to_yaml(_config(plan, each))))
        made += [DeployFile(f"{place}{name}", text) for one in each for name, text in one.files.items()]
    swaps = ("llama-swap stops and starts engines: a wake is a load, not what the plan's sleep mode takes",)
    return tuple(made), (swaps if plan.turns else ()) + path_notes(
        found, "where llama-swap is started, or at that path"
    )


def _config(plan: Plan, found: Sequence[Launch]) -> dict[str, Any]:
    names = {one.name: _safe(one.replica.id, "the id") for one in found}
    short = {one.name: f"m{number}" for number, one in enumerate(found)}
    sets = together(plan, found)
    weights = _weights(plan)
    matrix = {
        "vars": {short[one.name]: names[one.name] for one in found},
        "evict_costs": {short[one.name]: max(1, weights.get(one.replica.id, 0) // GIB) for one in found},
        "sets": {f"set{number}": " & ".join(short[name] for name in group) for number, group in enumerate(sets)},
    }
    config: dict[str, Any] = {
        "healthCheckTimeout": LOAD_S,
        "models": {names[one.name]: _model(apart(one)) for one in found},
        "routing": {"router": {"use": "matrix", "settings": {"matrix": matrix}}},
    }
    selectors = _selectors(found)
    if selectors:
        config["selectors"] = selectors
    if len(sets) == 1:
        config["hooks"] = {"on_startup": {"preload": [names[one.name] for one in found]}}
    return config


def _model(one: Launch) -> dict[str, Any]:
    words = [_safe(word, "the word") for word in one.argv]
    told = {**one.card_variables, **one.variables}
    model: dict[str, Any] = {
        "cmd": " ".join(shell(word) for word in words),
        "env": [f"{name}={_safe(value, name)}" for name, value in told.items()],
        "proxy": f"http://127.0.0.1:{one.replica.port}",
        "checkEndpoint": one.hosting.health,
        "ttl": 0,
    }
    if one.replica.id != one.replica.model:
        model["useModelName"] = _safe(one.replica.model, "the model's name")
    if one.replica.settings.max_num_seqs:
        model["concurrencyLimit"] = one.replica.settings.max_num_seqs
    return model


def _selectors(found: Sequence[Launch]) -> dict[str, Any]:
    """One name for the replicas of a model that has several: requests spill from one to the next."""
    by_model: dict[str, list[Launch]] = {}
    for one in found:
        by_model.setdefault(one.replica.model, []).append(one)
    several = {model: each for model, each in by_model.items() if len(each) > 1}
    ids = {one.replica.id for one in found}
    return {
        model: {
            "strategy": "spillover",
            "targets": [one.replica.id for one in each],
            "settings": {"spillover": min(one.replica.settings.max_num_seqs or 1 for one in each)},
        }
        for model, each in several.items()
        if model not in ids
    }  # fmt: skip


def _weights(plan: Plan) -> dict[str, int]:
    """Bytes of each replica's weights over all of its cards: what an eviction costs to load again."""
    found: dict[str, int] = {}
    for gpu in plan.gpus:
        for share in (*gpu.shares, *(one.share for one in gpu.sleepers)):
            found[share.replica] = found.get(share.replica, 0) + share.weights_bytes
    return found


def _safe(text: str, what: str) -> str:
    """llama-swap replaces ${NAME} everywhere and reads commands line by line; neither can be escaped."""
    if "${" in text:
        raise UnsupportedError(
            f"llama-swap would replace what stands in {text[:60]!r}", hint="rename it without ${"
        )
    return check_printable(text, what, "llama-swap")
