"""Docker Compose: a service a replica, its cards by index, each started once the one before it is healthy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cotenant.deployment.container import (
    WORKDIR,
    after_start,
    arguments,
    entrypoint,
    image,
    mounts,
    needs_shared_memory,
    probe,
    variables,
)
from cotenant.deployment.launch import (
    LOAD_S,
    Launch,
    folder,
    launches,
    nodes,
    path_notes,
    slice_notes,
    slice_reference,
)
from cotenant.deployment.quoting import to_yaml
from cotenant.domain.deployment import DeployFile
from cotenant.domain.plan import Plan

_HEADER = "# One service a replica; on shared cards each starts once the one before it is healthy.\n"


def files(plan: Plan) -> tuple[tuple[DeployFile, ...], tuple[str, ...]]:
    """`compose.yaml` for each machine, and the files that its services mount."""
    found = launches(plan)
    made: list[DeployFile] = []
    for node, each in nodes(found).items():
        place = folder(node, found)
        made.append(DeployFile(f"{place}compose.yaml", _HEADER + to_yaml(_compose(each))))
        made += [DeployFile(f"{place}{name}", text) for one in each for name, text in one.files.items()]
    notes = path_notes(found, "beside compose.yaml, or at that path")
    return tuple(made), (*slice_notes(found, "to docker compose, in .env"), *notes)


def _compose(found: Sequence[Launch]) -> dict[str, Any]:
    volumes: dict[str, dict[str, str]] = {f"{one.replica.engine.replace('.', '-')}-files": {} for one in found}
    return {"name": "cotenant", "services": {one.name: _service(one) for one in found}, "volumes": volumes}


def _service(one: Launch) -> dict[str, Any]:
    program = entrypoint(one)
    service: dict[str, Any] = {"image": image(one), "restart": "unless-stopped"}
    if program is not None:
        service["entrypoint"] = program
    service["command"] = _literal(arguments(one))
    service["environment"] = _environment(one)
    service["ports"] = [f"127.0.0.1:{one.replica.port}:{one.replica.port}"]
    service["volumes"] = _volumes(one)
    if one.files or one.local_paths:
        service["working_dir"] = WORKDIR
    if needs_shared_memory(one):
        service["shm_size"] = "8gb"
    cards = [slice_reference(one)] if one.slices else [str(card) for card in one.cards]
    service["deploy"] = {
        "resources": {"reservations": {"devices": [_device(cards)]}}
    }  # fmt: skip
    service["healthcheck"] = {
        "test": ["CMD", *_literal(probe(one))],
        "interval": "5s",
        "timeout": "10s",
        "retries": 3,
        "start_period": f"{LOAD_S}s",
    }
    if one.after_start:
        service["post_start"] = [{"command": _literal(after_start(one))}]
    if one.waits_for:
        service["depends_on"] = {name: {"condition": "service_healthy"} for name in one.waits_for}
    return service


def _device(cards: list[str]) -> dict[str, Any]:
    return {"driver": "nvidia", "device_ids": cards, "capabilities": ["gpu"]}


def _environment(one: Launch) -> dict[str, str | None]:
    """A name without a value is taken from whoever calls `docker compose up`."""
    told: dict[str, str | None] = {name: _escaped(value) for name, value in variables(one).items()}
    return ({one.hosting.token: None} if one.hosting.token else {}) | told


def _volumes(one: Launch) -> list[Mapping[str, Any]]:
    """Downloads in a volume, files and local weights as they lie on the machine, read-only."""
    kept = {
        "type": "volume",
        "source": f"{one.replica.engine.replace('.', '-')}-files",
        "target": one.hosting.files_dir,
    }
    found: list[Mapping[str, Any]] = [kept]
    for source, target in mounts(one):
        found.append({"type": "bind", "source": _escaped(source), "target": _escaped(target), "read_only": True})
    return found


def _literal(words: Sequence[str]) -> list[str]:
    return [_escaped(word) for word in words]


def _escaped(text: str) -> str:
    """Compose replaces $NAME in every value; $$ is a dollar."""
    return text.replace("$", "$$")
