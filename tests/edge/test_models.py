"""What a name means: a value, raw figures, a path, the catalogue, the hub."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cotenant.catalogue.models import find_entry
from cotenant.edge.models import open_model
from cotenant.errors import CotenantError, HubError, InputError, InputErrors, UnknownModelError

BASE = "meta-llama/Llama-3.1-8B-Instruct"


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_values_are_themselves() -> None:
    loaded = open_model(BASE)
    assert open_model(loaded) is loaded
    assert open_model(loaded.spec).spec is loaded.spec


@pytest.mark.parametrize("name", [BASE, BASE.upper(), "llama-3.1-8b-instruct", f"  {BASE} "])
def test_catalogue_names(name: str) -> None:
    loaded = open_model(name)
    assert loaded.model_id == BASE
    assert loaded.spec.num_parameters == 8_030_261_248
    assert loaded.task == "chat"


def test_an_alias_is_another_model_of_the_same_structure() -> None:
    loaded = open_model("NousResearch/Hermes-3-Llama-3.1-8B")
    assert loaded.model_id == loaded.spec.name == "NousResearch/Hermes-3-Llama-3.1-8B"
    assert loaded.spec.num_parameters == 8_030_261_248
    assert loaded.checkpoints == {}  # those of the base hold other weights


def test_raw_figures_and_a_parsed_config() -> None:
    assert open_model({"weights": "14GB", "kv_per_token": "128KiB"}).spec.stored_bytes == 14_000_000_000
    assert open_model("{weights: 14GB, kv_per_token: 128KiB}").spec.stored_bytes == 14_000_000_000
    entry = find_entry(BASE)
    assert entry is not None
    assert open_model(entry.config).spec.num_parameters == 8_030_261_248


def test_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = find_entry(BASE)
    assert entry is not None
    folder = tmp_path / "meta-llama" / "mine"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(dict(entry.config)))
    monkeypatch.chdir(tmp_path)
    for source in (folder, str(folder), "./meta-llama/mine", "meta-llama/mine", folder / "config.json"):
        assert open_model(source).spec.num_parameters == 8_030_261_248
    with pytest.raises(UnknownModelError):
        open_model("./nowhere")


def test_unknown_names_are_refused_with_the_nearest() -> None:
    with pytest.raises(UnknownModelError) as refused:
        open_model("lama-3.1-8b-instruct")
    assert "Llama-3.1-8B-Instruct" in refused.value.hint
    with pytest.raises(HubError):
        open_model("someone/something-of-theirs")


@pytest.mark.parametrize(
    "source", ["", "\0", "x" * 5000, 7, None, [], b"bytes", "{", "{a: [", "a/b/c", "/", "a//b"]
)
def test_nonsense_is_refused(source: object) -> None:
    with pytest.raises(CotenantError):
        open_model(source)


def test_an_unreadable_mapping_is_refused() -> None:
    with pytest.raises(InputErrors):
        open_model({"weights": "14GB"})
    with pytest.raises(InputError):
        open_model({"architectures": ["NoSuchModel"]})
