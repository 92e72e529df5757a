"""CONTRIBUTING's recipes, followed as they stand: on a copy of the package, with the page's own blocks."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
MODEL = {"parameters": "7B", "layers": 32, "kv_heads": 8, "head_dim": 128}


def blocks(section: str, language: str) -> list[str]:
    """The code blocks of one language in one section."""
    text = re.split(r"^## ", PAGE.split(f"## {section}\n")[1], flags=re.MULTILINE)[0]
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A copy of the package's source."""
    kept = shutil.ignore_patterns("__pycache__")
    return Path(shutil.copytree(ROOT / "src" / "cotenant", tmp_path / "src" / "cotenant", ignore=kept))


def asked(house: Path, *words: str) -> dict[str, object]:
    """What the copy answers on its command line."""
    environment = {
        **os.environ, "PYTHONPATH": str(house.parent), "HF_HUB_OFFLINE": "1", "XDG_CONFIG_HOME": str(house.parent),
        "XDG_CACHE_HOME": str(house.parent), "XDG_DATA_HOME": str(house.parent),
    }  # fmt: skip
    command = [sys.executable, "-m", "cotenant", *words, "--json"]
    done = subprocess.run(
        command, cwd=house.parent, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1, f"{path.name}: {old!r}"
    path.write_text(text.replace(old, new), encoding="utf-8")


def add_row(path: Path, under: str, row: str) -> None:
    """One more row of a catalogue file, which is a list or holds it."""
    document = json.loads(path.read_text(encoding="utf-8"))
    rows = document[under] if isinstance(document, dict) else document
    rows.append(json.loads(row))
    path.write_text(json.dumps(document), encoding="utf-8")


def test_add_a_gpu(house: Path) -> None:
    (row,) = blocks("Add a GPU", "json")
    add_row(house / "catalogue" / "gpus.json", "gpus", row)
    (card,) = asked(house, "gpus", "example")["gpus"]  # type: ignore[misc]
    assert card["name"] == "Example-96GB"
    assert card["driver_bytes"] == 96 * 2**30
    assert not card["cuda_measured"]
    found = asked(house, "estimate", json.dumps(MODEL), "--gpu", "example-96gb", "--max-model-len", "8192")
    assert found["fits"] is True


def test_add_a_model_family(house: Path, tmp_path: Path) -> None:
    (text,) = blocks("Add a model family", "python")
    (house / "readers" / "families" / "example.py").write_text(text, encoding="utf-8")
    config = {
        "architectures": ["ExampleForCausalLM"], "model_type": "example", "hidden_size": 1024,
        "num_hidden_layers": 4, "num_attention_heads": 16, "num_key_value_heads": 4, "intermediate_size": 4096,
        "vocab_size": 32000, "max_position_embeddings": 8192, "torch_dtype": "bfloat16",
        "tie_word_embeddings": False,
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    found = asked(house, "inspect", str(tmp_path / "config.json"))
    per_layer = 1024 * (1024 + 2 * 256) + (1024 + 2 * 256) + 1024 * 1024 + 3 * 1024 * 4096 + 2 * 1024
    assert found["parameters"] == 2 * 32000 * 1024 + 4 * per_layer + 1024


def test_add_an_engine(house: Path) -> None:
    rules, hosting = blocks("Add an engine", "python")
    (row,) = blocks("Add an engine", "json")
    engines = house / "engines"
    (engines / "example.py").write_text(rules, encoding="utf-8")
    (engines / "hosting" / "example.py").write_text(hosting, encoding="utf-8")
    change(engines / "__init__.py", '    "ollama": (),\n', '    "ollama": (),\n    "example": (),\n')
    change(
        engines / "__init__.py",
        '    "ollama": "ollama:OLLAMA",\n',
        '    "ollama": "ollama:OLLAMA",\n    "example": "example:EXAMPLE",\n',
    )
    change(
        engines / "hosting" / "__init__.py",
        '    "ollama": "ollama",\n',
        '    "ollama": "ollama",\n    "example": "example",\n',
    )
    add_row(house / "catalogue" / "quantization.json", "support", row)
    told = ("--gpu", "A100-80GB-SXM", "--max-model-len", "8192")
    ours = asked(house, "estimate", json.dumps(MODEL), *told, "--engine", "example")
    theirs = asked(house, "estimate", json.dumps(MODEL), *told, "--engine", "vllm@0.21")
    assert ours["per_gpu"] == theirs["per_gpu"]
    assert ours["arguments"][:2] == ["example", "serve"]  # type: ignore[index]
    fleet = {
        "engine": "example", "gpus": [{"type": "A100-80GB-SXM", "count": 1}],
        "models": [{
            "name": "chat", "model": "meta-llama/Llama-3.1-8B-Instruct", "quantization": ["bf16"],
            "traffic": {"concurrent": 4, "context_tokens": {"p95": 2048}},
        }],
    }  # fmt: skip
    (house.parent / "fleet.json").write_text(json.dumps(fleet), encoding="utf-8")
    deployed = asked(house, "deploy", str(house.parent / "fleet.json"), "--to", "kubernetes")
    assert "example/example:v0.21.0" in str(deployed["files"])
