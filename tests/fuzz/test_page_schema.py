"""The page's OpenAPI document held against the running server, by schemathesis: every answer is one that the
document has, in its shape, and nothing ends in a fault.

Kept apart, as it takes a minute: ``COTENANT_FUZZ=1 python -m pytest tests/fuzz`` with the extra `fuzz`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

if not os.environ.get("COTENANT_FUZZ"):
    pytest.skip("COTENANT_FUZZ=1 runs it", allow_module_level=True)
schemathesis = pytest.importorskip("schemathesis")
checks = pytest.importorskip("schemathesis.specs.openapi.checks")

from cotenant.web.state import Options  # noqa: E402
from tests.web.conftest import Page, served  # noqa: E402

_ASKED = tuple(
    (f"/api/{name}", "POST") for name in ("estimate", "check", "deploy", "explain", "models", "plan", "simulate")
)
_READ = (*((f"/api/{name}", "GET") for name in ("catalogue", "opens", "live")), *(
    (f"/api/jobs/{{job_id}}{rest}", method)
    for rest, method in (("", "GET"), ("", "DELETE"), ("/result", "GET"), ("/events", "GET"))
))  # fmt: skip
_LEFT_OUT = [checks.positive_data_acceptance]  # what a schema cannot say is refused all the same, with 422


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    yield from served(Options(port=0))


def _cases() -> list[tuple[str, str, Any]]:
    modes = list(schemathesis.GenerationMode)
    asked = [(path, method, mode) for path, method in _ASKED for mode in modes]
    return [*asked, *((path, method, schemathesis.GenerationMode.POSITIVE) for path, method in _READ)]


@pytest.mark.parametrize(("path", "method", "mode"), _cases())
def test_the_page_keeps_its_word(page: Page, path: str, method: str, mode: Any) -> None:
    document = schemathesis.openapi.from_url(f"http://127.0.0.1:{page.port}/api/openapi.json")

    @settings(
        max_examples=20, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
    )
    @given(document[path][method].as_strategy(generation_mode=mode))
    def check(case: Any) -> None:
        answer = case.call(timeout=60)
        assert answer.status_code < 500
        too_long = [checks.negative_data_rejection] if answer.status_code == 413 else []  # before it is read
        case.validate_response(answer, excluded_checks=[*_LEFT_OUT, *too_long])
        if answer.status_code == 202:
            page.ask("DELETE", f"/api/jobs/{answer.json()['job']}")

    check()
