"""The error tree. Every error that Cotenant raises on purpose stands here.

    CotenantError                 anything that we refuse; `hint` says what to try, `path` where it stands
    ├── InputError                the input is wrong (exit status 1)
    │   ├── InputErrors           several faults of one input, found at once
    │   ├── UnknownModelError     no such model in the catalogue, on the hub or on disk
    │   ├── UnknownArchitectureError  a model whose structure we have no rules for
    │   ├── UnknownGpuError       no such card in the catalogue
    │   ├── UnknownEngineError    no such engine, or a version that no rule covers
    │   ├── UnsupportedError      known, but this combination cannot run
    │   ├── FormatError           a file that is not what it should be (truncated, hostile, HTML, pickle)
    │   └── HubError              the hub refused: gated, renamed, rate-limited, offline
    ├── EngineError               a running engine did not answer, or not do what it was asked
    ├── SolverError               the solver broke (never: "no plan fits", which is an answer)
    └── CheckError                a plan failed its independent check: a fault of ours

A replica that does not fit is not an error: it is an answer, with exit status 3.
"""

from __future__ import annotations

from collections.abc import Iterable


class CotenantError(Exception):
    """A refusal in one line, with a hint and the path of the value that caused it.

    `path` is a JSON path such as ``$.models[2].slo.ttft``, or empty.
    """

    def __init__(self, message: str, *, hint: str = "", path: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.path = path

    def faults(self) -> tuple[CotenantError, ...]:
        """The single refusals that this error stands for: itself, unless it collects several."""
        return (self,)


class InputError(CotenantError):
    """What the user gave cannot be used."""


class InputErrors(InputError):  # noqa: N818 - it is several
    """Several faults of one input. `errors` is never empty and keeps the order of the input."""

    def __init__(self, errors: Iterable[CotenantError]) -> None:
        self.errors = tuple(errors)
        count = len(self.errors)
        super().__init__(self.errors[0].message if count == 1 else f"{count} faults in the input")

    def faults(self) -> tuple[CotenantError, ...]:
        """Every fault, flattened."""
        return tuple(fault for error in self.errors for fault in error.faults())


class UnknownModelError(InputError):
    """No model of that name is known, here or on the hub."""


class UnknownArchitectureError(InputError):
    """The model's structure has no rules here; it is refused by name rather than guessed."""


class UnknownGpuError(InputError):
    """No card of that name is known."""


class UnknownEngineError(InputError):
    """No engine of that name is known, or no rule covers that version."""


class UnsupportedError(InputError):
    """Each part is known, but the combination cannot run."""


class FormatError(InputError):
    """A file is not what it claims to be, or claims absurd sizes."""


class HubError(InputError):
    """The model hub could not or would not answer."""


class EngineError(CotenantError):
    """A running engine did not answer, or not do what it was asked."""


class SolverError(CotenantError):
    """The optimiser failed for a reason of its own."""


class CheckError(CotenantError):
    """A plan did not survive the independent check; it is never shown as a plan."""
