"""Docker Compose: a service a replica, its cards by index, each started once the one before it is healthy.

Docker itself knows no order: what it restarts with the machine (`unless-stopped`) it restarts all at once, and
engines that measure what is free would then take each other's memory. So replicas that wait for one another are
restarted by Docker only where they fail, and a unit for systemd runs `docker compose up`, which keeps the order.
"""

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
    LOOPBACK,
    Launch,
    bracketed,
    folder,
    launches,
    nodes,
    open_notes,
    path_notes,
)
from cotenant.deployment.mig import mig_notes, mig_reference
from cotenant.deployment.quoting import to_yaml
from cotenant.deployment.systemd import HOME, SECRETS
from cotenant.domain.deployment import DeployFile
from cotenant.domain.plan import Plan

_HEADER = "# One service a replica; on shared cards each starts once the one before it is healthy.\n"
BOOT_UNIT = "cotenant-compose.service"
_BOOT_NOTE = (
    f"after a reboot only `docker compose up` keeps the order: put all of this into {HOME}, and {BOOT_UNIT} "
    "into /etc/systemd/system and enable it"
)


def files(plan: Plan, listen: str = LOOPBACK) -> tuple[tuple[DeployFile, ...], tuple[str, ...]]:
    """`compose.yaml` for each machine, and the files that its services mount."""
    found = launches(plan)
    made: list[DeployFile] = []
    for node, each in nodes(found).items():
        place = folder(node, found)
        made.append(DeployFile(f"{place}compose.yaml", _HEADER + to_yaml(_compose(each, bracketed(listen)))))
        made += [DeployFile(f"{place}{name}", text) for one in each for name, text in one.files.items()]
        if _ordered(each):
            made.append(DeployFile(f"{place}{BOOT_UNIT}", _boot_unit(each)))
    boot = (_BOOT_NOTE,) if _ordered(found) else ()
    notes = path_notes(found, "beside compose.yaml, or at that path")
    return tuple(made), (*boot, *mig_notes(found, "to docker compose, in .env"), *notes, *open_notes(listen))


def _ordered(found: Sequence[Launch]) -> bool:
    return any(one.waits_for for one in found)


def _boot_unit(found: Sequence[Launch]) -> str:
    """`up` starts in order what exists; --no-recreate: a token that is not set here changes no container."""
    return f"""[Unit]
Description=LLM replicas of this machine, in containers started in order (cotenant)
Requires=docker.service
After=docker.service network-online.target
Wants=network-online.target
PartOf=docker.service

[Service]
Type=oneshot
RemainAfterExit=yes
WorkingDirectory={HOME}
EnvironmentFile=-{SECRETS}
ExecStart=/usr/bin/env docker compose up --detach --no-recreate
ExecStop=/usr/bin/env docker compose stop
TimeoutStartSec={LOAD_S * len(found)}

[Install]
WantedBy=multi-user.target
"""


def _compose(found: Sequence[Launch], host: str) -> dict[str, Any]:
    volumes: dict[str, dict[str, str]] = {f"{one.replica.engine.replace('.', '-')}-files": {} for one in found}
    awaited = {name for one in found for name in one.waits_for}
    services = {
        one.name: _service(one, host, "on-failure" if one.waits_for or one.name in awaited else "unless-stopped")
        for one in found
    }
    return {"name": "cotenant", "services": services, "volumes": volumes}


def _service(one: Launch, host: str, restart: str) -> dict[str, Any]:
    program = entrypoint(one)
    service: dict[str, Any] = {"image": image(one), "restart": restart}
    if program is not None:
        service["entrypoint"] = program
    service["command"] = _literal(arguments(one))
    service["environment"] = _environment(one)
    service["ports"] = [f"{host}:{one.replica.port}:{one.replica.port}"]
    service["volumes"] = _volumes(one)
    if one.files or one.local_paths:
        service["working_dir"] = WORKDIR
    if needs_shared_memory(one):
        service["shm_size"] = "8gb"
    cards = [mig_reference(one)] if one.mig_profiles else [str(card) for card in one.cards]
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
