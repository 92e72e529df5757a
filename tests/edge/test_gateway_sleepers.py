"""Engines that sleep: woken, checked before traffic, and taken over by the next gateway."""

from __future__ import annotations

import json
import sys

import pytest

from bench.live_case import MIB, STUB, Gateway, plan_document

pytest.importorskip("aiohttp")


def sleeping(own, tmp_path, flag):
    """Two models that sleep to make room for each other, as vLLM does; `flag`: what the stub does after a wake."""
    document = plan_document({"alpha": 100 * MIB, "beta": 100 * MIB}, 150 * MIB, engine="vllm@0.21")
    for replica in document["replicas"]:
        replica |= {"sharing": "sleep", "checkpoint": "org/model"}
        for name in ("n_ctx", "n_parallel", "n_gpu_layers"):
            del replica[name]
    program = tmp_path / "vllm"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{STUB}" {flag} "$@"\n')
    program.chmod(0o755)
    return own("--no-prestart", "--engine-binary", f"vllm={program}", document=document)


@pytest.mark.parametrize(
    ("flag", "says"),
    [
        ("", None),
        ("--wrong-after-wake", "its answer is empty"),
        ("--other-after-wake", "it answers otherwise than before it slept"),
    ],
)
def test_sleepers_are_woken_and_checked_before_traffic(own, tmp_path, flag, says):
    """vLLM's level 1; one that wakes up wrong is healthy by its own word, and is started anew all the same."""
    one = sleeping(own, tmp_path, flag)
    for model in ("alpha", "beta", "alpha"):
        status, _, found = one.chat(model, max_tokens=2)
        assert (status, found["choices"][0]["message"]["content"]) == (200, "w0 w1 ")
    logged = one.logged()
    assert logged.count('"engine_sleeps"') == 2
    assert logged.count('"engine_woke"') == (0 if says else 1)
    assert logged.count('"engine_started"') == (3 if says else 2)
    assert says is None or says in logged


def test_what_was_taken_over_is_checked_after_its_wake_too(own, tmp_path):
    """Who was asked when it was new is gone: so it is asked before it sleeps."""
    one = sleeping(own, tmp_path, "--other-after-wake")
    assert one.chat("alpha")[0] == 200
    one.process.kill()
    one.process.wait()
    one.process.stdout.close()
    one.start()
    for model in ("beta", "alpha"):
        status, _, found = one.chat(model, max_tokens=2)
        assert (status, found["choices"][0]["message"]["content"]) == (200, "w0 w1 ")
    logged = one.logged()
    assert logged.count('"engine_adopted"') == 1
    assert "it answers otherwise than before it slept" in logged


def killed(one: Gateway) -> None:
    """`kill -9`: its engines go on."""
    one.process.kill()
    one.process.wait()
    one.process.stdout.close()


@pytest.mark.parametrize("flag", ["", "--other-after-wake"])
def test_a_sleeper_is_taken_over_asleep_and_checked_after_its_wake(own, tmp_path, flag):
    one = sleeping(own, tmp_path, flag)
    for model in ("alpha", "beta"):
        assert one.chat(model)[0] == 200
    one.wait_for("alpha", "asleep")
    before = sorted(one.engines())
    killed(one)
    one.start()
    assert [one.state(model) for model in ("alpha", "beta")] == ["asleep", "ready"]
    assert sorted(one.engines()) == before
    floor = one.status()["devices"][0]
    assert floor["held_bytes"] == 100 * MIB  # beta's, and what alpha keeps: nothing
    status, _, found = one.chat("alpha", max_tokens=2)
    assert (status, found["choices"][0]["message"]["content"]) == (200, "w0 w1 ")
    logged = one.logged()
    assert logged.count('"engine_adopted"') == 2
    assert '"orphan_stopped"' not in logged
    assert ("it answers otherwise than before it slept" in logged) == bool(flag)
    assert logged.count('"engine_started"') == (3 if flag else 2)


@pytest.mark.parametrize("change", [{"stage": "moving"}, {"level": 2}, {"reference": ""}])
def test_a_sleeper_of_which_too_little_is_known_is_stopped(own, tmp_path, change):
    one = sleeping(own, tmp_path, "")
    for model in ("alpha", "beta"):
        assert one.chat(model)[0] == 200
    one.wait_for("alpha", "asleep")
    killed(one)
    place = one.folder / "state" / "engines.json"
    rows = json.loads(place.read_text())
    assert {row["replica"]: row["stage"] for row in rows} == {"alpha-1": "asleep", "beta-1": "awake"}
    assert {row["level"] for row in rows} == {1}
    assert all(len(row["reference"]) == 64 for row in rows)
    place.write_text(json.dumps([row | (change if row["replica"] == "alpha-1" else {}) for row in rows]))
    one.start()
    assert one.logged().count('"orphan_stopped"') == 1
    assert one.chat("alpha")[0] == 200
