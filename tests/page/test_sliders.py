"""Every slider and list of "What if" answers as it moves, with the bytes of `cotenant.estimate`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import cotenant
from tests.page.conftest import fits_the_width, picture, slide, state, until

Open = Callable[..., Any]


HELD = """import('/static/store.js').then((store) => store.set(({ fleet }) => ({ fleet: { ...fleet, models:
    fleet.models.map((one) => ({ ...one, traffic: { concurrent: 8, context_tokens: { p95: 2048 } } })) } })))"""


@pytest.mark.parametrize(
    ("knob", "value", "term"),
    [
        ("context", 13, "kv_cache"),
        ("rate", 0.3, "kv_cache"),
        ("concurrent", 5, ""),
        ("utilisation", 40, "kv_cache"),
        ("held", 40, ""),
    ],
)
def test_sliders_answer(open_page: Open, size: str, knob: str, value: float, term: str) -> None:
    """The drawn bytes are those of cotenant.estimate with the same words."""
    page = open_page(size)
    page.click(".label[data-replica=code]")
    before = state(page, "answers.code?.document")
    assert before is None
    if knob == "concurrent":  # in place of the example's rate
        page.evaluate(HELD)
        page.wait_for_selector("#knob-concurrent")
    slide(page, knob, value)
    until(page, "now.answers.code")
    found = state(page, "answers.code.document")
    traffic = state(page, "fleet.models[1].traffic")
    asked: dict[str, Any] = traffic | state(page, "fleet.models[1].slo")
    if knob == "utilisation":
        asked["gpu_memory_utilization"] = 0.4
    if knob == "held":
        asked["kv_overflow"] = state(page, "fleet.kv_overflow")
    whole = cotenant.estimate(
        "mistralai/Mistral-7B-Instruct-v0.3", gpu="A100-80GB-SXM", quantization="fp8",
        max_model_len=found["settings"]["max_model_len"], **asked,
    )  # fmt: skip
    assert found["per_gpu"][0]["weights_bytes"] == whole.per_gpu[0].weights.bytes.value
    assert found["kv_cache"]["kv_needed_bytes"] == whole.kv_cache.needed_bytes
    assert "changed since" in page.locator(".solve").inner_text()
    if term:
        picture(page, f"{size}-slider-{knob}")
    fits_the_width(page)


def test_precision_and_cache_type_answer(open_page: Open, size: str) -> None:
    page = open_page(size)
    page.click(".label[data-replica=triage]")
    page.select_option("#knob-precision", "bf16")
    until(page, "now.answers.triage?.document.quantization === 'bf16'")
    page.select_option("#knob-kv-dtype", "fp8")
    until(page, "now.answers.triage?.document.settings.kv_cache_dtype === 'fp8'")
    assert state(page, "fleet.models[2].quantization") == ["bf16"]
    slide(page, "headroom", 25)
    assert state(page, "fleet.headroom") == "25%"
