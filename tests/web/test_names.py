"""What a request may name, and that no path is ever followed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.errors import CotenantError, InputErrors, UnknownModelError
from cotenant.web.names import checked_fleet, checked_words, is_hub_id, opener
from tests.web.conftest import LLAMA, Page

PATHS = [
    "/etc/passwd", "./model", "../model", "~/model", "model/", "/", "..", ".", "a/../b", "a/b/c", "C:\\model",
    "a\\b",
    "file:///etc/passwd", "http://169.254.169.254/x", "https://hub/x", "config.json", "a/config.json", "a/b.gguf",
    "\\\\host\\share", "a/b\0", "{model: 1}", '{"path": "/etc"}', "-", "",
]  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
def test_a_path_is_no_model(page: Page, path: str) -> None:
    for answer in (
        page.post("/api/estimate", {"model": path, "gpu": "L4"}),
        page.post("/api/models", {"hub": path}),
        page.job("/api/plan", {"fleet": {"gpus": [{"type": "L4", "count": 1}], "models": [
            {"name": "a", "model": path, "traffic": {"concurrent": 1, "context_tokens": {"p95": 100}}}]}})
        if path in ("/etc/passwd", "./model", "a/b.gguf") else page.post("/api/models", {"hub": path}),
    ):  # fmt: skip
        assert answer.status == 422
        assert answer.errors


@pytest.mark.parametrize("path", ["/srv/llama", "./model", "~/model", "C:\\model", "a/b/c", "a/b.gguf"])
def test_whoever_names_a_folder_hears_what_to_do_with_it(page: Page, path: str) -> None:
    (fault,) = page.post("/api/estimate", {"model": path, "gpu": "L4"}).document["errors"]
    assert "opens no file or folder" in fault["error"]
    assert "drop its config.json" in fault["hint"]


@pytest.mark.parametrize("path", [one for one in PATHS if one not in ("", "config.json")])
def test_a_path_is_refused_wherever_one_could_stand(path: str) -> None:
    for words in (
        {"speculative_config": {"method": "draft", "model": path}},
        {"options": {"speculative_draft_model_path": path}},
        {"adapters": [{"name": "a", "rank": 8, "source": path}]},
    ):
        with pytest.raises(InputErrors):
            checked_words(words)
    for model in (
        {"quantization": [{"fp8": path}]},
        {"adapters": [{"name": "a", "rank": 8, "source": path}]},
        {"speculative_config": {"model": path}},
        {"traffic": {"trace": path}},
    ):
        with pytest.raises(InputErrors) as caught:
            checked_fleet({"models": [model]})
        assert caught.value.faults()[0].path.startswith("$.models[0].")


def test_a_folder_of_the_name_is_not_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the command line would open from its working folder, a page gets from the catalogue."""
    (tmp_path / LLAMA).mkdir(parents=True)
    (tmp_path / LLAMA / "config.json").write_text("{}")
    (tmp_path / "own" / "model").mkdir(parents=True)
    (tmp_path / "own" / "model" / "config.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    load = opener({})
    assert load(LLAMA).spec.num_parameters == 8_030_261_248
    with pytest.raises(CotenantError) as caught:
        load("own/model")
    assert str(tmp_path) not in str(caught.value)


@given(st.text(alphabet="ab/.~:\\@-_ \0%", max_size=20))
def test_what_passes_for_a_hub_id_has_two_plain_parts(text: str) -> None:
    if is_hub_id(text):
        name = text.partition("@")[0].partition(":")[0]
        assert name.count("/") == 1
        assert ".." not in text
        assert not set(text) & set("\\~ \0%")
        assert not text.startswith(("/", "."))


@pytest.mark.parametrize("name", [None, 7, [], True, "x" * 201])
def test_other_values_are_no_models(name: object) -> None:
    with pytest.raises(UnknownModelError):
        opener({})(name)


def test_drafts_adapters_and_checkpoints_may_be_hub_ids() -> None:
    checked_words({"adapters": [{"name": "a", "rank": 8, "source": "owner/adapter"}]})
    checked_words({"speculative_config": {"model": "owner/draft", "num_speculative_tokens": 2}})
    checked_fleet({"models": [{"quantization": ["fp8", {"awq-int4": "owner/model-awq"}]}]})
    for odd in (None, 7, [], {}, {"models": 7}, {"models": [7, {}]}, {"models": [{"adapters": 7, "traffic": 7}]}):
        checked_fleet(odd)


def test_a_page_is_not_told_of_folders_and_error_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the hub's silence means for a page: no folder here, no variable, no raw number of the system."""
    from cotenant.edge import models
    from cotenant.errors import HubError

    def silent(name: str) -> None:
        raise HubError(
            f"the hub cannot be reached for {name}: [Errno -2] Name or service not known",
            hint="use a catalogue name, a downloaded folder or a .gguf file",
        )

    monkeypatch.setattr(models, "open_named", silent)
    with pytest.raises(HubError) as caught:
        opener({})("some/thing")
    assert caught.value.message == "the hub cannot be reached for some/thing: Name or service not known"
    assert "folder" not in caught.value.hint
    assert "upload" in caught.value.hint


def test_every_share_of_a_card_is_taken_by_its_engine() -> None:
    """The slider `utilisation` stands where an engine has such a flag, and there alone."""
    import cotenant
    from cotenant.errors import CotenantError
    from cotenant.web.catalogue import catalogue_document

    told = {one["id"]: one["utilisation"] for one in catalogue_document()["engines"]}
    assert told["sglang"] == "mem_fraction_static"
    assert told["tgi"] == "cuda_memory_fraction"
    for engine, option in told.items():
        asked: dict[str, Any] = {"gpu": "L40S", "engine": engine, "gpu_memory_utilization": 0.7}
        if option is None:
            with pytest.raises(CotenantError, match="takes no share"):
                cotenant.estimate("Qwen/Qwen3-8B", **asked)
        else:
            assert cotenant.estimate("Qwen/Qwen3-8B", **asked).settings.gpu_memory_utilization == 0.7


def test_an_estimate_may_say_all_that_python_may() -> None:
    """But what changes what the server itself knows."""
    from cotenant.api.asked import Asked
    from cotenant.web.bodies import EstimateBody

    assert set(EstimateBody.model_fields) == {"model", "gpu", *Asked.__annotations__}


def test_a_replay_may_have_all_conditions_that_there_are() -> None:
    from inspect import signature

    from cotenant.simulation.conditions import conditions_of
    from cotenant.web.bodies import SimulateBody
    from cotenant.web.work import CONDITIONS

    assert set(CONDITIONS) == set(signature(conditions_of).parameters)
    assert set(CONDITIONS) <= set(SimulateBody.model_fields)
