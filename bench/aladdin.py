"""Fewer GPUs by sizing for the SLO: Aladdin's "up to 71 % fewer" (arXiv 2405.06856), asked again as far as told.

Llama-2 7B, 13B and 70B on A100-80GB with requests of ShareGPT's lengths (the columns of Aegaeon's workloads,
Apache-2.0), one rate for each of the three. Beside ours the usual sizing: a replica is the smallest group of cards
that holds 16 sequences of full context, and there are so many that no more than those 16 are ever in flight. What
"default vLLM" was in the published figure (size of a worker, routing) is not told, so the saving is reported and
not held against it.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

from cotenant import load_fleet
from cotenant.domain.demand import Demand
from cotenant.domain.engine import EngineSettings
from cotenant.domain.fleet import Fleet, ModelRequest
from cotenant.engines import find_engine
from cotenant.estimation.demand import demand
from cotenant.estimation.sizing import reserved_bytes
from cotenant.estimation.step_time import roofline
from cotenant.planning.launch import served_as
from cotenant.planning.naive import SLOTS, usual_settings
from cotenant.planning.sleeping import solve_fleet

RATES = (1.0, 5.0, 25.0)
_MODELS = {
    "7b": "meta-llama/Llama-2-7b-chat-hf",
    "13b": "meta-llama/Llama-2-13b-chat-hf",
    "70b": "meta-llama/Llama-2-70b-chat-hf",
}
_CARD, _CELLS, _LONGEST = "A100-80GB-SXM", 48, 4096


@dataclass(frozen=True, slots=True)
class Saving:
    """Cards at one rate: by the usual sizing and by ours."""

    rate: float
    usual: int
    ours: int

    @property
    def percent(self) -> float:
        """How much fewer ours are."""
        return 100 * (1 - self.ours / self.usual)


def savings(folder: Path) -> Iterator[Saving]:
    """At each rate, in requests/s a model."""
    lengths = tuple(_histogram(values) for values in _lengths(folder))
    for rate in RATES:
        fleet = _fleet(rate, *lengths)
        solved = solve_fleet(fleet)
        ours = sum(one.candidate.ranks for one in solved.placement.assignments)
        usual = sum(_usual_cards(fleet, request) for request in fleet.models)
        yield Saving(rate, usual, ours)


def _usual_cards(fleet: Fleet, request: ModelRequest) -> int:
    """Replicas until no more than 16 are in flight in any."""
    offer = fleet.gpus[0]
    settings = usual_settings(request, offer)
    size = settings.tensor_parallel_size
    replicas = 1
    while not _holds(fleet, request, size, replicas):
        replicas += 1
    return size * settings.pipeline_parallel_size * replicas


def _holds(fleet: Fleet, request: ModelRequest, size: int, replicas: int) -> bool:
    gpu, (engine, version) = fleet.gpus[0].gpu, find_engine(request.engine)
    served = served_as(request, "fp16", gpu)
    plain = EngineSettings(tensor_parallel_size=size)
    found = demand(
        request.model, request.traffic, replicas=replicas, slo=request.slo,
        sequence_bytes=reserved_bytes(request.model, gpu, plain, engine=engine, version=version),
        times=roofline(
            request.model, gpu, engine=engine.name, version=version, format=served.format, kernel=served.kernel,
            tensor_parallel_size=size, kv_cache_dtype="auto",
        ),
    )  # fmt: skip
    return isinstance(found, Demand) and found.in_service_p999 <= SLOTS and found.slo_held is not False


def _fleet(rate: float, given: Sequence[tuple[int, int]], written: Sequence[tuple[int, int]]) -> Fleet:
    def model(name: str) -> Mapping[str, Any]:
        return {
            "name": name, "model": _MODELS[name], "quantization": ["fp16"], "sharing": ["alone"],
            "traffic": {
                "requests_per_second": rate,
                "input_tokens": {"histogram": [list(one) for one in given]},
                "output_tokens": {"histogram": [list(one) for one in written]},
            },
            "slo": {"ttft": "2s", "tpot": "100ms"},
        }  # fmt: skip

    gpus = [{"type": _CARD, "price": "$1/h"}]
    return load_fleet(
        {"engine": "vllm", "headroom": "3%", "gpus": gpus, "models": [model(one) for one in _MODELS]}
    )


def _lengths(folder: Path) -> tuple[list[int], list[int]]:
    """(prompts, answers) of the workloads that scale neither, cut where the models' context ends."""
    given: list[int] = []
    written: list[int] = []
    for path in sorted(folder.glob("*-1.0-1.0.csv"))[:12]:
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                prompt, answer = int(row["Input Length"]), int(row["Output Length"])
                if prompt + answer <= _LONGEST:
                    given.append(max(1, prompt))
                    written.append(max(1, answer))
    return given, written


def _histogram(values: Sequence[int]) -> list[tuple[int, int]]:
    """Cells of equally many values, each at its mean."""
    ordered, size = sorted(values), ceil(len(values) / _CELLS)
    cells = [ordered[at : at + size] for at in range(0, len(ordered), size)]
    counts: dict[int, int] = {}
    for cell in cells:
        counts[ceil(sum(cell) / len(cell))] = counts.get(ceil(sum(cell) / len(cell)), 0) + len(cell)
    return list(counts.items())
