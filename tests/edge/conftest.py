"""A gateway that a test may break."""

from __future__ import annotations

import sys

import pytest

from bench.live_case import MIB, STUB, Gateway, plan_document
from cotenant.edge.engines import programs


@pytest.fixture
def own(tmp_path):
    """One that a test may break: two models on a budget for one."""
    started = []

    def start(*flags, document=None, **more):
        models = {"alpha": 100 * MIB, "beta": 100 * MIB}
        one = Gateway(tmp_path, document or plan_document(models, 150 * MIB), "--residency", "0s", *flags, **more)
        started.append(one)
        return one

    yield start
    for one in started:
        one.stop()


@pytest.fixture
def stub(tmp_path, monkeypatch):
    """The stub as llama.cpp's program; our own folders apart."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    script = tmp_path / "llama-server"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "{STUB}" "$@"\n')
    script.chmod(0o755)
    monkeypatch.setattr(programs, "_told", {})
    programs.tell({"llama.cpp": str(script)})
    return script
