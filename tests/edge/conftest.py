"""A gateway that a test may break."""

from __future__ import annotations

import pytest

from bench.live_case import MIB, Gateway, plan_document


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
