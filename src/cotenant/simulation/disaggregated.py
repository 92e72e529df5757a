"""Prefill and decode apart: of each model's replicas some read prompts, the others write (DistServe, OSDI '24).

A prompt is read on the least loaded reader, as on any replica, and its first token comes with it. Its cache then
crosses the link to the least loaded writer, where the answer goes on without reading anything, once a slot and
blocks are free. A writer whose blocks run out computes again by itself. Readers never wait for writers, so all of
them are served first, then all writers. Models with one replica are served as planned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cotenant.domain.conditions import Conditions
from cotenant.domain.fleet import ModelRequest
from cotenant.errors import UnsupportedError
from cotenant.policy.admission import can_serve
from cotenant.simulation.costs import FS_PER_NS, NS_PER_S
from cotenant.simulation.hosting import Hosting
from cotenant.simulation.kernel import Host, Stream, run
from cotenant.simulation.load import Ints, Outcome, Requests, Status
from cotenant.simulation.models import Model
from cotenant.simulation.replica import Replica
from cotenant.simulation.together import kind_of

DISAGGREGATED = "disaggregated"
_READERS = 3 / 8  # of a model's replicas, as Aegaeon shares out sixteen cards


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """What one replica had of its model's requests, for plots: a reader all up to the first token, a writer what
    was handed over, and the first token that it wrote itself. `begun_ns` are the readers' first tokens of those
    handed over; None where a request begins here."""

    requests: Requests
    outcome: Outcome
    begun_ns: Ints | None = None


def readers_of(replicas: int) -> int:
    """How many of a model's replicas read; none where there is one."""
    return min(replicas - 1, max(1, round(replicas * _READERS)))


def check_split(requests: Sequence[ModelRequest], hostings: Sequence[Hosting]) -> None:
    """Raises UnsupportedError where nobody can be split, or split replicas share their cards."""
    places = [[place for place, one in enumerate(hostings) if one.model == each.name] for each in requests]
    split = [(each, mine) for each, mine in zip(requests, places, strict=True) if len(mine) > 1]
    if not split:
        raise UnsupportedError(
            "prefill and decode apart need at least two replicas of a model",
            hint="replicas: {min: 2} asks for them",
        )
    for request, own in split:
        if request.traffic.concurrent is not None:
            raise UnsupportedError(
                f"{request.name}: prefill and decode apart need requests a second or a trace",
                hint="give requests_per_second in place of concurrent",
            )
        for place in own:
            mine = set(hostings[place].cards)
            if any(mine & set(one.cards) for number, one in enumerate(hostings) if number != place):
                raise UnsupportedError(
                    f"{hostings[place].id} shares its card, and prefill and decode apart need cards of their own",
                    hint="sharing: [alone] in the fleet",
                )


def serve(
    model: Model, hosts: list[Host], hostings: Sequence[Hosting], until_ns: int, conditions: Conditions
) -> dict[int, tuple[Outcome, Part]]:
    """Serve a model with several replicas; `hosts` are replaced in their places. By place what became of its
    requests (all parts add up to the whole) and the same for plots."""
    count = readers_of(len(model.hosts))
    reading, writing = model.hosts[:count], model.hosts[count:]
    asked, how = model.work.requests, conditions.dispatch.replace("-", "_")
    served = np.flatnonzero(_fits(asked, [hostings[place] for place in model.hosts]))
    prompts = asked.take(served)
    prompts = replace(prompts, output_tokens=np.ones_like(prompts.output_tokens))
    for place in reading:
        one = hostings[place]
        hosts[place] = Host(kind_of(prompts, one)(prompts, one.limits, one.costs), one.cards)
    readers = [hosts[place] for place in reading]
    run(readers, [Stream(prompts, tuple(range(count)), dispatch=how)], until_ns=until_ns)
    read = [one.replica.outcome(one.busy_fs, one.last_fs) for one in readers]
    answers, which, begun_ns = _handed_over(asked, served, read, hostings[reading[0]])
    writers = _writers(answers, writing, hosts, hostings)
    run(writers, [Stream(answers, tuple(range(len(writers))), dispatch=how)], until_ns=until_ns)
    found: dict[int, tuple[Outcome, Part]] = {}
    for place, outcome in zip(reading, read, strict=True):
        found[place] = _of_reader(asked, served, outcome), Part(prompts, outcome)
    for place, host in zip(writing, writers, strict=True):
        outcome = host.replica.outcome(host.busy_fs, host.last_fs)
        host.replica.copies = None  # they were the readers' caches, not host memory
        found[place] = _of_writer(asked, which, outcome), Part(answers, outcome, begun_ns)
    first = found[reading[0]][0]
    first.status[np.setdiff1d(np.arange(len(asked)), served)] = int(Status.REFUSED)
    return found


def _fits(asked: Requests, hostings: Sequence[Hosting]) -> Any:
    """Whom every replica can serve."""
    limits = [one.limits for one in hostings]
    longest, size = min(one.max_model_len for one in limits), max(one.block_size for one in limits)
    blocks = min(one.num_blocks * one.block_size for one in limits) // size
    lengths = zip(asked.input_tokens.tolist(), asked.output_tokens.tolist(), strict=True)
    return np.array([can_serve(given, written, longest, size, blocks) for given, written in lengths], np.bool_)


def _handed_over(
    asked: Requests, served: Ints, read: Sequence[Outcome], reader: Hosting
) -> tuple[Requests, Ints, Ints]:
    """Those with more than a token to write, in the order in which their caches arrive; which they are, and when
    they had their first token."""
    first = sum((one.first_token_ns for one in read), np.zeros(len(served), np.int64))
    begun = sum((one.status == Status.FINISHED for one in read), np.zeros(len(served), np.int64)) > 0
    going = np.flatnonzero(begun & (asked.output_tokens[served] > 1))
    token_bytes = reader.kv_cache_bytes / (reader.limits.num_blocks * reader.limits.block_size)
    token_fs = round(token_bytes / reader.link_rate * NS_PER_S * FS_PER_NS)
    arrives = first[going] + token_fs * asked.input_tokens[served[going]] // FS_PER_NS
    order = np.argsort(arrives, kind="stable")
    which = served[going[order]]
    answers = Requests(
        arrives[order], asked.input_tokens[which], asked.output_tokens[which], asked.priority[which],
        asked.cancel_ns[which],
    )  # fmt: skip
    return answers, which, first[going[order]]


def _writers(
    answers: Requests, places: Sequence[int], hosts: list[Host], hostings: Sequence[Hosting]
) -> list[Host]:
    for place in places:
        one = hostings[place]
        replica = Replica(answers, one.limits, one.costs)
        replica.expect_caches()
        hosts[place] = Host(replica, one.cards)
    return [hosts[place] for place in places]


def _of_reader(asked: Requests, served: Ints, outcome: Outcome) -> Outcome:
    """First tokens; who wrote no more is finished, who goes on is not."""
    goes_on = (outcome.status == Status.FINISHED) & (asked.output_tokens[served] > 1)
    status = np.where(goes_on, int(Status.UNFINISHED), outcome.status)
    finish = np.where(goes_on, 0, outcome.finish_ns)
    return _spread(replace(outcome, status=status, finish_ns=finish), served, len(asked))


def _of_writer(asked: Requests, which: Ints, outcome: Outcome) -> Outcome:
    """Ends; first tokens are the readers'."""
    silent = replace(
        outcome, first_token_ns=np.zeros_like(outcome.first_token_ns), has_first=np.zeros_like(outcome.has_first)
    )
    return _spread(silent, which, len(asked))


def _spread(outcome: Outcome, which: Ints, count: int) -> Outcome:
    """The outcome of some of `count` requests; nothing became of the others."""

    def whole(values: Any) -> Any:
        found = np.zeros(count, values.dtype)
        found[which] = values
        return found

    return replace(
        outcome, status=whole(outcome.status), first_token_ns=whole(outcome.first_token_ns),
        has_first=whole(outcome.has_first), finish_ns=whole(outcome.finish_ns), log=np.zeros((0, 4), np.int64),
    )  # fmt: skip
