"""Small random fleets full of ties: a few models, replicas that share cards, requests on top of each other."""

from __future__ import annotations

import numpy as np

from bench.simulation_cases import costs_of
from cotenant.policy.sharing import SLICES, SPATIAL
from cotenant.simulation.fleet import Fleet, Site, merged, simulate
from cotenant.simulation.kernel import Host, Stream, run
from cotenant.simulation.load import Limits, Outcome, Requests
from cotenant.simulation.replica import Replica

Case = tuple[list[Requests], list[Site], list[list[int]], str, int]


def fleet_case(seed: int, most: int = 10) -> Case:
    """Requests of each model, sites, the sites of each model, how requests are sent, what neighbours cost."""
    draw = np.random.default_rng([seed, 7])
    models, cards = int(draw.integers(1, 4)), int(draw.integers(1, 4))
    hosts: list[list[int]] = []
    sites: list[Site] = []
    unit = int(draw.choice([1_000_000, 1_000_000, 300_000, 7_000]))
    for _ in range(models):
        seqs = int(draw.integers(1, 5))
        limits = Limits(
            seqs, seqs + int(draw.integers(0, 8)), int(draw.choice([1, 2, 3, 4])), int(draw.integers(2, 14)),
            int(draw.integers(4, 40)),
        )  # fmt: skip
        costs = costs_of(draw, seed, unit)
        count = int(draw.integers(1, 4))
        hosts.append(list(range(len(sites), len(sites) + count)))
        for _ in range(count):
            width = int(draw.integers(1, cards + 1)) if draw.random() < 0.3 else 1
            sites.append(Site(limits, costs, tuple(sorted(draw.choice(cards, width, replace=False).tolist()))))
    streams = []
    for _ in range(models):
        count = int(draw.integers(0, most))
        arrivals = np.sort(draw.integers(0, int(draw.choice([3, 9, 30, 120])), count))
        streams.append(Requests.of(arrivals, draw.integers(1, 12, count), draw.integers(1, 12, count)))
    return (
        streams, sites, hosts, str(draw.choice(["least_loaded", "round_robin"])),
        int(draw.choice([SLICES, SPATIAL, 0])),
    )  # fmt: skip


def plainly(case: Case, until_ns: int = 2**61) -> list[Outcome]:
    """What the plain kernel says of each site."""
    streams, sites, hosts, dispatch, cross = case
    owner = {site: model for model, own in enumerate(hosts) for site in own}
    found = [
        Host(Replica(streams[owner[number]], site.limits, site.costs), site.cards)
        for number, site in enumerate(sites)
    ]
    run(
        found,
        [Stream(stream, tuple(own), dispatch) for stream, own in zip(streams, hosts, strict=True)],
        cross=cross,
        until_ns=until_ns,
    )
    return [one.replica.outcome(one.busy_fs, one.last_fs) for one in found]


def quickly(case: Case, until_ns: int = 2**61, *, with_numba: bool = True) -> Fleet:
    """What the fast core says."""
    streams, sites, hosts, dispatch, cross = case
    return simulate(
        merged(streams), sites, hosts, dispatch=dispatch, cross=cross, until_ns=until_ns, log=True,
        with_numba=with_numba,
    )  # fmt: skip


def differ(case: Case, until_ns: int = 2**61, *, with_numba: bool = True) -> list[str]:
    """The names of all that is not the same; nothing where the cores agree."""
    slow, quick = plainly(case, until_ns), quickly(case, until_ns, with_numba=with_numba)
    wrong: list[str] = []
    for model, own in enumerate(case[2]):
        listed = np.flatnonzero(quick.table[:, 1] == model)  # a model's requests, in its own numbers
        for site in own:
            one, other = slow[site], quick.outcome(model, [site])
            other.log[:, 3] = np.searchsorted(listed, other.log[:, 3])
            names = ("preemptions", "steps", "busy_ns", "end_ns", "kv_high_water_blocks", "log")
            wrong += [
                f"{name} of {site}"
                for name in names
                if not np.array_equal(getattr(one, name), getattr(other, name))
            ]
        both = quick.outcome(model, own)
        for name in ("status", "first_token_ns", "has_first", "finish_ns"):
            total = sum(
                (getattr(slow[site], name).astype(np.int64) for site in own),
                np.zeros(0, np.int64) if not own else 0,
            )
            if not np.array_equal(total, getattr(both, name).astype(np.int64)):
                wrong.append(f"{name} of model {model}")
    return wrong
