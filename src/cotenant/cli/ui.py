"""`cotenant ui`: the page to think with."""

from __future__ import annotations

from pathlib import Path

import click

from cotenant.cli.output import emit, json_option, reports_errors
from cotenant.cli.printable import one_line


@click.command("ui")
@click.argument("file", metavar="[FLEET|PLAN]", required=False, type=click.Path(path_type=Path))
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="Where to listen; others can reach all but loopback."
)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8090, show_default=True, help="0: any that is free."
)
@click.option("--open", "opens_browser", is_flag=True, help="Open the page in a browser.")
@click.option("--gateway", metavar="URL", help="A `cotenant serve` gateway, for the live tab.")
@click.option(
    "--name", "names", multiple=True, metavar="HOST", help="Another name of this server, behind a proxy."
)
@click.option(
    "--workers", type=click.IntRange(1, 64), default=2, show_default=True, help="Plans and replays at once."
)
@click.option(
    "--job-memory", default="4GiB", show_default=True, metavar="BYTES", help="The most that each may take."
)
@click.option(
    "--job-time", default="600s", show_default=True, metavar="TIME", help="The longest that each may take."
)
@click.option("--dry-run", is_flag=True, help="Say where it would be served; start nothing.")
@json_option
@reports_errors
def command(
    file: Path | None,
    host: str,
    port: int,
    opens_browser: bool,
    gateway: str | None,
    names: tuple[str, ...],
    workers: int,
    job_memory: str,
    job_time: str,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Serve the page: models, cards and traffic side by side, planned, moved, replayed and exported.

    The address is printed on stderr (with --json on stdout). Its answers are those of the commands, byte for byte.
    It opens with the FLEET, solved, or the PLAN as it is: an example where none is named.
    A page asks for catalogue names, hub ids and uploads; it can name no file of this machine. SIGTERM ends it.
    """
    from cotenant.errors import InputError
    from cotenant.units import parse_bytes, parse_seconds

    try:
        from cotenant.web.jobs import Bounds
        from cotenant.web.own_file import opened_file
        from cotenant.web.run import address, run
        from cotenant.web.state import Options
    except ImportError as error:
        raise InputError(f"the page needs {error.name}", hint="pip install '.[ui]' in the clone") from None
    bounds = Bounds(workers=workers, job_bytes=parse_bytes(job_memory), job_s=parse_seconds(job_time))

    opens = None if file is None else opened_file(file)
    options = Options(host=host, port=port, gateway=gateway, names=names, bounds=bounds, opens=opens, warm=True)

    def ready(url: str) -> None:
        _tell(url, gateway, as_json=as_json)
        if opens_browser:
            click.launch(f"{url}/")

    if dry_run:
        _tell(address(options, port), gateway, as_json=as_json)
        return 0
    return run(options, ready=ready)


def _tell(url: str, gateway: str | None, *, as_json: bool) -> None:
    if as_json:
        from cotenant.catalogue import VERSION
        from cotenant.report.document import header

        emit({**header("ui", catalogue=VERSION), "url": url, "gateway": gateway})
    else:
        live = f", the gateway {gateway} in its live tab" if gateway else ""
        click.echo(one_line(f"the page is at {url}/{live}"), err=True)
