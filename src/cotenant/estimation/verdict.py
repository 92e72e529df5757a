"""From needs and limits to a verdict and the sentence that says by how much."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cotenant.domain.estimate import Verdict
from cotenant.domain.interval import Interval
from cotenant.units import format_gib


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that must hold: `need` within `limit`. `what` needs, `where` names the limit."""

    what: str
    need: Interval
    limit: Interval
    where: str
    hint: str = ""

    @property
    def margin(self) -> Interval:
        """What is over; negative where it is short. Errors of the two sides are independent."""
        return self.limit - self.need


_ORDER = {Verdict.DOES_NOT_FIT: 0, Verdict.UNCERTAIN: 1, Verdict.FITS: 2}


def judge(checks: Sequence[Check]) -> tuple[Verdict, str]:
    """(verdict, reason): the worst check decides; of several alike the first, as an engine would meet
    them, or where all hold the one with least to spare."""
    margins = [check.margin for check in checks]
    verdicts = [_verdict(margin) for margin in margins]
    verdict = min(verdicts, key=_ORDER.__getitem__)
    if verdict is Verdict.FITS:
        place = min(range(len(checks)), key=lambda i: margins[i].value)
    else:
        place = verdicts.index(verdict)
    return verdict, _sentence(checks[place], margins[place], verdict)


def _verdict(margin: Interval) -> Verdict:
    if margin.low >= 0:
        return Verdict.FITS
    return Verdict.DOES_NOT_FIT if margin.high < 0 else Verdict.UNCERTAIN


def _sentence(check: Check, margin: Interval, verdict: Verdict) -> str:
    figures = f"{check.what} needs {format_gib(check.need.value)}, {format_gib(check.limit.value)} {check.where}"
    if verdict is Verdict.FITS:
        return f"{figures}: {format_gib(margin.value)} to spare"
    if verdict is Verdict.DOES_NOT_FIT:
        return f"{figures}: {format_gib(-margin.value)} short" + (f"; {check.hint}" if check.hint else "")
    span = f"between {format_gib(-margin.low)} short and {format_gib(margin.high)} to spare"
    return f"{figures}: {span}" + (f"; {check.hint}" if check.hint else "")
