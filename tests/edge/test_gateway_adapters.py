"""LoRA adapters over the gateway: changed while the engine runs where it can, else asked for by their number."""

from __future__ import annotations

import json
import signal
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("aiohttp")

from bench.live_case import MIB, STUB, Gateway, plan_document
from cotenant.domain.engine import EngineSettings
from cotenant.domain.running import Launch
from cotenant.domain.workload import Adapter
from cotenant.edge.engines import find_driver
from cotenant.edge.engines.llama_router import RoutedLlama
from cotenant.edge.gateway.bodies import body_for
from cotenant.edge.gateway.core import Ticket
from cotenant.engines.hosting import changes_adapters


def adapter(name: str) -> dict[str, object]:
    return {"name": name, "rank": 8, "source": f"/adapters/{name}"}


def document_of(engine: str, *names: str) -> dict:
    found = plan_document({"alpha": 100 * MIB}, 300 * MIB, engine=engine)
    for replica in found["replicas"]:
        replica |= {
            "adapters": [adapter(name) for name in names],
            "checkpoint": "org/model",
            "max_loras": 2,
            "max_lora_rank": 8,
        }
        for name in ("n_ctx", "n_parallel", "n_gpu_layers"):
            del replica[name]
    return found


def reloaded(one: Gateway, *names: str) -> None:
    document = json.loads(json.dumps(one.document))
    document["replicas"][0]["adapters"] = [adapter(name) for name in names]
    (one.folder / "plan.json").write_text(json.dumps(document))
    seen = one.logged().count('"reloaded"')
    one.process.send_signal(signal.SIGHUP)
    end = time.monotonic() + 15
    while one.logged().count('"reloaded"') == seen and time.monotonic() < end:
        time.sleep(0.05)


@pytest.mark.parametrize("engine", ["vllm@0.21", "sglang@0.5.5"])
def test_another_plan_with_other_adapters_keeps_the_engine(own, tmp_path: Path, engine: str) -> None:
    program = tmp_path / "program"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{STUB}" "$@"\n')
    program.chmod(0o755)
    name = engine.partition("@")[0]
    one = own("--engine-binary", f"{name}={program}", document=document_of(engine, "legal", "poems"))
    one.wait_for("alpha", "ready")
    before = one.engines()
    assert one.chat("legal")[0] == 200
    assert one.chat("songs")[0] == 404
    reloaded(one, "poems", "songs")
    assert one.chat("songs")[0] == one.chat("poems")[0] == one.chat("alpha")[0] == 200
    assert one.chat("legal")[0] == 404
    assert one.stub("alpha")["adapters"] == ["songs"]  # those of its start it was told in words
    assert one.engines() == before
    logged = one.logged()
    assert '"adapter_unloaded"' in logged
    assert '"adapter": "songs"' in logged
    assert logged.count('"engine_started"') == 1


def test_a_router_forwards_by_the_models_section() -> None:
    launch = Launch("a", "alpha", "llama.cpp", "11549", "m.gguf", EngineSettings(), 8080)
    ticket = Ticket.__new__(Ticket)
    ticket.asked, ticket.body = "alpha", b'{"model": "alpha", "messages": []}'
    assert json.loads(body_for(ticket, RoutedLlama("a-0123"), launch, 0)) == {"model": "a-0123", "messages": []}
    assert body_for(ticket, find_driver("llama.cpp"), launch, 0) is ticket.body


def test_llama_server_is_asked_for_an_adapter_by_its_number() -> None:
    adapters = (Adapter("legal", 8, "legal.gguf"), Adapter("poems", 8, "poems.gguf"))
    launch = Launch("a", "alpha", "llama.cpp", "11549", "m.gguf", EngineSettings(), 8080, adapters=adapters)
    assert "--lora-init-without-apply" in find_driver("llama.cpp").command(launch).argv
    for asked, wanted in (("poems", [{"id": 1, "scale": 1.0}]), ("alpha", [])):
        body = json.dumps({"model": asked, "lora": [{"id": 0, "scale": 9}]}).encode()
        ticket = Ticket.__new__(Ticket)
        ticket.asked, ticket.body = asked, body
        assert json.loads(body_for(ticket, find_driver("llama.cpp"), launch, 0)) == {
            "model": asked,
            "lora": wanted,
        }


@pytest.mark.parametrize("name", ["llama.cpp", "tgi", "ollama"])
def test_others_take_adapters_at_start_only(name: str) -> None:
    assert not changes_adapters(name)
