"""`cotenant completion`: the script that teaches a shell our commands and options."""

from __future__ import annotations

import click

from cotenant.cli.output import FITS, emit, json_option, reports_errors


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@json_option
@reports_errors
def command(shell: str, as_json: bool) -> int:
    """Print the completion script: `cotenant completion bash >> ~/.bashrc` (or zsh, fish)."""
    from click.shell_completion import get_completion_class

    from cotenant.cli.root import cli

    script = get_completion_class(shell)
    if script is None:
        raise click.UsageError(f"no completion for {shell}")
    source = script(cli, {}, "cotenant", "_COTENANT_COMPLETE").source()
    if as_json:
        emit({"shell": shell, "script": source})
    else:
        click.echo(source)
    return FITS
