"""Models that write nothing, by their task: those built like a chat model too."""

from __future__ import annotations

import pytest

import cotenant
from cotenant.errors import InputError
from cotenant.planning.solve import plan_fleet
from tests.planning.fleets import fleet

DECODER = "Alibaba-NLP/gte-Qwen2-7B-instruct"  # an embedding model with a causal decoder
TRAFFIC = {"requests_per_second": 2, "input_tokens": {"p50": 200, "p95": 480}}


def test_a_catalogued_embedding_model_needs_no_answers() -> None:
    answer = plan_fleet(
        fleet({"name": "embed", "model": DECODER, "traffic": TRAFFIC}, gpus=[{"type": "L40S", "count": 1}])
    )
    assert answer.feasible
    (replica,) = answer.replicas
    assert replica.tpot_s is None
    found = cotenant.estimate(DECODER, gpu="L40S", requests_per_second=2, input_tokens={"p50": 200, "p95": 480})
    assert found.fits


def test_a_chat_model_needs_them() -> None:
    chat = {"name": "chat", "model": "Qwen/Qwen3-8B", "traffic": TRAFFIC}
    with pytest.raises(InputError, match="needs output_tokens"):
        fleet(chat)
    with pytest.raises(InputError, match="needs output_tokens"):
        cotenant.estimate(
            "Qwen/Qwen3-8B", gpu="L40S", requests_per_second=2, input_tokens={"p50": 200, "p95": 480}
        )


def test_the_task_of_the_file_decides() -> None:
    fleet({"name": "embed", "model": "Qwen/Qwen3-8B", "task": "embed", "traffic": TRAFFIC})
    with pytest.raises(InputError, match="needs output_tokens"):
        fleet({"name": "chat", "model": DECODER, "task": "chat", "traffic": TRAFFIC})
