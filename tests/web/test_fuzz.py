"""Whatever comes, the answer has the documented shape, and is never a fault of ours."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cotenant.web.bodies import EstimateBody
from tests.web.conftest import LLAMA, Answer, Page

SETTINGS = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
PATHS = ("estimate", "check", "explain", "deploy", "models", "plan", "simulate")
plain = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20)
values = st.recursive(
    plain, lambda v: st.lists(v, max_size=3) | st.dictionaries(st.text(max_size=8), v, max_size=3), max_leaves=8
)


def sound(answer: Answer) -> None:
    assert answer.status in (200, 201, 202, 400, 404, 413, 415, 422, 429), answer.body[:500]
    assert isinstance(answer.document, dict)
    if answer.status >= 400:
        assert answer.document["errors"]
        assert all(set(one) == {"error", "hint", "path"} for one in answer.document["errors"])
        assert b"Traceback" not in answer.body


@SETTINGS
@given(path=st.sampled_from(PATHS), body=st.binary(max_size=60) | st.sampled_from([
    b"", b"{", b"[]", b"null", b"NaN", b'{"a": NaN}', b'{"a": 1, "a": 2}', b"[" * 5000,
    b'{"a":' * 5000, b"9" * 5000,
    b'"\\ud800"',
    b'{"model": "\\ud800", "gpu": "L4"}', b"\xff\xfe", b'{"fleet": 1e999}', b"\xef\xbb\xbf{}",
]))  # fmt: skip
def test_bytes(page: Page, path: str, body: bytes) -> None:
    answer = page.ask("POST", f"/api/{path}", body, {"content-type": "application/json"})
    assert answer.status in (400, 422)
    sound(answer)


@SETTINGS
@given(path=st.sampled_from(PATHS[:5]), data=st.data())
def test_values(page: Page, path: str, data: st.DataObject) -> None:
    keys = ("model", "gpu", "plan", "move", "log", "target", "hub", "config", "gguf", "name", "options", "fleet")
    body = data.draw(st.dictionaries(st.sampled_from(keys), values, max_size=5))
    sound(page.ask("POST", f"/api/{path}", json.dumps(body).encode(), {"content-type": "application/json"}))


WORDS: dict[str, Any] = {
    name: plain
    | st.sampled_from(["vllm@0.21", "fp8", "1%", "3s", "11GiB", "ollama", {"p50": 5}, 0, -1, 2**63, 1e308])
    for name in EstimateBody.model_fields
    if name not in ("model", "gpu")
}


@SETTINGS
@given(data=st.data(), gpu=st.sampled_from(["L4", "H100-80GB-SXM", "RTX-4090"]))
def test_estimates(page: Page, data: st.DataObject, gpu: str) -> None:
    names = data.draw(st.lists(st.sampled_from(sorted(WORDS)), max_size=4, unique=True))
    body = {"model": LLAMA, "gpu": gpu} | {name: data.draw(WORDS[name]) for name in names}
    sound(page.post("/api/estimate", body))


def broken(value: Any, data: st.DataObject) -> Any:
    """`value` with something in it replaced."""
    if isinstance(value, dict) and value and data.draw(st.booleans() | st.just(True)):
        key = data.draw(st.sampled_from(sorted(value)))
        return {**value, key: broken(value[key], data)}
    if isinstance(value, list) and value:
        at = data.draw(st.integers(0, len(value) - 1))
        return [*value[:at], broken(value[at], data), *value[at + 1 :]]
    return data.draw(values)


@pytest.fixture(scope="module")
def plan(page: Page) -> dict[str, Any]:
    fleet = {"gpus": [{"type": "L40S", "count": 2}], "models": [
        {"name": "a", "model": LLAMA, "traffic": {"concurrent": 2, "context_tokens": {"p95": 999}}},
        {"name": "b", "model": "Qwen/Qwen3-14B", "traffic": {"concurrent": 2, "context_tokens": {"p95": 999}}},
    ]}  # fmt: skip
    found: dict[str, Any] = page.job("/api/plan", {"fleet": fleet}).document
    return found


@SETTINGS
@given(data=st.data())
def test_broken_plans(page: Page, plan: dict[str, Any], data: st.DataObject) -> None:
    body = {
        "plan": broken(plan, data),
        "target": data.draw(st.sampled_from(["compose", "kubernetes", "commands", "x"])),
    }
    answer = page.post("/api/deploy", body)
    sound(answer)
    if answer.status == 200:
        names = [one["name"] for one in answer.document["files"]]
        assert not any(".." in name.split("/") or name.startswith("/") or "\\" in name for name in names)
    move = {"replica": data.draw(st.sampled_from(["a", "b", "c"])), "gpu": data.draw(st.integers(0, 4))}
    sound(page.post("/api/check", {"plan": body["plan"], "move": move}))


@pytest.mark.parametrize(
    "name", ["../../etc/cron.d/x", "..", "a/../../b", "/etc/passwd", "a\\..\\b", "<script>", "a\nb"]
)
def test_a_plan_with_a_name_that_climbs_is_not_exported(page: Page, plan: dict[str, Any], name: str) -> None:
    text = (
        json.dumps(plan)
        .replace('"id": "a"', f'"id": {json.dumps(name)}')
        .replace('"model": "a"', f'"model": {json.dumps(name)}')
    )
    for target in ("compose", "systemd", "commands", "kubernetes", "llama-swap"):
        answer = page.post("/api/deploy", {"plan": json.loads(text), "target": target})
        sound(answer)
        if answer.status == 200:
            files = [one["name"] for one in answer.document["files"]]
            assert not any(part in ("", "..") for file in files for part in file.split("/"))
