"""The questions that a worker process answers, each as a function: a plan, a replay, an estimate, a check.

Each takes what a request said and what it calls models, and returns the bytes of the command line's `--json`.
"""

from __future__ import annotations

import json
import pickle
from base64 import b64encode
from collections import OrderedDict
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from cotenant.domain.loaded import LoadedModel
from cotenant.errors import InputError
from cotenant.web.documents import written
from cotenant.web.names import checked_fleet, no_trace, opener
from cotenant.web.stamp import own_stamp

if TYPE_CHECKING:
    from cotenant.domain.fleet import Fleet
    from cotenant.domain.plan import Plan

Known = Mapping[str, LoadedModel]
CONDITIONS = ("timeout", "fail", "residency", "hold", "dispatch", "preempt")
Tell = Callable[[Mapping[str, Any]], None]
"""Told what is being done: `message`, and what is known by then (`cost`, `bound`, `gap`, and whether they are
`priced`, in dollars an hour, or count cards)."""


def plan_job(asked: Mapping[str, Any], known: Known, tell: Tell) -> bytes:
    """`asked`: fleet (mapping or text), seed, replay, why, time_limit. As `cotenant plan FLEET --json`."""
    from cotenant import api
    from cotenant.catalogue import VERSION
    from cotenant.report.document import plan_document

    fleet = open_fleet(asked["fleet"], known)
    if asked.get("time_limit") is None:
        first_look(fleet, tell)
    found = api.plan(
        fleet, seed=asked.get("seed") or 0, replay=bool(asked.get("replay")), why=bool(asked.get("why")),
        time_limit=asked.get("time_limit"), progress=lambda words: tell({"message": words}),
    )  # fmt: skip
    figures = {"cost": found.objective_value, "bound": found.lower_bound, "gap": found.gap}
    tell({"message": "planned", **figures, "priced": found.cost_per_hour is not None})
    return written(plan_document(found, catalogue=VERSION))


def first_look(fleet: Fleet, tell: Tell) -> None:
    """Tell what the greedy plan costs and what any must cost, before the search begins: the search reuses what is
    sized here. Nothing is told where not all models have a place in it."""
    from cotenant.edge.known import known
    from cotenant.planning.candidates import all_ways
    from cotenant.planning.greedy import place_greedily
    from cotenant.planning.resource_bound import resource_bound
    from cotenant.planning.solved import problem_of

    tell({"message": "sizing candidates"})
    with known():
        ways = [each.candidates for each in all_ways(fleet)]
    if not all(ways):
        return
    problem = problem_of(fleet, ways)
    greedy, bound = place_greedily(problem), resource_bound(problem)
    value = greedy.objective_value
    if len(greedy.placed) == len(fleet.models) and value > 0:
        bound = min(bound, value)
        figures = {"cost": value, "bound": bound, "gap": (value - bound) / value, "priced": problem.priced}
        tell({"message": "a first plan is known", **figures})


def simulate_job(asked: Mapping[str, Any], known: Known, tell: Tell) -> bytes:
    """`asked`: plan (a document) or fleet, policy, seed, duration, arrivals, patience; conditions: timeout,
    fail, residency, hold, dispatch, preempt. As `cotenant simulate`."""
    from cotenant import api
    from cotenant.catalogue import VERSION
    from cotenant.report.replay_document import replay_document
    from cotenant.simulation.conditions import conditions_of

    said = {name: asked[name] for name in CONDITIONS if asked.get(name) is not None}
    conditions = conditions_of(**said)
    found, question = opened(asked, known)
    replay = api.simulate(
        question if found is None else (found, question),  # type: ignore[arg-type] # not for others to rely on
        policy=asked.get("policy") or "static", seed=asked.get("seed") or 0, duration=asked.get("duration"),
        arrivals=asked.get("arrivals"), patience=asked.get("patience") or "10s",
        conditions=conditions,
        progress=lambda words: tell({"message": words}),
    )  # fmt: skip
    return written(replay_document(replay, catalogue=VERSION))


def explain_job(asked: Mapping[str, Any], known: Known, tell: Tell) -> bytes:
    """`asked`: log (its text), model, gpu. As `cotenant explain LOG --json`."""
    from cotenant import api
    from cotenant.catalogue import VERSION
    from cotenant.report.explain_document import explain_document

    text, model = asked["log"], asked.get("model")
    found = api.explain(
        text if "\n" in text else text + "\n",  # a line alone would be a file's name
        model=None if model is None else opener(known)(model),
        gpu=asked.get("gpu"),
        progress=lambda words: tell({"message": words}),
    )
    return written(explain_document(found, catalogue=VERSION))


def estimate_job(asked: Mapping[str, Any], known: Known, tell: Tell) -> bytes:
    """`asked`: the keyword arguments of `cotenant.estimate`. As `cotenant estimate --json`."""
    from cotenant.web.estimates import estimate_bytes

    return estimate_bytes(asked, opener(known)(asked["model"]))


def ready_job(asked: Mapping[str, Any], known: Known, tell: Tell) -> bytes:
    """Read what the first estimate of every process reads: the catalogue, an engine's rules, numpy."""
    from cotenant.catalogue.models import all_entries

    words = {"gpu": "A100-80GB-SXM", "concurrent": 8, "context_tokens": {"p50": 700, "p95": 2048}}
    return estimate_job({"model": all_entries()[0].id, **words}, known, tell)


def check_job(asked: Mapping[str, Any], known: Known, tell: Tell) -> bytes:
    """`asked`: plan, fleet (the plan's own where there is none), move. The document of `/api/check`."""
    from cotenant.web.checks import checked_document

    source = asked.get("fleet") or asked["plan"].get("fleet")
    if not isinstance(source, (Mapping, str)):
        raise InputError("the plan does not hold the fleet that it was made for", path="$.plan.fleet")
    fleet = _FLEETS.opened(source, known)
    return written(checked_document(plan_of(asked["plan"], fleet), fleet, asked.get("move"), asked=asked))


def upload_job(asked: Mapping[str, Any], known: Known, tell: Tell) -> bytes:
    """`asked`: id, config or gguf, size_bytes, name. `{model, answer}`: the model packed for `Shelf.add`, in
    base64, and what `/api/models` answers."""
    from cotenant.web.shelf import described, packed, read_upload

    loaded = read_upload(asked)
    model = b64encode(packed(loaded)).decode()
    return written({"model": model, "answer": described(loaded, asked["id"])})


def deploy_job(asked: Mapping[str, Any], known: Known, tell: Tell) -> bytes:
    """`asked`: plan, target. As `cotenant deploy PLAN --to TARGET --json`."""
    from cotenant.web.checks import deployed

    return deployed(asked["plan"], asked["target"])


def catalogue_job(asked: Mapping[str, Any], known: Known, tell: Tell) -> bytes:
    """What the page offers: opening every model takes a second."""
    from cotenant.web.catalogue import catalogue_bytes

    return catalogue_bytes()


JOBS: Mapping[str, Callable[[Mapping[str, Any], Known, Tell], bytes]] = {
    "plan": plan_job,
    "simulate": simulate_job,
    "explain": explain_job,
    "check": check_job,
    "deploy": deploy_job,
    "upload": upload_job,
    "catalogue": catalogue_job,
    "estimate": estimate_job,
    "ready": ready_job,
}


class _Fleets:
    """Fleets that this process has read: one that is moved about is asked about again and again."""

    def __init__(self, most: int = 16) -> None:
        self._most = most
        self._kept: OrderedDict[bytes, Fleet] = OrderedDict()

    def opened(self, source: Mapping[str, Any] | str, known: Known) -> Fleet:
        """As `open_fleet`, read once as long as nothing changes in the user's own folders."""
        key = sha256(pickle.dumps((json.dumps(source), dict(known), own_stamp()))).digest()
        if key not in self._kept:
            self._kept[key] = open_fleet(source, known)
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return self._kept[key]


_FLEETS = _Fleets()


def open_fleet(source: object, known: Known) -> Fleet:
    """A fleet from a mapping or the text of a fleet file. Raises InputErrors with every fault."""
    from cotenant.edge.own_gpus import own_gpus
    from cotenant.readers.fleet import fleet_from, read_fleet
    from cotenant.readers.yaml_text import read_document

    load = opener(known)
    if isinstance(source, str):
        checked_fleet(read_document(source, path="the fleet").value)
        return read_fleet(source, load_model=load, load_trace=no_trace, path="the fleet", extra=own_gpus())
    if not isinstance(source, Mapping):
        raise InputError("a fleet is a mapping, or the text of a fleet file", path="$.fleet")
    checked_fleet(source)
    return fleet_from(source, load_model=load, load_trace=no_trace, extra=own_gpus())


def opened(asked: Mapping[str, Any], known: Known) -> tuple[Plan | None, Fleet]:
    """What was asked about: a plan with the fleet that it was made for, or a fleet alone."""
    from cotenant.edge.plans import plan_and_fleet

    document, source = asked.get("plan"), asked.get("fleet")
    if document is None:
        return None, open_fleet(source, known)
    if source is not None:
        fleet = open_fleet(source, known)
        return plan_of(document, fleet), fleet
    checked_plan(document)
    both = plan_and_fleet(document, load_model=opener(known), load_trace=no_trace)
    if both is None:
        raise InputError("this is no plan", hint="the document that /api/plan answers with", path="$.plan")
    return both


def plan_of(document: Mapping[str, Any], fleet: Fleet) -> Plan:
    """A plan's document beside a fleet that is not, or no longer, the one that it was made for. Raises InputErrors
    where it runs what the fleet does not ask for."""
    from cotenant.edge.plans import beside_bytes
    from cotenant.planning.adopted import adopted
    from cotenant.readers.plan_document import read_plan

    return adopted(read_plan(document), fleet, beside_bytes(document))


def checked_plan(document: object) -> None:
    """Raise InputErrors for paths in a plan's fleet."""
    if isinstance(document, Mapping):
        checked_fleet(document.get("fleet"))
