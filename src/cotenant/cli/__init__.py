"""The command line: the composition root, one file a command, each loaded only when it is called."""

from __future__ import annotations

import sys


def main() -> None:
    """Run `cotenant`. Exit status: 0 answered and it fits, 1 bad input, 2 usage, 3 does not fit."""
    from cotenant.cli.root import cli
    from cotenant.cli.streams import never_fail_to_encode

    never_fail_to_encode()
    try:
        cli.main(prog_name="cotenant")
    except BrokenPipeError:  # the reader went away (`| head`): not our fault, and nothing to say
        sys.stderr.close()
        raise SystemExit(0) from None
