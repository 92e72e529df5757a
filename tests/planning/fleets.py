"""Fleets that the planning tests share, as users would write them."""

from __future__ import annotations

from typing import Any

from cotenant import load_fleet
from cotenant.domain.fleet import Fleet


def trio(**changes: Any) -> dict[str, Any]:
    """Three models and one A100-80GB, two of them busy all the time (the README's example asks less of them)."""
    return {
        "engine": "vllm",
        "headroom": "12%",
        "gpus": [{"type": "A100-80GB-SXM", "count": 1}],
        "models": [
            {
                "name": "chat",
                "model": "meta-llama/Llama-3.1-70B-Instruct",
                "traffic": {
                    "requests_per_second": 0.4,
                    "input_tokens": {"p50": 600, "p95": 1600},
                    "output_tokens": {"p50": 150, "p95": 400},
                },
                "slo": {"ttft": "3s", "tpot": "80ms", "percentile": 95},
                "quantization": ["fp8", "awq-int4"],
            },
            small("code", "mistralai/Mistral-7B-Instruct-v0.3", task="code"),
            small("triage", "meta-llama/Llama-3.1-8B-Instruct", adapters=[{"name": "legal", "rank": 16}]),
        ],
        **changes,
    }


def small(name: str, model: str = "meta-llama/Llama-3.1-8B-Instruct", **more: Any) -> dict[str, Any]:
    """A model with eight requests of 2,048 tokens in flight."""
    return {"name": name, "model": model, "traffic": {"concurrent": 8, "context_tokens": {"p95": 2048}}, **more}


def fleet(*models: dict[str, Any], gpus: list[dict[str, Any]] | None = None, **more: Any) -> Fleet:
    """A fleet of `models` on `gpus` (one A100-80GB unless told)."""
    return load_fleet({"gpus": gpus or [{"type": "A100-80GB-SXM", "count": 1}], "models": list(models), **more})
