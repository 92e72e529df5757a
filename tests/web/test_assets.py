"""The page's files: packed, hashed, and nothing beside them."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

from cotenant.web.assets import Assets
from tests.web.conftest import Page


@pytest.mark.parametrize(
    "name",
    [
        "../app.py",
        "..%2fapp.py",
        "%2e%2e/app.py",
        "....//app.py",
        "/etc/passwd",
        "..\\app.py",
        "%2fetc%2fpasswd",
        "",
    ],
)
def test_no_name_climbs_out(page: Page, name: str) -> None:
    answer = page.get(f"/static/{name}")
    assert answer.status == 404
    assert answer.errors


def test_files_are_found_by_a_listing(tmp_path: Path) -> None:
    folder = tmp_path / "static"
    (folder / "inner").mkdir(parents=True)
    (folder / "inner" / "a.js").write_text("let a = 1;\n" * 100)
    (folder / "secret.py").write_text("x")
    (tmp_path / "out.js").write_text("x")
    (folder / "link.js").symlink_to(tmp_path / "out.js")
    assets = Assets(folder)
    found = assets.find("inner/a.js")
    assert found is not None
    assert found.packed is not None
    assert gzip.decompress(found.packed) == found.data
    for name in ("secret.py", "link.js", "../out.js", "inner/../inner/a.js", "inner", "/inner/a.js"):
        assert assets.find(name) is None


def test_a_page_names_its_files_by_hash_and_a_change_changes_it(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text('<script src="/static/a.js"></script><img src="/static/none.png">')
    (tmp_path / "a.js").write_text("1")
    assets = Assets(tmp_path)
    first, script = assets.find("index.html"), assets.find("a.js")
    assert first is not None
    assert script is not None
    assert f'src="/static/a.js?v={script.hash}"'.encode() in first.data
    assert b'"/static/none.png"' in first.data


def test_what_a_browser_has_is_not_sent_again(page: Page) -> None:
    first = page.get("/api/catalogue", accept_encoding="gzip")
    assert first.headers["content-encoding"] == "gzip"
    plain = page.get("/api/catalogue")
    assert "content-encoding" not in plain.headers
    assert gzip.decompress(first.body) == plain.body
    again = page.get("/api/catalogue", if_none_match=first.headers["etag"])
    assert (again.status, again.body) == (304, b"")


def test_the_catalogue_offers_what_the_commands_know(page: Page) -> None:
    told = page.get("/api/catalogue").document
    models = {one["name"]: one for one in told["models"]}
    assert models["meta-llama/Llama-3.1-8B-Instruct"]["parameters"] == 8_030_261_248
    assert models["meta-llama/Llama-3.1-8B-Instruct"]["context_tokens"] == 131_072
    cards = {one["name"]: one for one in told["gpus"]}
    assert cards["A100-80GB-SXM"]["driver_bytes"] == 80 * 2**30
    assert {one["id"] for one in told["engines"]} == {
        "vllm",
        "sglang",
        "tgi",
        "tensorrt-llm",
        "llama.cpp",
        "ollama",
    }
    assert "compose" in {one["name"] for one in told["targets"]}
    assert all(one["fleet"].strip() for one in told["examples"])


def test_examples_are_those_of_the_repository(page: Page) -> None:
    """But for the first lines, which speak of the command line and of editors."""
    folder = Path(__file__).resolve().parents[2] / "examples"

    def kept(text: str) -> list[str]:
        return [line for line in text.splitlines() if not line.startswith("#")]

    examples = page.get("/api/catalogue").document["examples"]
    assert len(examples) >= 5
    for one in examples:
        assert kept(one["fleet"]) == kept((folder / f"{one['name']}.yaml").read_text())


def test_openapi_names_every_path(page: Page) -> None:
    paths = page.get("/api/openapi.json").document["paths"]
    assert {f"/api/{name}" for name in ("catalogue", "estimate", "plan", "check", "simulate", "explain")} <= set(
        paths
    )
    assert "gpu_memory_utilization" in str(page.get("/api/openapi.json").document["components"]["schemas"])
    for docs in ("/docs", "/redoc"):
        assert page.get(docs).status == 404


def test_openapi_has_the_statuses_that_the_manual_has(page: Page) -> None:
    """But 405, which is of no path and method that there is."""
    paths = page.get("/api/openapi.json").document["paths"]
    published = {code for path in paths.values() for one in path.values() for code in one["responses"]}
    manual = (Path(__file__).parents[2] / "docs" / "commands" / "ui.md").read_text()
    told = {code for row in re.findall(r"^\| ([\d, ]+) \|", manual, re.MULTILINE) for code in row.split(", ")}
    assert told - published == {"405"}
    assert {code for code in published if int(code) >= 400} <= told
    assert "404" in paths["/api/jobs/{job_id}"]["get"]["responses"]
