"""Promises kept: plan, replay, tighten what broke, plan again.

A plan holds every SLO by a roofline, each model alone on its cards. A replay knows more: queues, neighbours. So

    1  plan, and replay the declared traffic
    2  who missed its SLO is asked for more: a margin, 1.4 times as large each time
    3  plan again with that, until nobody misses, or no plan is left

With a margin of g, a way that is sized to run p times slower than alone (`candidates.ways_of`, pace p: more cache,
more sequences, more replicas) may stand where the busy shares of its neighbours add up to p / g - 1 at most. So
the search chooses between room to be slowed in and company that slows less; and where even alone is not enough
(g > 1, no neighbour) a model gets what it would need at p = g. Margins never shrink, so the rounds end.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import chain
from math import inf

from cotenant.domain.fleet import Fleet
from cotenant.domain.plan import Plan, PlanRound, Starved
from cotenant.domain.replay import Replay
from cotenant.planning.candidates import all_ways, ways_of
from cotenant.planning.problem import Candidate
from cotenant.planning.scenes import Kept, Replayer, Scene, all_peaks, declared_scenes, kept_by
from cotenant.planning.sleeping import refined, solve_fleet
from cotenant.planning.solve import plan_solved, written
from cotenant.planning.solved import Progress, Solved, forced_of, solve_ways
from cotenant.planning.ways import Ways, undominated
from cotenant.units import format_percent

MOST_ROUNDS = 12
_STEP = 1.4
_PACES = (1.0, 1.5, 2.0, 3.0)  # times a margin: how much slower a way may be sized to run


@dataclass(frozen=True, slots=True)
class _Judged:
    """A plan with what its replays said."""

    plan: Plan
    solved: Solved
    kept: Kept

    @property
    def rank(self) -> tuple[int, float, float]:
        """Small is good: fewer misses, then the worst attainment, then cost."""
        return len(self.kept.missed), -min(self.kept.attainment.values(), default=1.0), self.plan.objective_value


def keep_promises(fleet: Fleet, replayer: Replayer, *, progress: Progress = lambda _: None) -> Plan:
    """The cheapest plan found whose replay holds every SLO at its percentile; else the one that comes nearest,
    with `promises_held` false. `rounds` tell how it came about; the bound is the first round's, which no promise
    lowers.
    """
    progress("sizing candidates")
    solved = solve_fleet(fleet, progress=progress)
    if not solved.feasible:
        return plan_solved(solved, progress=progress)
    fleet = solved.fleet  # models may have been folded
    scenes = declared_scenes(fleet)
    margins: dict[int, float] = {}
    rounds: list[PlanRound] = []
    best: _Judged | None = None
    bound = solved.placement.lower_bound
    current: Solved | None = solved
    while current is not None and len(rounds) < MOST_ROUNDS:
        progress(f"replaying the plan, round {len(rounds) + 1}")
        judged = _judged(current, scenes, replayer)
        best = judged if best is None or judged.rank < best.rank else best
        changes = _tighten(fleet, judged.kept.missed, margins)
        rounds.append(_round(judged, len(rounds) + 1, changes))
        if not judged.kept.missed:
            break
        progress("packing")
        current = _solved_with(fleet, solved, margins)
    return _finished(fleet, best or _judged(solved, scenes, replayer), tuple(rounds), bound, replayer, progress)


def _judged(solved: Solved, scenes: tuple[Scene, ...], replayer: Replayer) -> _Judged:
    plan = written(solved)
    return _Judged(plan, solved, kept_by(plan, scenes, replayer))


def _tighten(fleet: Fleet, missed: tuple[str, ...], margins: dict[int, float]) -> tuple[str, ...]:
    """Larger margins for who missed, and what that means in words."""
    words = []
    for number, request in enumerate(fleet.models):
        if request.name in missed:
            margins[number] = margins[number] * _STEP if number in margins else 1.0
            words.append(f"{request.name}: sized with its neighbours' work x {margins[number]:.3g}")
    return tuple(words)


def _solved_with(fleet: Fleet, first: Solved, margins: Mapping[int, float]) -> Solved | None:
    """The best placement under these margins; None where there is none."""
    ways = tuple(
        _tightened(fleet, number, margins[number]) if number in margins else _patient(each)
        for number, each in enumerate(first.ways)
    )
    solved = refined(solve_ways(fleet, ways, nearest=False, strictly=True), strictly=True)
    if not solved.feasible:
        return None
    return replace(solved, calm=first.calm, fold_saves=first.fold_saves, asked=first.asked)


def _patient(ways: Ways) -> Ways:
    """Whoever has kept its SLO may be slowed."""
    return replace(ways, candidates=tuple(replace(one, slack=inf) for one in ways.candidates))


def _tightened(fleet: Fleet, number: int, margin: float) -> Ways:
    found: list[Candidate] = []
    refusals = all_ways(fleet)[number].refusals
    for pace in (margin * step for step in _PACES):
        for one in ways_of(fleet, number, round(pace, 6)).candidates:
            slack = min(one.slack, pace / margin - 1)
            found.append(replace(one, slack=slack, reason=_paced(one.reason, pace)))
    return Ways(undominated(found), refusals)


def _paced(reason: str, pace: float) -> str:
    return f"{reason}; sized to run {pace:.3g}x slower than alone" if pace > 1 else reason


def _round(judged: _Judged, number: int, changes: tuple[str, ...]) -> PlanRound:
    placement = judged.solved.placement
    return PlanRound(
        number=number,
        cards=len(judged.plan.gpus),
        cost_per_hour=judged.plan.cost_per_hour,
        lower_bound=placement.lower_bound,
        attainment=judged.kept.attainment,
        missed=judged.kept.missed,
        tightened=changes,
        replays=judged.kept.replays,
        requests=judged.kept.requests,
    )


def _finished(
    fleet: Fleet,
    best: _Judged,
    rounds: tuple[PlanRound, ...],
    bound: float,
    replayer: Replayer,
    progress: Progress,
) -> Plan:
    """The chosen round with its reasons, what happens where all peaks come at once, and the gap to the bound."""
    progress("writing down the reasons")
    plan = written(best.solved, forced=forced_of(best.solved))
    scene = all_peaks(fleet)
    progress("replaying all peaks at once")
    starved = starved_in(plan, replayer(plan, scene.models, scene.seconds))
    value = plan.objective_value
    return replace(
        plan,
        lower_bound=bound,
        gap=0.0 if value <= bound + 1e-6 else (value - bound) / value,
        rounds=rounds,
        promises_held=not best.kept.missed,
        starved=starved,
        warnings=(*_told(fleet, best, starved), *plan.warnings),
    )


def starved_in(plan: Plan, replay: Replay) -> tuple[Starved, ...]:
    """Who misses its SLO where all peaks come at once, and which neighbour takes most of the time of its cards, in
    the mean over them."""
    work = {one.id: one.busy / max(one.slowdown, 1.0) for one in replay.replicas}
    model_of = {replica.id: replica.model for replica in plan.replicas}
    found = []
    for one in replay.models:
        if one.slo_held is not False:
            continue
        rivals: dict[str, float] = defaultdict(float)
        present = [
            [share.replica for share in (*gpu.shares, *(sleeper.share for sleeper in gpu.sleepers))]
            for gpu in plan.gpus
        ]
        mine = [names for names in present if one.model in (model_of[name] for name in names)]
        for name in chain.from_iterable(mine):
            if model_of[name] != one.model:
                rivals[model_of[name]] += work.get(name, 0.0) / len(mine)
        worst = max(rivals, key=lambda name: (rivals[name], name), default="")
        found.append(Starved(one.model, one.attainment, worst, rivals.get(worst, 0.0)))
    return tuple(found)


def _told(fleet: Fleet, best: _Judged, starved: tuple[Starved, ...]) -> tuple[str, ...]:
    slo = {request.name: request.slo for request in fleet.models}
    told = []
    for name in best.kept.missed:
        wanted = slo[name]
        asked = f" ({format_percent(wanted.percentile / 100)} asked)" if wanted else ""
        kept = format_percent(best.kept.attainment[name], digits=1)
        told.append(f"{name}: {kept} of its requests keep their SLO{asked}: nothing tried holds it")
    for one in starved:
        if one.model not in best.kept.missed:
            share = format_percent(one.share)
            by = f", {one.neighbour} at work in {share} of its cards' time" if one.neighbour else ""
            told.append(
                f"{one.model}: with all peaks at once {format_percent(one.attainment, digits=1)} of its requests "
                f"keep their SLO{by}"
            )
    return tuple(told)
