"""`cotenant completion`: the script that teaches a shell our commands and options."""

from __future__ import annotations

import click


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the completion script: `cotenant completion bash >> ~/.bashrc` (or zsh, fish)."""
    from click.shell_completion import get_completion_class

    from cotenant.cli.root import cli

    script = get_completion_class(shell)
    if script is None:
        raise click.UsageError(f"no completion for {shell}")
    click.echo(script(cli, {}, "cotenant", "_COTENANT_COMPLETE").source())
