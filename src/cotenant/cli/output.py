"""Data to stdout, the rest to stderr; errors in one line with a hint; the exit status of the contract."""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ParamSpec

import click

from cotenant.cli.printable import lines, one_line
from cotenant.errors import CotenantError

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

P = ParamSpec("P")

FITS, BAD_INPUT, DOES_NOT_FIT = 0, 1, 3
INTERRUPTED = 130  # what shells expect after Ctrl-C: 128 + SIGINT
PLAIN_WIDTH = 100  # columns where the output is not a terminal


def json_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--json`: the answer as one JSON document on stdout."""
    return click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON on stdout.")(function)


def calibration_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--no-calibration`: estimates as the rules alone give them."""
    return click.option(
        "--no-calibration", "calibration", is_flag=True, flag_value=False, default=True,
        help="Leave out what was measured (cotenant verify, explain --save).",
    )(function)  # fmt: skip


def aiconfigurator_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--no-aiconfigurator`: step times as our roofline alone gives them."""
    return click.option(
        "--no-aiconfigurator", "aiconfigurator", is_flag=True, flag_value=False, default=True,
        help="Leave out AIConfigurator's step times, where it is installed.",
    )(function)  # fmt: skip


def reports_errors(function: Callable[P, int | None]) -> Callable[P, None]:
    """Turn a command that returns its exit status into one that also reports refusals as the contract says."""

    @functools.wraps(function)
    def command(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            status = function(*args, **kwargs)
        except CotenantError as error:
            report_error(error, as_json=bool(kwargs.get("as_json")))
            status = BAD_INPUT
        except BrokenPipeError:
            status = _reader_went_away()
        except KeyboardInterrupt:
            click.echo("\ninterrupted", err=True)
            status = INTERRUPTED
        except OSError as error:
            status = _not_written(error)
        try:
            sys.stdout.flush()
        except BrokenPipeError:
            status = _reader_went_away()
        except OSError as error:
            status = _not_written(error)
        raise SystemExit(status or 0)

    return command


def _reader_went_away() -> int:
    """`| head` closed the pipe: nobody is left to tell, nothing went wrong, and what is buffered is dropped."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return FITS


def _not_written(error: OSError) -> int:
    """A full disk and its like: readers turn what they meet into refusals, so this is where the answer went."""
    _reader_went_away()
    report_error(CotenantError(f"the answer could not be written: {error.strerror or error}"), as_json=False)
    return BAD_INPUT


def report_error(error: CotenantError, *, as_json: bool) -> None:
    """Every fault with its path and hint: JSON on stdout, or text on stderr."""
    if as_json:
        from cotenant.report.document import error_document

        emit(error_document(error))
        return
    colour = False if os.environ.get("NO_COLOR") else None  # None: on a terminal only
    for fault in error.faults():
        where = f"{fault.path}: " if fault.path and fault.path not in fault.message else ""
        click.secho("error: ", fg="red", bold=True, nl=False, err=True, color=colour)
        click.echo(one_line(f"{where}{fault.message}"), err=True)
        if fault.hint:
            click.secho("hint: ", fg="cyan", bold=True, nl=False, err=True, color=colour)
            click.echo(one_line(fault.hint), err=True)


def emit(document: object) -> None:
    """One JSON document on stdout, in ASCII where stdout cannot write all of its characters."""
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(document, indent=2, allow_nan=False)
    click.echo(text)


def console() -> Console:
    """Where text answers are written: stdout, as wide as the terminal, NO_COLOR respected."""
    from rich.console import Console

    class Stdout(Console):
        """A console that leaves a closed pipe to the command, and obeys nothing that stands in a name."""

        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

        def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
            for part in super().render(renderable, options):
                known = part.control is not None or part.text.isprintable() or part.text == "\n"
                yield part if known else part._replace(text=lines(part.text))

    width = None if sys.stdout.isatty() or "COLUMNS" in os.environ else PLAIN_WIDTH
    return Stdout(width=width, highlight=False, soft_wrap=False, emoji=False, markup=False)
