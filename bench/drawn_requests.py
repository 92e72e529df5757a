"""Whole fleets drawn from a seed, as a fleet file says them: models of the catalogue, traffic, SLOs, a shop.

Unlike `bench.drawn_fleets`, nothing is sized yet: these go through the estimator as any fleet does. No two models
ask for the same traffic, so nothing is answered by an equal question. Rates are long-tailed, as fleets of many
models are (Aegaeon's marketplace: most of 779 models below one request/s); half of the models hold an SLO.
"""

from __future__ import annotations

from random import Random
from typing import Any

_MODELS = (
    ("Qwen/Qwen2.5-0.5B-Instruct", 3), ("Qwen/Qwen2.5-1.5B-Instruct", 6), ("Qwen/Qwen2.5-3B-Instruct", 6),
    ("meta-llama/Llama-3.2-3B-Instruct", 8), ("Qwen/Qwen2.5-7B-Instruct", 14),
    ("mistralai/Mistral-7B-Instruct-v0.3", 10), ("meta-llama/Llama-3.1-8B-Instruct", 16), ("Qwen/Qwen3-8B", 8),
    ("google/gemma-2-9b-it", 6), ("microsoft/phi-4", 5), ("Qwen/Qwen2.5-14B-Instruct", 8),
    ("Qwen/Qwen3-30B-A3B", 4), ("Qwen/Qwen2.5-32B-Instruct", 5), ("meta-llama/Llama-3.1-70B-Instruct", 3),
    ("Qwen/Qwen2.5-72B-Instruct", 2),
)  # fmt: skip  # (model, weight)
_TYPES = (
    ("L4", 0.49), ("A10G", 1.01), ("A40", 0.67), ("RTX-A6000", 0.50), ("L40S", 0.86), ("A100-40GB-SXM", 0.99),
    ("A100-80GB-SXM", 1.29), ("RTX-6000-Ada", 0.83), ("H100-80GB-SXM", 2.29), ("H100-NVL", 2.08),
    ("H200-SXM", 3.39), ("B200-SXM", 4.89),
)  # fmt: skip  # (card, $/h)


def drawn_requests(models: int, types: int, seed: int) -> dict[str, Any]:
    """The document of a fleet of `models` models over a shop of `types` types (at most twelve), nodes of eight."""
    random = Random(seed)
    names, weights = zip(*_MODELS, strict=True)
    chosen = random.choices(names, weights, k=models)
    return {
        "engine": "vllm",
        "headroom": "12%",
        "gpus": [
            {"type": card, "price": f"${price}/h", "node": {"size": 8}} for card, price in _TYPES[:types]
        ],
        "models": [_model(number, name, random) for number, name in enumerate(chosen)],
    }  # fmt: skip


def _model(number: int, name: str, random: Random) -> dict[str, Any]:
    prompt, answer = round(random.lognormvariate(6.2, 0.6)), round(random.lognormvariate(5.2, 0.5))
    asked: dict[str, Any] = {
        "name": f"model-{number}",
        "model": name,
        "traffic": {
            "requests_per_second": round(min(8.0, random.lognormvariate(-2.0, 1.2)), 4),
            "input_tokens": {"p50": prompt, "p95": round(prompt * random.uniform(2.0, 4.5))},
            "output_tokens": {"p50": answer, "p95": round(answer * random.uniform(2.0, 3.5))},
        },
    }
    if random.random() < 0.5:
        asked["slo"] = {
            "ttft": f"{random.choice([1, 2, 5])}s",
            "tpot": f"{random.choice([50, 80, 100, 200])}ms",
            "percentile": 95,
        }
    return asked
