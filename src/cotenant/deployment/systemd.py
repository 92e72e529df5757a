"""systemd units: a service a replica, each after the one before it on its cards answers, and a target for all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cotenant.deployment.launch import (
    LOAD_S,
    LOOPBACK,
    Launch,
    folder,
    launches,
    nodes,
    on_a_machine,
    open_notes,
    path_notes,
)  # fmt: skip
from cotenant.deployment.mig import mig_notes, mig_variable
from cotenant.deployment.quoting import unit
from cotenant.domain.deployment import DeployFile
from cotenant.domain.plan import Plan

HOME = "/opt/cotenant"
"""Where services run: relative paths and the files beside them are looked up there."""

SECRETS = "/etc/cotenant/secrets.env"
"""Where a machine's units look for the hub's token."""

_USER = "cotenant"
_SLICES = "/etc/cotenant/slices.env"


def files(plan: Plan, listen: str = LOOPBACK) -> tuple[tuple[DeployFile, ...], tuple[str, ...]]:
    """`cotenant-NAME.service` for each replica and `cotenant.target`, by machine."""
    found = launches(plan, listen)
    made = [file for node, each in nodes(found).items() for file in _node(folder(node, found), each)]
    places = f"units go to /etc/systemd/system, other files to {HOME}, the home of a user {_USER} that must exist"
    token = f"gated models need a line HF_TOKEN=... in {SECRETS}, readable by root alone"
    start = f"engines are looked up in {HOME}/bin first; `systemctl start cotenant.target` starts all"
    slices = mig_notes(found, f"in {_SLICES}")
    paths = path_notes(found, f"in {HOME}, or at that path")
    return tuple(made), (places, token, start, *slices, *paths, *open_notes(listen))


def _node(place: str, found: Sequence[Launch]) -> Iterator[DeployFile]:
    for one in found:
        yield DeployFile(f"{place}{_service_name(one.name)}", _service(on_a_machine(one)))
        for name, text in one.files.items():
            yield DeployFile(f"{place}{name}", text)
    yield DeployFile(f"{place}cotenant.target", _target(found))


def _service_name(name: str) -> str:
    return f"cotenant-{name}.service"


def _service(one: Launch) -> str:
    after = [_service_name(name) for name in one.waits_for]
    told = {
        "PATH": f"{HOME}/bin:/usr/local/bin:/usr/bin:/bin",
        "HOME": HOME,
        **one.card_variables,
        **one.variables,
    }
    environment = [f"Environment={unit(f'{name}={value}', expands=False)}" for name, value in told.items()]
    lines = [
        "[Unit]",
        f"Description=LLM replica {one.name} (cotenant)",
        "After=" + " ".join(["network-online.target", *after]),
        "Wants=network-online.target",
        "PartOf=cotenant.target",
        "",
        "[Service]",
        "Type=exec",
        f"User={_USER}",
        f"WorkingDirectory={HOME}",
        f"EnvironmentFile=-{SECRETS}",
        *environment,
        *_slices_are_told(one),
        f"ExecStart={_words(one.argv, cards=_slices(one))}",
        f"ExecStartPost={_words(_wait(one))}",
        *([f"ExecStartPost={_words(one.after_start)}"] if one.after_start else []),
        f"TimeoutStartSec={LOAD_S}",
        "TimeoutStopSec=120",
        "Restart=on-failure",
        "RestartSec=10",
        "LimitMEMLOCK=infinity",
        "",
        "[Install]",
        "WantedBy=cotenant.target",
    ]
    return "\n".join(lines) + "\n"


def _words(words: Sequence[str], cards: str = "") -> str:
    """Through env, which looks in the service's own PATH; systemd itself would not. `cards`: a variable for env,
    whose own variables systemd fills in."""
    first = ("/usr/bin/env", f'"{cards}"') if cards else ("/usr/bin/env",)
    return " ".join((*first, *(unit(word) for word in words)))


def _slices(one: Launch) -> str:
    """Which slices it sees; "" where its cards are whole ones, which have numbers (`Launch.card_variables`)."""
    told = ",".join(f"${{{mig_variable(index)}}}" for index in one.cards)
    return f"CUDA_VISIBLE_DEVICES={told}" if one.mig_profiles else ""


def _slices_are_told(one: Launch) -> list[str]:
    """Nothing starts where a slice was not named: with an empty list an engine would see no card, or all."""
    if not one.mig_profiles:
        return []
    checks = [f'ExecStartPre=/usr/bin/env test -n "${{{mig_variable(index)}}}"' for index in one.cards]
    return [f"EnvironmentFile={_SLICES}", *checks]


def _wait(one: Launch) -> tuple[str, ...]:
    """A start ends when this does, so that whoever comes after waits for the load."""
    retries = ("--retry", str(LOAD_S), "--retry-delay", "1", "--retry-connrefused", "--retry-all-errors")
    return ("curl", "-fsS", "--max-time", "10", "-o", "/dev/null", *retries, one.health_url)


def _target(found: Sequence[Launch]) -> str:
    wants = " ".join(_service_name(one.name) for one in found)
    return f"""[Unit]
Description=LLM replicas of this machine (cotenant)
Wants={wants}

[Install]
WantedBy=multi-user.target
"""
