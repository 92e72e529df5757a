"""Files that a command writes beside its answer: into folders that exist, and told on stderr."""

from __future__ import annotations

from pathlib import Path

import click

from cotenant.cli.printable import one_line


def check_outputs(*, folder: Path | None = None, **files: Path | None) -> None:
    """Refuse, before any work is done, what could not be written: a file whose name is empty (a usage error), one
    in a folder that does not exist (InputError: it may be mistyped). Files by their options; `folder` is that of
    ``--out``, which is made where the one above it exists."""
    for option, path in files.items():
        if path is not None and not path.name:
            raise click.BadParameter("the name is empty", param_hint=f"--{option}")
        if path is not None:
            _check_folder(path, f"--{option}")
    if folder is not None:
        _check_folder(folder, "--out")


def _check_folder(path: Path, option: str) -> None:
    from cotenant.errors import InputError

    if not path.parent.is_dir():
        raise InputError(
            f"no folder {path.parent} to put {path.name} into",
            hint=f"mkdir -p {path.parent}, or is it mistyped?",
            path=option,
        )


def write_output(path: Path, text: str) -> None:
    """Whole or not at all. Raises InputError where that fails."""
    from cotenant.edge.store import write_atomic

    write_atomic(path, text.encode())
    tell_written(path)


def tell_written(path: Path) -> None:
    """On stderr, so that stdout stays the answer alone."""
    click.echo(one_line(f"wrote {path}"), err=True)
