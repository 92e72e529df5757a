"""The gateway's OpenAPI document held against the running gateway, by schemathesis: what fits the document is
answered as it says, what does not is refused, and nothing ends in a fault.

Kept apart, as it takes half a minute: ``COTENANT_FUZZ=1 python -m pytest tests/fuzz`` with the extra `fuzz`.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, given, settings

from bench.live_case import MIB, Gateway, plan_document

if not os.environ.get("COTENANT_FUZZ"):
    pytest.skip("COTENANT_FUZZ=1 runs it", allow_module_level=True)
schemathesis = pytest.importorskip("schemathesis")
not_a_server_error = pytest.importorskip("schemathesis.checks").not_a_server_error
pytest.importorskip("aiohttp")

KEY = "alice-secret-key"


@pytest.fixture(scope="session")
def gateway(tmp_path_factory):
    folder = tmp_path_factory.mktemp("schema")
    keys = folder / "keys"
    keys.write_text(f"alice {KEY}\n")
    keys.chmod(0o600)
    models = {"alpha": 100 * MIB, "beta": 100 * MIB}
    one = Gateway(
        folder, plan_document(models, 300 * MIB), "--quiet", "--api-keys", str(keys), "--max-body", "1MiB"
    )
    yield one
    one.stop()


@pytest.fixture(scope="session")
def document(gateway):
    url = f"http://127.0.0.1:{gateway.port}/openapi.json"
    return schemathesis.openapi.from_url(url, headers={"Authorization": f"Bearer {KEY}"})


def cases() -> list[object]:
    """Each operation with requests as the document wants them, and with such that it does not allow, if any."""
    from cotenant.edge.gateway.openapi import OPERATIONS

    return [
        (one.method, one.path, mode)
        for one in OPERATIONS
        for mode in schemathesis.GenerationMode
        if not one.open or mode is schemathesis.GenerationMode.POSITIVE
    ]


@pytest.mark.parametrize(("method", "path", "mode"), cases())
def test_the_gateway_keeps_its_word(document, method, path, mode):
    @settings(
        max_examples=25, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
    )
    @given(document[path][method].as_strategy(generation_mode=mode))
    def check(case):
        answer = case.call(headers={"Authorization": f"Bearer {KEY}"}, timeout=20)
        assert answer.status_code not in (500, 502, 503)
        case.validate_response(answer, excluded_checks=[not_a_server_error])  # a 504 keeps a short deadline

    check()


def test_it_lives_on(gateway):
    assert gateway.chat("alpha", headers={"Authorization": f"Bearer {KEY}"})[0] == 200
    logged = gateway.logged()
    assert '"fault"' not in logged
    assert '"internal_error"' not in logged
    assert KEY not in logged
