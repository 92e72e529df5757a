"""What decides among placements of the least cost: headroom, quality and tidiness, each settled in its turn.

Headroom is the least share left free over the used cards: the highest threshold for which patterns that keep it
still make a placement of that cost, found by bisection over the patterns' own headrooms. Quality adds up the
ranks of the chosen precisions in the decision matrix; tidiness is the number of ranks and of stages, then GiB.

A model is not spread over more cards for a little headroom: where fewer ranks keep all but `A_LITTLE` of the card
and the same quality, they are taken, and headroom is settled once more among those.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from cotenant.planning.listing import list_patterns
from cotenant.planning.partition import Limit, Partition, Solution
from cotenant.planning.patterns import Keep
from cotenant.planning.problem import A_LITTLE, contention_holds, loading_holds, untidiness
from cotenant.planning.relaxation import Prices
from cotenant.planning.seating import Seated, Space
from cotenant.planning.sites import Pattern, pattern_of

_TOLERANCE = 1e-6
_HEADROOM_TOLERANCE = 1e-4  # a smaller share of a card is not worth a worse precision
_MOST_PATTERNS = 3_000  # a dozen programs are solved over them


@dataclass(slots=True)
class Ties:
    """Settles objectives one by one from `best`, of cost `cost`, in `space`, whose seats hold every option.

    `prices` say which patterns that cost allows. Where they are too many to list, cards and company stay as they
    are and precisions are `polished`. A step whose patterns are too many to list, or whose program
    finds nothing within its work limit, leaves what the step before found.
    """

    space: Space
    prices: Prices
    cost: float
    best: Seated
    _least: float = 0.0
    _keep: Keep = "smallest"
    _limits: list[Limit] = field(default_factory=list)

    def __post_init__(self) -> None:
        sites = self.space.sites
        self._limits.append(Limit(lambda one: sites[one.site].weight, lambda _: 0.0, self.cost + _TOLERANCE))

    def settle(self, order: Sequence[str]) -> Seated:
        """The best placement in `order`, then in tidiness."""
        if not self._list(self._least):
            return polished(self.space, self.best, order)
        for name in order:
            if name == "headroom":
                self._settle_headroom()
            elif name == "quality":
                self._settle_quality()
        if "headroom" in order:
            self._settle_ranks()
        self._settle_tidiness()
        return self.best

    def _settle_ranks(self) -> None:
        """Fewer ranks for a little less headroom, where there are such."""
        before, least = ranks_of(self.space, self.best), self._least
        self._least = max(0.0, least - A_LITTLE)
        known, settled = self.best, len(self._limits)
        self._settle_total(_ranks_limit(self.space))
        if ranks_of(self.space, self.best) < before - _TOLERANCE:
            self._settle_headroom()
        else:
            self.best, self._least = known, least
            del self._limits[settled:]

    def _settle_headroom(self) -> None:
        low = _least_of(self.best)
        patterns = self._list(low, "all" if self._keep == "best" else None)
        steps = sorted({one.headroom for one in patterns if one.headroom > low + _TOLERANCE})
        first, last = 0, len(steps)  # steps[:first] can be kept, steps[last:] cannot
        gained = True  # then the next step of all is asked first: mostly there is none, and one program says so
        while first < last:
            middle = first if gained else (first + last) // 2
            least = steps[middle]
            kept = (
                self._list(least) if self._keep == "best" else [one for one in patterns if one.headroom >= least]
            )
            found = Partition(self.space).minimise(kept, weigh=lambda _: 0.0, limits=self._limits)
            if found is None:
                last = middle
            else:
                self.best, low = found.seated, _least_of(found.seated)
                first = max(middle + 1, sum(step <= low + _TOLERANCE for step in steps))
            gained = found is not None and not gained
        self._least = low - _HEADROOM_TOLERANCE

    def _settle_quality(self) -> None:
        self._keep = "best"

        def rank(seat: int) -> float:
            mine = self.space.seats[seat]
            return float(self.space.problem.candidates[mine.request][mine.options[0]].quality_rank)

        self._settle_total(Limit(lambda one: float(one.quality), rank, 0.0))

    def _settle_tidiness(self) -> None:
        self._settle_total(_ranks_limit(self.space, 1e-6))

    def _settle_total(self, total: Limit) -> None:
        found: Solution | None = Partition(self.space).minimise(
            self._list(self._least), weigh=total.weigh, weigh_seat=total.weigh_seat, limits=self._limits
        )
        if found is not None:
            self.best = found.seated
            self._limits.append(Limit(total.weigh, total.weigh_seat, found.value + _TOLERANCE))

    def _list(self, least: float, keep: Keep | None = None) -> tuple[Pattern, ...]:
        listing = list_patterns(self.space, self.prices, self.cost, least_headroom=least, keep=keep or self._keep)
        return listing.patterns if listing.complete and len(listing.patterns) <= _MOST_PATTERNS else ()


def _ranks_limit(space: Space, a_gib: float = 0.0) -> Limit:
    """Ranks with their stages, and `a_gib` of one for each GiB that they claim."""

    def one(request: int, option: int) -> float:
        return untidiness(space.problem.candidates[request][option], a_gib)

    def card(pattern: Pattern) -> float:
        single = [(space.seats[seat], option) for seat, option in zip(pattern.seats, pattern.options, strict=True)]
        return sum(one(seat.request, option) for seat, option in single if seat.ranks == 1)

    def several(seat: int) -> float:
        mine = space.seats[seat]
        return one(mine.request, mine.options[0])

    return Limit(card, several, 0.0)


def ranks_of(space: Space, seated: Seated) -> float:
    """All ranks of a placement, with what their stages count."""
    limit = _ranks_limit(space)
    several = {seat for _, one in seated for seat in one.seats if space.seats[seat].ranks > 1}
    return sum(limit.weigh(one) for _, one in seated) + sum(map(limit.weigh_seat, sorted(several)))


def polished(space: Space, seated: Seated, order: Sequence[str]) -> Seated:
    """Card by card, better precisions for models of one rank where room and company allow; cards and company stay.

    No card falls below the least headroom of all, unless quality goes before headroom in `order`.
    """
    names = [*order, "headroom"]
    first = "quality" in names and names.index("quality") < names.index("headroom")
    least = 0.0 if first else _least_of(seated) - _HEADROOM_TOLERANCE
    found = []
    for card, pattern in seated:
        one = _polished_card(space, pattern, least) if "quality" in order else pattern
        found.append((card, one))
    return found


def _polished_card(space: Space, pattern: Pattern, least: float) -> Pattern:
    """The largest gain in quality first, as long as one fits."""
    while True:
        best = pattern
        for place, seat in enumerate(pattern.seats):
            mine = space.seats[seat]
            for option in mine.options if mine.ranks == 1 else ():
                options = (*pattern.options[:place], option, *pattern.options[place + 1 :])
                chosen = tuple(
                    (space.seats[each], each, pick) for each, pick in zip(pattern.seats, options, strict=True)
                )
                other = pattern_of(space.problem, space.sites, pattern.site, chosen)
                picks = tuple(space.problem.candidates[each.request][pick] for each, _, pick in chosen)
                if other.headroom < least or (space.problem.contention and not contention_holds(picks)):
                    continue
                if not loading_holds(picks, space.sites[pattern.site].load_bytes):
                    continue
                if (other.quality, other.claim_bytes) < (best.quality, best.claim_bytes):
                    best = other
        if best is pattern:
            return pattern
        pattern = best


def _least_of(seated: Seated) -> float:
    return min((pattern.headroom for _, pattern in seated), default=0.0)
