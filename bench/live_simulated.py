"""The mixes of `bench.live_swaps` once more, in the simulator: with times measured on this machine beforehand, the
same requests must cost the same swaps and about the same 95th percentile as they did live.

Measured are, through the gateway and one request after the other: a swap to each model (to leave and to come, by
the gateway's own log), an answer of few and of more tokens, and two such answers at once. From these follow the
step times that the simulator takes; nothing of the mixes themselves goes in. It also says which settings to try.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from bench import live_told
from bench.live_case import Gateway
from bench.live_swaps import NAMES, TOKENS_OUT, Mix, Served, Stays, ask, gateway, p95_of
from bench.live_told import TimedResident, Told
from bench.table import CannotRunError
from cotenant.simulation.costs import FS_PER_S, StepCosts
from cotenant.simulation.kernel import Host, Stream, run
from cotenant.simulation.load import Limits, Requests
from cotenant.simulation.replica import Replica
from cotenant.simulation.residency import Residency, State

SETTINGS: tuple[Stays, ...] = (
    (0.0, 9.0, 0.0),
    *((stay, wait, 0.0) for stay in (1.0, 2.0, 3.0, 20.0) for wait in (0.0, 20.0)),
    *((stay, 3.0, hold) for stay in (0.0, 1.0) for hold in (0.4, 0.5, 0.6, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0, 2.5)),
)
_PROMPT = 32  # tokens, about; only their time counts, which was measured
_ROUNDS, _LONG, _SLOTS, _DRAWS, _TRIES = 6, TOKENS_OUT + 16, 2, 7, 3


@dataclass(frozen=True, slots=True)
class Profile:
    """Seconds of one model: to come up, to be gone, to read a question and write the first token (each time that
    it was measured), and of a step that writes for one and for each further answer at once."""

    wakes: tuple[float, ...]
    sleeps: tuple[float, ...]
    reads: tuple[float, ...]
    step_s: float
    beside_s: float

    @property
    def wake_s(self) -> float:
        """To come up, as a rule."""
        return median(self.wakes)

    @property
    def sleep_s(self) -> float:
        """To be gone, as a rule."""
        return median(self.sleeps)

    @property
    def read_s(self) -> float:
        """To read a question, as a rule."""
        return median(self.reads)

    @property
    def told(self) -> str:
        """In words."""
        swap = f"wake {self.wake_s:.2f}, leave {self.sleep_s:.2f}"
        return f"{swap}, read {self.read_s:.3f}, step {self.step_s:.4f} s"

    @property
    def serve_s(self) -> float:
        """Of an answer as the engine's own time, two at once where that is less for each."""
        alone = self.read_s + (TOKENS_OUT - 1) * self.step_s
        return min(alone, self.read_s + (TOKENS_OUT - 1) * (self.step_s + self.beside_s) / 2)

    @property
    def costs(self) -> StepCosts:
        """The same in the simulator's terms."""
        seconds = (self.step_s - self.beside_s, self.beside_s, 0.0, 0.0, self.read_s / _PROMPT, 0.0)
        base, beside, context, prefill, token, square = (max(0, round(one * FS_PER_S)) for one in seconds)
        return StepCosts.plane(base, beside, context, prefill, token, square)


def profiles(program: Path, files: Sequence[Path]) -> dict[str, Profile]:
    """Measured through the gateway, models by turns."""
    short: dict[str, list[float]] = {name: [] for name in NAMES}
    long: dict[str, list[float]] = {name: [] for name in NAMES}
    both: dict[str, list[float]] = {name: [] for name in NAMES}

    async def measure(port: int) -> None:
        for _ in range(_ROUNDS):
            for name in reversed(NAMES):
                await ask(port, name, Served())  # wakes it
                short[name].append(await ask(port, name, Served()))
                long[name].append(await ask(port, name, Served(), _LONG))
                two = await asyncio.gather(*(ask(port, name, Served(), _LONG) for _ in range(_SLOTS)))
                both[name].append(max(two))

    with gateway(program, files, (0.0, 0.0, 0.0)) as one:
        asyncio.run(measure(one.port))
        wakes, sleeps = changes(one)
    found = {}
    for name in NAMES:
        step = max(0.0, (median(long[name]) - median(short[name])) / (_LONG - TOKENS_OUT))
        reads = [one - (TOKENS_OUT - 1) * step for one in short[name]]
        read = median(reads)
        pair = (median(both[name]) - 2 * read) / (_LONG - 1)  # both questions are read first
        beside = min(step, max(0.0, pair - step))
        found[name] = Profile(tuple(wakes[name]), tuple(sleeps[name]), tuple(reads), step, beside)
    return found


def changes(one: Gateway) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Seconds to come up and to be gone, by model, from the gateway's log."""
    wakes: dict[str, list[float]] = {name: [] for name in NAMES}
    sleeps: dict[str, list[float]] = {name: [] for name in NAMES}
    began: dict[tuple[str, str], float] = {}
    for line in one.logged().splitlines():
        told = json.loads(line)
        event, model, at = told["event"], told.get("model", ""), told["time"]
        began[event, model] = at
        if event == "engine_ready":
            wakes[model].append(at - began["engine_started", model])
        if event == "engine_gone" and ("engine_stops", model) in began:
            sleeps[model].append(at - began["engine_stops", model])
    if not all(wakes.values()) or not all(sleeps.values()):
        raise CannotRunError("the gateway's log tells no swap")
    return wakes, sleeps


def simulated(mix: Mix, measured: Mapping[str, Profile]) -> tuple[int, dict[str, float]]:
    """(swaps, 95th percentile of each model), the median of several simulations whose swaps and questions take
    times drawn from the measured ones."""
    found = [simulate(mix, measured, seed) for seed in range(_DRAWS)]
    p95 = {name: median(each[1][name] for each in found) for name in NAMES}
    return round(median(each[0] for each in found)), p95


def simulate(mix: Mix, measured: Mapping[str, Profile], seed: int) -> tuple[int, dict[str, float]]:
    """(swaps, 95th percentile of each model) of a mix, the first model being awake."""
    rng = random.Random(seed)
    hosts, streams, residents = [], [], []
    for place, name in enumerate(NAMES):
        arrivals = [at for at, model in mix.order if model == name] or [0.0] * mix.count
        one = measured[name]
        # a question that took longer to read is a longer one
        asked = [max(1, round(_PROMPT * read / one.read_s)) for read in rng.choices(one.reads, k=len(arrivals))]
        requests = Requests.of([round(at * 1e9) for at in arrivals], asked, [TOKENS_OUT] * len(arrivals))
        replica = Replica(requests, Limits(_SLOTS, 2048, 16, 256, 1024), one.costs)
        hosts.append(Host(replica, ("box",)))
        streams.append(Stream(requests, (place,), users=mix.users))
        drawn = (rng.choices(times, k=len(arrivals) + 1) for times in (one.wakes, one.sleeps))
        residents.append(TimedResident.of(replica, Told([], *drawn)))
    residents[0].state = State.AWAKE
    residents[0].spells_fs.append([0, 0])
    stay, patience, hold = (round(one * FS_PER_S) for one in mix.settings)
    if mix.users:  # between an answer and the next question a model is idle for a moment, and may go
        patience = min(patience, max(stay, hold))
    run(hosts, streams, residency=Residency(residents, {"box": 1}, patience, stay, hold_fs=hold))
    p95 = {}
    for name, host, stream in zip(NAMES, hosts, streams, strict=True):
        came = stream.came_ns or stream.requests.arrival_ns.tolist()
        ends = host.replica.outcome(0, 0).finish_ns.tolist()
        p95[name] = p95_of([(end - at) / 1e9 for end, at in zip(ends, came, strict=True)])
    return sum(one.wakes for one in residents), p95


def best(mix: Mix, measured: Mapping[str, Profile], limits: Mapping[str, float]) -> Mix:
    """The mix with those settings of `SETTINGS` that cost fewest swaps (of equals the soonest answers) and answer
    each model within its limit (95th percentile, seconds); where none do, those that come nearest.

    Also where a model stays a tenth less or more: requests by the clock fall into step with some stays, and look
    well served until a swap takes a little longer."""
    found, nearest = [], []
    for stay, wait, hold in SETTINGS:
        near = [replace(mix, settings=(stay * share, wait, hold * share)) for share in (0.9, 1.0, 1.1)]
        done = [simulate(each, measured, seed) for each in near for seed in range(_TRIES)]
        late = max(p95[name] / limits[name] for _, p95 in done for name in NAMES)
        nearest.append((late, (stay, wait, hold)))
        if late <= 1:
            found.append((median(count for count, _ in done), late, (stay, wait, hold)))
    return replace(mix, settings=min(found)[2] if found else min(nearest)[1])


def curve(mix: Mix, measured: Mapping[str, Profile]) -> str:
    """Swaps and 95th percentiles over a model's least stay, and over how long a request waits for it to go."""
    parts = []
    for name, place in (("stay", 0), ("hold", 2)):
        for seconds in (0.0, 1.0, 2.0, 3.0):
            settings = (seconds, max(1.0, seconds), 0.0) if place == 0 else (0.0, seconds, seconds)
            count, p95 = simulated(replace(mix, settings=settings), measured)
            parts.append(f"{name} {seconds:g} s: {count} ({', '.join(f'{p95[one]:.1f}' for one in NAMES)} s)")
    return "; ".join(parts)


def against(
    found: Sequence[tuple[Mix, Served, Mapping[str, Profile]]],
) -> tuple[tuple[float, dict[str, object]], tuple[float, dict[str, object]]]:
    """The worst ratio of swaps with each request's and each swap's own time, the worst error of a 95th percentile
    in percent with the times measured just before; with each, the mixes in words."""
    ratios, errors = [1.0], [0.0]
    swaps: dict[str, object] = {}
    times: dict[str, object] = {}
    for mix, live, measured in found:
        count, p95 = simulated(mix, measured)
        told, starts = live_told.read(live.log, live.began)
        again = live_told.replay(told, mix.settings)
        same = live_told.equal_decisions(starts, again)
        swaps[mix.name] = (
            f"{len(again)} simulated, {live.swaps} live, the first {same} one by one; "
            f"{count} with the profile's times"
        )
        ratios.append(len(again) / max(1, live.swaps) if same == live.swaps else 0.0)
        times[mix.name] = "; ".join(
            f"{name} {p95[name]:.2f} s simulated, {live.p95(name):.2f} live ({one.told})"
            for name, one in measured.items()
        )
        errors += [100 * abs(p95[name] / live.p95(name) - 1) for name in NAMES]
    return (max(ratios, key=lambda one: abs(one - 1)), swaps), (max(errors), times)
