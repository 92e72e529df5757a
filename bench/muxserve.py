"""MuxServe's 19 LLMs on 32 A100 (arXiv 2404.02015): its placement and ours, replayed on the same requests.

Rates are its own: r, r 2^-alpha, r 3^-alpha ... over twelve LLaMA-7B, four 13B, two 30B and one 65B, r = 20/s,
prompts of 161 and answers of 337 tokens in the mean (ShareGPT), everything in 16 bits. What its placement program
answers for them was found by running it (github.com/hao-ai-lab/MuxServe, muxserve/muxsched/placement.py with its
own costs); only the answer stands here. Its replicas share multiprocessors and cache (`spatial`, `elastic`), each
with a share of its mesh's cache in proportion to rate x bytes a token, as it deals it. Ours run as `static`, which
any engine does, twice: each model alone on the fewest cards that keep its SLO, and on the fewest cards of all,
shared. Step times are ours for both. Goodput counts requests within a TTFT of 5 s and a TPOT of 100 ms.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import process_time
from typing import Any

from cotenant import load_fleet
from cotenant.domain.device import Device
from cotenant.domain.engine import EngineSettings
from cotenant.domain.estimate import Estimate
from cotenant.domain.fleet import Fleet, ModelRequest
from cotenant.domain.plan import GpuPlan, Plan, ReplicaPlan
from cotenant.engines import find_engine
from cotenant.estimation.memory import estimate_memory
from cotenant.estimation.memory_terms import replica_memory
from cotenant.planning.launch import reestimate, served_as
from cotenant.planning.sleeping import solve_fleet
from cotenant.planning.solve import written
from cotenant.simulation.hosting import Hosting, hosting
from cotenant.simulation.run import replay

PEAK_RATE, DURATION_S = 20.0, 30.0
_KINDS = ("7b",) * 12 + ("13b",) * 4 + ("30b",) * 2 + ("65b",)
_MODELS = {
    "7b": "meta-llama/Llama-2-7b-chat-hf",
    "13b": "meta-llama/Llama-2-13b-chat-hf",
    "65b": "huggyllama/llama-65b",
}
_THIRTY = {  # LLaMA-30B (arXiv 2302.13971, table 2)
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 6656, "num_hidden_layers": 60,
    "num_attention_heads": 52, "num_key_value_heads": 52, "intermediate_size": 17920, "vocab_size": 32000,
    "max_position_embeddings": 2048, "torch_dtype": "float16", "tie_word_embeddings": False,
}  # fmt: skip
_CARD, _NODE, _CARDS = "A100-80GB-SXM", 8, 32
_KEPT = 0.02  # of each card, which its placement leaves free


Mesh = tuple[int, tuple[int, ...]]  # (cards, which of the LLMs)
MESHES: Mapping[float, tuple[Mesh, ...]] = {
    0.9: (
        (8, (0, 18)), (8, ()), (4, (16, 17, 13)), (4, (1, 2, 5, 15)), (1, (14,)), (1, (6,)), (1, (3,)), (1, (7,)),
        (1, (4, 11)), (1, (8,)), (1, (12,)), (1, (9, 10)),
    ),
}  # fmt: skip
"""By alpha; one mesh of eight cards stays empty."""


@dataclass(frozen=True, slots=True)
class Goodputs:
    """Requests/s within the SLO of all that came at `rate`, `load` times the stated rates: of its placement by
    policy, of ours planned for the stated rates (alone, shared) and for these (`grown`, each alone).

    `cards` by the same names, `cpu_s` what our plan of models alone took of the processor.
    """

    alpha: float
    load: float
    rate: float
    found: Mapping[str, float]
    cards: Mapping[str, int]
    cpu_s: float

    @property
    def ratio(self) -> float:
        """Ours, each model alone and planned for these rates, over the better of theirs."""
        ours = self.found.get("grown", self.found["alone"])
        return ours / max(self.found["spatial"], self.found["elastic"])


Placed = tuple[Plan, Sequence[Hosting]]


def compared(alpha: float, loads: Sequence[float] = (1.0,)) -> list[Goodputs]:
    """Both placements under the power law of that exponent, at the stated rates and at multiples of them.

    Its placement is what its program answers for the stated rates: what it would answer for others is not known
    here. Ours is planned again for each load, on the same 32 cards, as long as it has a place there.
    """
    fleet, start = _fleet(alpha, "alone"), process_time()
    alone = written(solve_fleet(fleet))
    cpu_s = process_time() - start
    shared = _fleet(alpha, "shared")
    ours = {"alone": _hosted(fleet, alone), "shared": _hosted(shared, written(solve_fleet(shared)))}
    theirs = _theirs(fleet, MESHES[alpha], alone)
    return [_loaded(alpha, load, fleet, ours, theirs, cpu_s) for load in loads]


def _hosted(fleet: Fleet, plan: Plan) -> Placed:
    names, fresh = {one.name: one for one in fleet.models}, reestimate(fleet)
    return plan, [hosting(names[one.model], one, fresh(names[one.model], one)) for one in plan.replicas]


def _loaded(
    alpha: float, load: float, fleet: Fleet, ours: Mapping[str, Placed], theirs: Placed, cpu_s: float
) -> Goodputs:
    """All placements under `load` times the stated rates."""
    models = [_busier(one, load) for one in fleet.models]
    every = dict(ours)
    if load != 1.0:
        grown = replace(fleet, models=tuple(models))
        solved = solve_fleet(grown)
        if solved.feasible:  # else 32 cards do not hold these rates, each model alone and within its SLO
            every["grown"] = _hosted(grown, written(solved))
    found = {name: _goodput(*placed, models, "static") for name, placed in every.items()}
    found |= {policy: _goodput(*theirs, models, policy) for policy in ("spatial", "elastic")}
    cards = {name: len(plan.gpus) for name, (plan, _) in every.items()}
    cards |= dict.fromkeys(("spatial", "elastic"), sum(number for number, members in MESHES[alpha] if members))
    rate = sum(one.traffic.requests_per_second or 0.0 for one in models)
    return Goodputs(alpha, load, rate, found, cards, cpu_s)


def _busier(request: ModelRequest, load: float) -> ModelRequest:
    rate = (request.traffic.requests_per_second or 0.0) * load
    return replace(request, traffic=replace(request.traffic, requests_per_second=rate))


def _goodput(plan: Plan, hostings: Sequence[Hosting], models: Sequence[ModelRequest], policy: str) -> float:
    found = replay(plan, models, hostings, policy=policy, duration_s=DURATION_S)
    return sum(one.goodput for one in found.models)


def _fleet(alpha: float, sharing: str) -> Fleet:
    with tempfile.TemporaryDirectory() as folder:
        thirty = Path(folder) / "config.json"
        thirty.write_text(json.dumps(_THIRTY), encoding="utf-8")
        return load_fleet(
            {
                "engine": "vllm",
                "headroom": "3%",
                "gpus": [{"type": _CARD, "count": _CARDS, "node": {"size": _NODE}}],
                "models": [_model(place, kind, alpha, thirty, sharing) for place, kind in enumerate(_KINDS)],
            }
        )  # fmt: skip


def _model(place: int, kind: str, alpha: float, thirty: Path, sharing: str) -> dict[str, Any]:
    return {
        "name": f"llm-{place}",
        "model": _MODELS.get(kind, str(thirty)),
        "quantization": ["fp16"],
        "traffic": {
            "requests_per_second": PEAK_RATE * (place + 1) ** -alpha,
            "input_tokens": {"p50": 74, "p95": 640, "max": 1024},
            "output_tokens": {"p50": 244, "p95": 900, "max": 1000},
        },
        "slo": {"ttft": "5s", "tpot": "100ms", "percentile": 95},
        "sharing": ["alone"] if sharing == "alone" else ["co-resident", "alone"],
    }


def _theirs(fleet: Fleet, meshes: Sequence[Mesh], pattern: Plan) -> tuple[Plan, list[Hosting]]:
    """Its placement as replicas on cards, mesh by mesh, each inside a node."""
    replicas: list[ReplicaPlan] = []
    hostings: list[Hosting] = []
    card = 0
    for cards, members in sorted(meshes, reverse=True):
        devices = tuple(Device(_CARD, place // _NODE, place % _NODE, 0) for place in range(card, card + cards))
        card += cards
        for request, estimate in _on_mesh(fleet, cards, [fleet.models[one] for one in members]):
            one = replace(
                pattern.replicas[0], id=request.name, model=request.name, model_id=request.model_id,
                quantization="fp16",
                devices=devices, settings=estimate.settings, engine_version=estimate.engine_version,
            )  # fmt: skip
            replicas.append(one)
            hostings.append(hosting(request, one, estimate))
    capacity = fleet.gpus[0].gpu.cuda_bytes.value
    gpus = tuple(
        GpuPlan(Device(_CARD, place // _NODE, place % _NODE, 0), capacity, 0, (), None) for place in range(_CARDS)
    )
    return replace(pattern, replicas=tuple(replicas), gpus=gpus), hostings


def _on_mesh(fleet: Fleet, cards: int, members: Sequence[ModelRequest]) -> list[tuple[ModelRequest, Estimate]]:
    """Each with its share of what weights, activations and runtime leave of the mesh."""
    gpu, (engine, version) = fleet.gpus[0].gpu, find_engine("vllm")
    plain = EngineSettings(tensor_parallel_size=cards, max_num_seqs=256, max_model_len=2048)
    left = gpu.cuda_bytes.value * (1 - _KEPT)
    weights: list[float] = []
    for request in members:
        memory = replica_memory(
            request.model,
            gpu,
            plain,
            engine=engine,
            version=version,
            format=served_as(request, "fp16", gpu).format,
        )
        stage = memory.stages[0]
        left -= stage.own.value + stage.beyond.value
        weights.append((request.traffic.requests_per_second or 0.0) * memory.layout.token_bytes())
    found = []
    for request, weight in zip(members, weights, strict=True):
        asked = replace(plain, kv_cache_memory_bytes=max(2**30, int(left * weight / sum(weights))))
        served = served_as(request, "fp16", gpu)
        found.append(
            (
                request,
                estimate_memory(request.model, gpu, asked, engine=engine, version=version, format=served.format),
            )
        )
    return found
