"""Shell scripts: one a replica with its env file, and one a machine that starts them in order."""

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
)
from cotenant.deployment.mig import mig_notes, mig_reference
from cotenant.deployment.quoting import check_printable, shell
from cotenant.domain.deployment import DeployFile
from cotenant.domain.plan import Plan


def files(plan: Plan, listen: str = LOOPBACK) -> tuple[tuple[DeployFile, ...], tuple[str, ...]]:
    """`NAME.sh`, `NAME.env` and what else a replica reads; `start.sh` for each machine."""
    found = launches(plan, listen)
    made = [file for node, each in nodes(found).items() for file in _node(folder(node, found), each)]
    notes = path_notes(found, "beside the scripts, or at that path")
    return tuple(made), (*mig_notes(found, "in the environment of start.sh"), *notes, *open_notes(listen))


def _node(place: str, found: Sequence[Launch]) -> Iterator[DeployFile]:
    for one in found:
        yield DeployFile(f"{place}{one.name}.sh", _script(on_a_machine(one)), executable=True)
        yield DeployFile(f"{place}{one.name}.env", _environment(one))
        for name, text in one.files.items():
            yield DeployFile(f"{place}{name}", text)
    yield DeployFile(f"{place}start.sh", _start(found), executable=True)


def _script(one: Launch) -> str:
    words = " ".join(shell(word) for word in one.argv)
    return f"""#!/bin/sh
# {_comment(one)}
set -eu
cd "$(dirname "$0")"
set -a
. ./{one.name}.env
set +a
exec {words}
"""


def _comment(one: Launch) -> str:
    cards = ", ".join(device.label for device in one.replica.devices)
    said = f"{one.replica.id}: {one.replica.checkpoint} on {cards}"
    return said if said.isprintable() else one.name


def _environment(one: Launch) -> str:
    told = {**one.card_variables, **one.variables}
    lines = [f"{name}={shell(check_printable(value, name, 'an env file'))}" for name, value in told.items()]
    if one.mig_profiles:  # a shell reads this file: what is not set ends it
        lines.insert(0, f'CUDA_VISIBLE_DEVICES="{mig_reference(one)}"')
    secret = f"# {one.hosting.token} is taken from the environment\n" if one.hosting.token else ""
    return secret + "\n".join(lines) + "\n"


def _start(found: Sequence[Launch]) -> str:
    steps = "\n".join(_step(one) for one in found)
    return f"""#!/bin/sh
# Starts the engines of this machine one after the other, each once the one before answers; stops them together.
set -eu
cd "$(dirname "$0")"
running=
stop() {{
    trap - EXIT INT TERM
    # shellcheck disable=SC2086 # several process ids
    [ -z "$running" ] || kill $running 2>/dev/null || true
    wait
}}
trap stop EXIT
trap 'exit 130' INT TERM
start() {{ # NAME URL
    "./$1.sh" >"$1.log" 2>&1 &
    pid=$!
    running="$running $pid"
    waited=0
    until curl -fsS --max-time 10 -o /dev/null "$2" 2>/dev/null; do
        kill -0 "$pid" 2>/dev/null || {{ echo "$1 ended: see $1.log" >&2; exit 1; }}
        [ "$waited" -lt {LOAD_S} ] || {{ echo "$1 does not answer after $waited s: see $1.log" >&2; exit 1; }}
        sleep 1
        waited=$((waited + 1))
    done
    echo "$1 answers at $2"
}}
{steps}
wait
"""


def _step(one: Launch) -> str:
    started = f"start {one.name} {shell(one.health_url)}"
    if not one.after_start:
        return started
    host = f"OLLAMA_HOST={shell(one.variables['OLLAMA_HOST'])} " if "OLLAMA_HOST" in one.variables else ""
    return f"{started}\n{host}{' '.join(shell(word) for word in one.after_start)}"
