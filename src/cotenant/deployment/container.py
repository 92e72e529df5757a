"""A replica in its engine's published image."""

from __future__ import annotations

from cotenant.deployment.launch import Launch
from cotenant.errors import UnsupportedError

WORKDIR = "/cotenant"
"""Where a container finds the files and relative paths that its arguments name."""

_ALL = "0.0.0.0"  # inside of its own network: what others reach of it is published by its target


def image(launch: Launch) -> str:
    """The published image of the engine's version."""
    return launch.hosting.image(launch.version)


def entrypoint(launch: Launch) -> list[str] | None:
    """The program, where the image's own entrypoint is replaced; images call Python `python3`."""
    if launch.hosting.entry_words is not None:
        return None
    program = launch.argv[0]
    return ["python3" if program == "python" else program]


def arguments(launch: Launch, *, metrics: bool = False) -> list[str]:
    """What follows the entrypoint: the rest of the words, on all interfaces, with metrics where asked."""
    skip = launch.hosting.entry_words
    found = [*launch.argv[1 if skip is None else skip :], *launch.hosting.listening(_ALL)]
    page = launch.hosting.metrics(launch.version)
    return found + list(page.flags) if metrics and page else found


def variables(launch: Launch) -> dict[str, str]:
    """The environment, on all interfaces. The container sees only its own cards, so none are named."""
    return {**launch.variables, **launch.hosting.listen_variables(_ALL, launch.replica.port)}


def probe(launch: Launch) -> list[str]:
    """A command inside the image that succeeds once the model answers."""
    url = launch.health_url
    if launch.hosting.probe == "python3":
        return ["python3", "-c", f"import urllib.request; urllib.request.urlopen('{url}', timeout=5)"]
    if launch.hosting.probe == "curl":
        return ["curl", "-fsS", "-o", "/dev/null", url]
    return [launch.hosting.probe, "show", launch.replica.model]


def needs_shared_memory(launch: Launch) -> bool:
    """Ranks talk through /dev/shm, of which a container has 64 MiB unless told."""
    return len(launch.cards) > 1


def mounts(launch: Launch) -> list[tuple[str, str]]:
    """(path outside, path inside) of the files that its arguments name.

    Raises UnsupportedError for paths that mean another place inside.
    """
    found: list[tuple[str, str]] = []
    for path in (*(f"./{name}" for name in launch.files), *launch.local_paths):
        if path.startswith("~") or ".." in path.split("/"):
            raise UnsupportedError(
                f"{launch.replica.id}: {path[:60]!r} means another place inside a container",
                hint="give an absolute path in the fleet",
            )
        inside = path if path.startswith("/") else f"{WORKDIR}/{path.removeprefix('./')}"
        outside = path if path.startswith(("/", "./")) else f"./{path}"
        found.append((outside, inside))
    return found


def after_start(launch: Launch) -> list[str]:
    """What makes the model known, once the server listens."""
    wait = 'until ollama list >/dev/null 2>&1; do sleep 1; done; exec "$@"'
    return ["sh", "-c", wait, "sh", *launch.after_start] if launch.after_start else []
