"""Types of option values: read as the engine that owns the option reads them."""

from __future__ import annotations

import re

import click

_SUFFIXES = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_NUMBER = re.compile(r"(-?[0-9]{1,18})(\.[0-9]{1,9})?([kKmMgGtT]?)")


class EngineInt(click.ParamType):  # type: ignore[type-arg] # generic only from click 8.3 on
    """A whole number as vLLM reads one: ``8k`` is 8,000, ``8K`` 8,192; only small letters take a fraction.

    Source: vLLM, engine/arg_utils.py, human_readable_int.
    """

    name = "integer"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number; a usage error for anything else."""
        if isinstance(value, int):
            return value
        match = _NUMBER.fullmatch(str(value).strip())
        if match is None:
            self.fail(
                f"{str(value)[:40]!r} is not a whole number such as 8192, 8k (8,000) or 8K (8,192).", param, ctx
            )
        whole, fraction, suffix = match.groups()
        if fraction and suffix not in tuple("kmgt"):
            self.fail(f"{value!r}: a fraction goes with k, m, g or t only.", param, ctx)
        number = float(whole + fraction) if fraction else int(whole)
        return round(number * _SUFFIXES.get(suffix, 1))


class Share(click.ParamType):  # type: ignore[type-arg]
    """A fraction as engines take it: 0.9."""

    name = "fraction"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number; a usage error for text that is none."""
        try:
            return float(str(value))
        except ValueError:
            self.fail(f"{str(value)[:40]!r} is not a fraction such as 0.9.", param, ctx)


class Seed(click.IntRange):
    """Any whole number that 63 bits hold; the help says no more than that it is a number."""

    name = "N"

    def __init__(self) -> None:
        super().__init__(0, 2**63 - 1)

    def _describe_range(self) -> str:
        return ""


ENGINE_INT, SHARE, SEED = EngineInt(), Share(), Seed()
