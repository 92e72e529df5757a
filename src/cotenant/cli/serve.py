"""`cotenant serve`: a plan as a live gateway."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from cotenant.cli.output import emit, json_option, reports_errors
from cotenant.cli.printable import one_line
from cotenant.cli.progress import progress

if TYPE_CHECKING:
    from collections.abc import Callable

    from cotenant.domain.running import Launch
    from cotenant.edge.gateway.run import Options
    from cotenant.serving.from_plan import Fleet


@click.command("serve")
@click.argument("plan", metavar="PLAN")
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="Where to listen; beyond loopback keys are needed."
)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8080, show_default=True, help="0: any that is free."
)
@click.option(
    "--fleet", metavar="FLEET", help="The plan's fleet file, where the plan holds none: priorities, SLOs, hours."
)
@click.option("--api-keys", type=click.Path(path_type=Path), metavar="FILE", help="name key [priority=N] a line.")
@click.option("--allow-anonymous", is_flag=True, help="No keys, though others can reach this host.")
@click.option(
    "--engine-binary", "binaries", multiple=True, metavar="ENGINE=PATH", help="Where an engine's program is."
)
@click.option(
    "--url", "urls", multiple=True, metavar="NAME=URL", help="This replica or model runs already: route only."
)
@click.option(
    "--engine-keys",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="NAME KEY a line: keys of --url engines.",
)
@click.option("--state", type=click.Path(file_okay=False, path_type=Path), metavar="DIR", help="Journal and logs.")
@click.option(
    "--patience", default="10s", show_default=True, metavar="TIME", help="Before a busy model makes room."
)
@click.option(
    "--residency", default="5s", show_default=True, metavar="TIME", help="How long a model stays at least."
)
@click.option(
    "--hold", default="0s", show_default=True, metavar="TIME", help="A request's wait before an idle model goes."
)
@click.option("--idle", metavar="TIME", help="Send models away that nobody asked for so long. Default: never.")
@click.option(
    "--deadline", default="600s", show_default=True, metavar="TIME", help="For a request without its own."
)
@click.option(
    "--drain", default="30s", show_default=True, metavar="TIME", help="How long SIGTERM waits for answers."
)
@click.option(
    "--max-waiting", type=click.IntRange(1), default=1000, show_default=True, help="Requests a model's queue."
)
@click.option("--max-body", default="32MiB", show_default=True, metavar="BYTES", help="The longest request.")
@click.option("--no-prestart", is_flag=True, help="Start no engine before the first request for it.")
@click.option("--llama-router", is_flag=True, help="One llama-server, in router mode, for all llama.cpp models.")
@click.option("--quiet", is_flag=True, help="No log line for each request.")
@click.option("--dry-run", is_flag=True, help="Say what would be started, and where; start nothing.")
@json_option
@reports_errors
def command(plan: str, dry_run: bool, as_json: bool, binaries: tuple[str, ...], **told: object) -> int:
    """Serve PLAN (the JSON of `cotenant plan`, or a fleet file, which is planned first) as an OpenAI-compatible
    gateway: engines are started, put to sleep and stopped as requests need them, and no device is ever overrun.

    Logs go to stderr as JSON lines. SIGTERM lets requests end, then stops all engines that the gateway started.
    """
    from cotenant.edge.engines import programs

    programs.tell(_pairs(binaries, "--engine-binary"))
    fleet = _fleet(plan, told)
    if dry_run:
        _show(fleet, routed=bool(told["llama_router"]), as_json=as_json)
        return 0
    run, options = _gateway(told, lambda: _fleet(plan, told))

    def ready(url: str) -> None:
        if as_json:
            emit(_document(fleet, routed=options.llama_router) | {"url": url})
        else:
            click.echo(one_line(f"serving {', '.join(fleet.names)} at {url}/v1; status at {url}/"), err=True)

    return run(fleet, options, ready=ready)


def _gateway(told: dict[str, object], again: Callable[[], Fleet]) -> tuple[Callable[..., int], Options]:
    """(run, options). aiohttp is loaded only now."""
    from cotenant.errors import InputError

    try:
        from cotenant.edge.gateway.run import run
    except ImportError as error:
        raise InputError(f"serving needs {error.name}", hint="pip install '.[serve]' in the clone") from None
    return run, _options(told, again)


def _options(told: dict[str, object], again: Callable[[], Fleet]) -> Options:
    from cotenant.edge.gateway.keys import read_engine_keys, read_keys
    from cotenant.edge.gateway.routes import Limits
    from cotenant.edge.gateway.run import Options
    from cotenant.edge.store import data_dir
    from cotenant.serving.settings import SECOND, Settings
    from cotenant.units import parse_bytes, parse_seconds

    def span(name: str) -> int:
        return int(parse_seconds(told[name]) * SECOND)

    keys, theirs, state, port = told["api_keys"], told["engine_keys"], told["state"], int(str(told["port"]))
    return Options(
        host=str(told["host"]),
        port=port,
        state=state if isinstance(state, Path) else data_dir() / "serve" / str(port),
        keys=read_keys(keys) if isinstance(keys, Path) else None,
        engine_keys=read_engine_keys(theirs) if isinstance(theirs, Path) else {},
        anonymous=bool(told["allow_anonymous"]),
        prestart=not told["no_prestart"],
        quiet=bool(told["quiet"]),
        llama_router=bool(told["llama_router"]),
        again=again,
        keys_again=lambda: read_keys(keys) if isinstance(keys, Path) else None,
        limits=Limits(body_bytes=parse_bytes(told["max_body"])),
        settings=Settings(
            patience_ns=span("patience"),
            residency_ns=span("residency"),
            hold_ns=span("hold"),
            deadline_ns=span("deadline"),
            drain_ns=span("drain"),
            idle_ns=span("idle") if told["idle"] is not None else None,
            most_waiting=int(str(told["max_waiting"])),
        ),
    )


def _fleet(plan: str, told: dict[str, object]) -> Fleet:
    """The plan, read or made, as it is served."""
    from cotenant.api.carrying_out import plan_and_requests
    from cotenant.serving.from_plan import fleet_of

    urls, question = told["urls"], told["fleet"]
    with progress(lines=False) as report:  # stderr is the gateway's log: JSON, a line an event
        found, requests, unknown = plan_and_requests(plan, None if question is None else str(question), report)
    if unknown:
        words = f"no priorities, SLOs and hours are known: the fleet within the plan: {unknown} (--fleet FILE)"
        click.echo(one_line(words), err=True)
    given = _pairs(urls if isinstance(urls, tuple) else (), "--url")
    return fleet_of(found, requests, urls=given, priorities=_have_priorities(told["api_keys"]))


def _have_priorities(keys: object) -> bool:
    """Whether clients differ in priority by their keys."""
    from cotenant.edge.gateway.keys import read_keys

    return isinstance(keys, Path) and read_keys(keys).have_priorities


def _pairs(given: tuple[str, ...], option: str) -> dict[str, str]:
    from cotenant.errors import InputError

    found: dict[str, str] = {}
    for text in given:
        name, sign, value = text.partition("=")
        if not sign or not name or not value:
            raise InputError(f"{text[:80]!r} is not NAME=VALUE", path=option)
        found[name] = _address(value) if option == "--url" else value
    return found


def _address(url: str) -> str:
    """An engine's address without its /v1, which requests bring along."""
    from cotenant.edge.engines.calls import address

    return address(url).url.removesuffix("/v1")


def _document(fleet: Fleet, *, routed: bool) -> dict[str, object]:
    from cotenant.catalogue import VERSION
    from cotenant.report.document import header

    return {
        **header("serve", catalogue=VERSION),
        "models": [{"name": one.name, "priority": one.priority} for one in fleet.models],
        "replicas": [
            {
                "id": host.id,
                "model": host.model,
                "engine": f"{launch.engine}@{launch.version}",
                "ours": host.ours,
                "url": launch.url or f"http://127.0.0.1:{launch.port}",
                "slots": host.slots,
                "awake_bytes": host.awake_bytes,
                "asleep_bytes": host.asleep_bytes,
                "can_sleep": host.can_sleep,
                "devices": [fleet.devices.names[one] for one in host.devices],
                "arguments": _arguments(launch, routed=routed) if host.ours else [],
            }
            for host, launch in zip(fleet.hosts, fleet.launches, strict=True)
        ],
        "devices": [
            {"name": name, "bytes": size}
            for name, size in zip(fleet.devices.names, fleet.devices.bytes, strict=True)
        ],
    }


def _arguments(launch: Launch, *, routed: bool) -> list[str]:
    """Its command, or its lines in a router's preset file."""
    from cotenant.edge.engines import find_driver
    from cotenant.edge.engines.llama_router import options_of, section_of
    from cotenant.edge.gateway.routed import RouterHost

    if routed and RouterHost.holds(launch):
        return [f"[{section_of(launch)}]", *options_of(launch)]
    return list(find_driver(launch.engine).command(launch).argv)


def _show(fleet: Fleet, *, routed: bool, as_json: bool) -> None:
    import shlex

    from cotenant.units import format_bytes

    if as_json:
        emit(_document(fleet, routed=routed))
        return
    for name, size in zip(fleet.devices.names, fleet.devices.bytes, strict=True):
        click.echo(f"device {name}: {format_bytes(size)} to give")
    taken = [
        sum(host.awake_bytes for host in fleet.hosts if one in host.devices)
        for one in range(len(fleet.devices.bytes))
    ]
    stays = all(held <= size for held, size in zip(taken, fleet.devices.bytes, strict=True))
    for host, launch in zip(fleet.hosts, fleet.launches, strict=True):
        leaves = "stays" if stays else "sleeps to make room" if host.can_sleep else "is stopped to make room"
        where = f"at {launch.url}" if not host.ours else f"takes {format_bytes(host.awake_bytes)}, {leaves}"
        click.echo(one_line(f"{host.id}: {host.model}, {host.slots} at once, {where}"))
        if host.ours:
            words = _arguments(launch, routed=routed)
            text = "; ".join(words) if words[0].startswith("[") else shlex.join(words)
            click.echo(one_line(f"    {text}"))
