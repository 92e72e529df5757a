"""llama-server's router mode: the preset file that it reads, and what it says of its models."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from cotenant.domain.engine import EngineSettings
from cotenant.domain.llama_cpp import LlamaCppOptions
from cotenant.domain.running import Health, Launch
from cotenant.domain.workload import Adapter
from cotenant.edge.engines import programs
from cotenant.edge.engines.llama_router import RoutedLlama, options_of, preset, router_command, section_of
from cotenant.errors import EngineError, InputError
from tests.edge.test_recorded_metrics import serving

LAUNCH = Launch(
    "alpha-1", "alpha", "llama.cpp", "b11434", "/models/a model.gguf",
    EngineSettings(llama_cpp=LlamaCppOptions(n_ctx=2048, n_parallel=2, n_gpu_layers=0)), 8001,
)  # fmt: skip


def test_a_section_holds_the_models_own_flags():
    lines = options_of(LAUNCH)
    assert {
        "m = /models/a model.gguf",
        "c = 2048",
        "np = 2",
        "ngl = 0",
        "metrics = true",
        "no-repack = true",
    } <= set(lines)
    assert not [one for one in lines if one.split(" ")[0] in ("alias", "host", "port")]
    text = preset([LAUNCH, replace(LAUNCH, id="b", checkpoint="/b.gguf"), LAUNCH])
    assert text.count("[") == 2
    assert text.startswith(f"version = 1\n\n[{section_of(LAUNCH)}]\n")


def test_a_section_is_named_by_what_it_runs():
    assert section_of(LAUNCH).startswith("alpha-1-")
    assert section_of(replace(LAUNCH, port=9999)) == section_of(LAUNCH)
    other = replace(LAUNCH.settings, llama_cpp=replace(LAUNCH.settings.llama_cpp, n_ctx=1024))
    assert section_of(replace(LAUNCH, settings=other)) != section_of(LAUNCH)
    assert section_of(replace(LAUNCH, id="org/x:y]\n")).startswith("org-x-y---")


def test_cards_and_adapters():
    settings = EngineSettings(llama_cpp=LlamaCppOptions(n_ctx=2048, n_gpu_layers=99))
    adapters = (Adapter("law", 16, "/law.gguf"), Adapter("tax", 16, "/tax.gguf"))
    lines = options_of(replace(LAUNCH, settings=settings, devices=(2, 3), adapters=adapters))
    assert "device = CUDA2,CUDA3" in lines
    assert "lora = /law.gguf,/tax.gguf" in lines
    command = router_command(Path("/s/router.ini"), 9000, key="secret")
    assert command.environment["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert command.environment["CUDA_VISIBLE_DEVICES"] == ",".join(map(str, range(16)))  # of any plan that follows
    assert command.environment["LLAMA_API_KEY"] == "secret"
    assert "secret" not in " ".join(command.argv)


@pytest.mark.parametrize("path", ["/a;b.gguf", "/a#b.gguf", "/a\nb = c.gguf", "/a.gguf "])
def test_what_a_preset_file_cannot_hold_is_refused(path):
    with pytest.raises(InputError, match="cannot hold"):
        preset([replace(LAUNCH, checkpoint=path)])


def test_the_wheel_has_no_router(monkeypatch):
    monkeypatch.setattr(programs, "kind", lambda engine: "wheel")
    with pytest.raises(InputError, match="no router mode"):
        router_command(Path("/s/router.ini"), 9000)


@pytest.mark.parametrize(
    ("status", "health"),
    [
        ({"value": "loaded"}, Health.READY),
        ({"value": "loading"}, Health.LOADING),
        ({"value": "sleeping"}, Health.ASLEEP),
        ({"value": "unloaded"}, Health.SILENT),
        ({"value": "unloaded", "failed": True, "exit_code": 1}, Health.UNWELL),
        ({}, Health.SILENT),
        ("loaded", Health.SILENT),
    ],
)
def test_what_the_router_says_of_a_model(status, health):
    rows = [{"id": "other", "status": {"value": "loaded"}}, 7, {"id": "alpha-1", "status": status}]
    with serving(json.dumps({"data": rows})) as url:
        assert RoutedLlama("alpha-1").health(url) is health
    assert RoutedLlama("alpha-1").health("http://127.0.0.1:1") is Health.SILENT


@pytest.mark.parametrize("text", ["[]", "{}", '{"data": {}}', '{"data": [{"id": "alpha-1"}]}', "no"])
def test_an_older_server_has_no_such_models(text):
    with serving(text) as url:
        assert RoutedLlama("alpha-1").health(url) is Health.SILENT
        with pytest.raises(EngineError):
            RoutedLlama("alpha-1")._status(url, 2.0, "")
