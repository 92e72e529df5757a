"""The table of contents: which commands there are, in the order in which a user meets them."""

from __future__ import annotations

from importlib import import_module

import click

from cotenant._version import __version__

COMMANDS = {
    "plan": "Place several models on GPUs: who runs where, in what precision, with which flags.",
    "simulate": "Replay a plan token by token against its traffic: times, goodput, what holds.",
    "deploy": "Write a plan as files that start it: Compose, Kubernetes, systemd and others.",
    "workload": "What a request trace looks like: lengths, rate, bursts; writes the traffic block.",
    "verify": "Measure a plan on live engines: predicted beside measured, a verdict a line.",
    "serve": "Run a plan: a gateway that starts, swaps and stops its engines as requests need them.",
    "ui": "The page: models, cards and traffic side by side; plan, move, replay, export.",
    "estimate": "What one replica of one model takes of a GPU, byte by byte.",
    "explain": "Where every byte of a running or crashed engine went, from its log.",
    "inspect": "What a model is made of: parameters, weights, KV cache a token.",
    "quantize": "Which precision for a model on a card: fast kernels, quality, checkpoints.",
    "models": "List the models of the catalogue.",
    "gpus": "List the cards of the catalogue.",
    "schema": "Print the JSON Schema of the fleet file, for editors.",
    "completion": "Print the shell completion script.",
}


class LazyGroup(click.Group):
    """A group that imports a command's file only when that command is run."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands in reading order."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, from `cotenant.cli.NAME`."""
        if cmd_name not in COMMANDS:
            return None
        command = import_module(f"cotenant.cli.{cmd_name}").command
        if not isinstance(command, click.Command):
            raise TypeError(f"cotenant.cli.{cmd_name}.command is not a command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does it; for a word that is no command the nearest one is named, or all of them."""
        word = args[0] if args else ""
        if word and not word.startswith("-") and word not in COMMANDS and not ctx.resilient_parsing:
            from difflib import get_close_matches

            close = get_close_matches(word.lower(), COMMANDS, n=1)
            meant = f"Did you mean {close[0]!r}?" if close else f"There are {', '.join(COMMANDS)}."
            ctx.fail(f"No such command {word[:60]!r}. {meant}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing any of them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, "-V", "--version", prog_name="cotenant")
def cli() -> None:
    """Cotenant plans, proves and runs many LLMs on few GPUs.

    Start with `cotenant plan examples/a100-trio.yaml`, or ask about one model:
    `cotenant estimate meta-llama/Llama-3.1-8B-Instruct --gpu A100-80GB-SXM --max-model-len 8192`.
    """
