"""Models that take turns, keys and what they allow, an engine that is missing."""

from __future__ import annotations

import json
import sys

import pytest

from bench.live_case import MIB, STUB, plan_document

pytest.importorskip("aiohttp")


def test_two_models_on_a_budget_for_one_take_turns(own):
    one = own("--no-prestart")
    for model in ("alpha", "beta", "alpha"):
        assert one.chat(model)[0] == 200
        held = one.status()["devices"][0]
        assert held["held_bytes"] == 100 * MIB <= held["capacity_bytes"]
    assert one.logged().count('"engine_started"') == 3


def test_vllm_is_told_the_priority_that_the_key_allows(own, tmp_path):
    """Lower numbers come first there; what a client writes into the body does not count."""
    document = plan_document({"alpha": 100 * MIB}, 150 * MIB, engine="vllm@0.21")
    (replica,) = document["replicas"]
    replica |= {"checkpoint": "org/model"}
    for name in ("n_ctx", "n_parallel", "n_gpu_layers"):
        del replica[name]
    program, keys = tmp_path / "vllm", tmp_path / "keys"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{STUB}" "$@"\n')
    program.chmod(0o755)
    keys.write_text("alice alice-secret-key priority=3\n")
    keys.chmod(0o600)
    one = own("--engine-binary", f"vllm={program}", "--api-keys", str(keys), document=document)
    for asked, told in (("9", -3), ("-2", 2), (None, 0)):
        headers = {"Authorization": "Bearer alice-secret-key"} | ({"X-Priority": asked} if asked else {})
        assert one.chat("alpha", max_tokens=1, priority=-1000, headers=headers)[0] == 200
        assert one.stub("alpha")["priorities"][-1] == told
    with open(f"/proc/{one.engines()[0]}/cmdline", "rb") as file:
        assert b"--scheduling-policy\0priority" in file.read()


def test_keys(own, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("alice alice-secret-key priority=3\nbob bob-secret-key # a comment\n")
    keys.chmod(0o600)
    one = own("--api-keys", str(keys))
    assert one.ask("/v1/models")[0] == 401
    assert one.ask("/v1/models", headers={"Authorization": "Bearer nonsense"})[0] == 401
    headers = {"Authorization": "Bearer alice-secret-key", "X-Priority": "9"}
    assert one.chat("alpha", headers=headers)[0] == 200
    assert '"client": "alice"' in one.logged()
    assert "alice-secret-key" not in one.logged()
    for pid in (one.process.pid, *one.engines()):
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read()
        assert b"secret" not in words
    key = json.loads((one.folder / "state" / "engines.json").read_text())[0]["key"]
    assert key
    assert key.encode() not in words
    assert (one.folder / "state" / "engines.json").stat().st_mode & 0o077 == 0


def test_a_missing_engine_is_said_and_the_gateway_lives_on(own):
    one = own("--no-prestart")
    (one.folder / "stub-engine").unlink()
    status, headers, found = one.chat("alpha")
    assert (status, found["error"]["code"]) == (503, "engine_failed")
    assert found["error"]["message"] == "alpha does not start: llama.cpp is not installed here"
    assert int(headers["retry-after"]) >= 1
    assert one.ask("/health")[0] == 200
    assert "--engine-binary llama.cpp=PATH" in one.logged()
