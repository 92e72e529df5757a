"""What a name means: a value, raw figures, a path, the catalogue, the hub."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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


def test_a_slip_in_a_hub_id_is_met_with_the_name_that_was_meant() -> None:
    with pytest.raises(HubError) as caught:
        open_model("meta-llama/Llama-3.1-8B-Instuct")
    assert caught.value.hint.startswith(f"did you mean {BASE}? ")
    with pytest.raises(HubError) as caught:
        open_model("acme/something-of-our-own")
    assert "did you mean" not in caught.value.hint


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


@settings(max_examples=150, deadline=None)
@given(st.one_of(st.text(max_size=400), st.from_regex(r"[./~a-zA-Z]{1,6}/[a-zA-Z0-9_.-]{1,12}", fullmatch=True)))
def test_any_text_names_a_model_or_is_refused(text: str) -> None:
    with contextlib.suppress(CotenantError):
        assert open_model(text).spec.num_layers > 0


@pytest.mark.parametrize(
    "source",
    [
        "",
        "\0",
        "a" * 300,
        "x" * 5000,
        7,
        None,
        [],
        b"bytes",
        "{",
        "{a: [",
        "a/b/c",
        "/",
        "a//b",
        "0/-",
        "é/x",
        "a/b.git",
    ],
)
def test_nonsense_is_refused(source: object) -> None:
    with pytest.raises(CotenantError):
        open_model(source)


def test_an_unreadable_mapping_is_refused() -> None:
    with pytest.raises(InputErrors):
        open_model({"weights": "14GB"})
    with pytest.raises(InputError):
        open_model({"architectures": ["NoSuchModel"]})


OWN = """
models:
  - name: lab-7b
    aliases: [Lab]
    model: {parameters: 7B, layers: 32, kv_heads: 8, head_dim: 128}
    path: /models/lab-7b
    task: code
    checkpoints: {FP8: /models/lab-7b-fp8}
  - {name: tuned, model: meta-llama/Llama-3.1-8B-Instruct, path: /models/tuned}
  - {name: meta-llama/Llama-3.1-70B-Instruct, model: meta-llama/Llama-3.1-70B-Instruct, task: code}
"""


@pytest.fixture
def catalogue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    folder = tmp_path / "config" / "cotenant" / "catalogue"
    folder.mkdir(parents=True)
    return folder / "models.yaml"


def test_the_users_own_models(catalogue: Path) -> None:
    catalogue.write_text(OWN)
    loaded = open_model("lab")
    assert (loaded.spec.name, loaded.model_id, loaded.task) == ("lab-7b", "/models/lab-7b", "code")
    assert loaded.checkpoints == {"bf16": "/models/lab-7b", "fp8": "/models/lab-7b-fp8"}
    tuned = open_model("tuned")
    assert (tuned.spec.name, tuned.model_id) == ("tuned", "/models/tuned")
    assert tuned.spec.num_parameters == 8_030_261_248
    assert open_model("meta-llama/Llama-3.1-70B-Instruct").task == "code"


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("models: [{name: x}]", "$.models[0].model"),
        ("models: [{name: x, model: y, size: 3}]", "$.models[0].size"),
        ("models: [{name: x, model: y, task: cod}]", "$.models[0].task"),
        ("models: [{name: x, model: y, checkpoints: {zip: a/b}}]", "$.models[0].checkpoints.zip"),
        ("models: [{name: x, model: y, checkpoints: [a]}]", "$.models[0].checkpoints"),
        ("models: 3", "$.models"),
        ("others: []", "$.models"),
    ],
)
def test_faults_of_the_users_file_name_it(catalogue: Path, text: str, path: str) -> None:
    catalogue.write_text(text)
    with pytest.raises(CotenantError) as refused:
        open_model("x")
    assert [fault.path for fault in refused.value.faults()] == [f"{catalogue} {path}"]


def test_rows_that_name_each_other_make_no_ring(catalogue: Path) -> None:
    catalogue.write_text("models: [{name: a, model: b}, {name: b, model: a}, {name: c, model: c}]")
    for name in ("a", "b", "c"):
        with pytest.raises(UnknownModelError):
            open_model(name)
