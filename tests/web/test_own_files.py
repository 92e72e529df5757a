"""The user's own cards and models are read as they are now, by whatever is asked."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cotenant.catalogue import gpus
from cotenant.web.state import Options
from tests.web.conftest import Page, served

CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 512, "vocab_size": 1000,
    "intermediate_size": 1024, "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 4,
    "max_position_embeddings": 2048, "torch_dtype": "bfloat16",
}  # fmt: skip


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Page, Path]]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    folder = tmp_path / "cotenant" / "catalogue"
    folder.mkdir(parents=True)
    for page in served(Options(port=0)):
        yield page, folder


def weights(page: Page, model: str) -> int:
    answer = page.post("/api/estimate", {"model": model, "gpu": "L4"})
    assert answer.status == 200, answer.body
    return int(answer.document["per_gpu"][0]["weights_bytes"])


def test_models_that_are_edited_are_read_again(home: tuple[Page, Path], tmp_path: Path) -> None:
    page, own = home
    stored = tmp_path / "lab-model"
    stored.mkdir()
    (stored / "config.json").write_text(json.dumps(CONFIG))
    row: dict[str, Any] = {
        "name": "lab",
        "model": {"parameters": "1B", "layers": 8, "kv_heads": 2, "head_dim": 64},
    }
    (own / "models.json").write_text(json.dumps({"models": [row, {"name": "stored", "model": str(stored)}]}))
    first, kept = weights(page, "lab"), weights(page, "stored")
    fleet = {
        "gpus": [{"type": "L4", "count": 1}],
        "models": [{"name": "a", "model": "lab", "traffic": {"concurrent": 1, "context_tokens": {"p95": 512}}}],
    }
    plan = page.job("/api/plan", {"fleet": fleet}).document
    before = page.post("/api/check", {"plan": plan}).document["gpus"][0]["replicas"][0]["weights_bytes"]
    row["model"]["parameters"] = "2B"
    (own / "models.json").write_text(json.dumps({"models": [row, {"name": "stored", "model": str(stored)}]}))
    assert weights(page, "lab") > 1.9 * first
    after = page.post("/api/check", {"plan": plan}).document["gpus"][0]["replicas"][0]["weights_bytes"]
    assert after > 1.9 * before
    # and the file that a row names, though no file of our own changed
    (stored / "config.json").write_text(json.dumps(CONFIG | {"num_hidden_layers": 20}))
    assert weights(page, "stored") > kept
    # a row that went is no model any more
    os.remove(own / "models.json")
    assert page.post("/api/estimate", {"model": "lab", "gpu": "L4"}).status == 422


def test_cards_that_are_edited_are_offered_anew(home: tuple[Page, Path]) -> None:
    page, own = home
    row = json.loads(Path(gpus.__file__).with_name("gpus.json").read_text())[0] | {
        "name": "My-Card",
        "aliases": [],
        "price": None,
    }
    (own / "gpus.json").write_text(json.dumps([row]))
    offered = {one["name"]: one for one in page.get("/api/catalogue").document["gpus"]}
    assert offered["My-Card"]["price_per_hour"] is None
    (own / "gpus.json").write_text(json.dumps([row | {"name": "My-Other-Card"}]))
    names = {one["name"] for one in page.get("/api/catalogue").document["gpus"]}
    assert "My-Other-Card" in names
    assert "My-Card" not in names
