"""What every target has in common: the plan's own flags, the same bytes twice, clear refusals."""

from __future__ import annotations

import re

import pytest
import yaml
from click.testing import CliRunner

from cotenant import api
from cotenant.cli.root import cli
from cotenant.deployment.launch import launches, slugs
from cotenant.deployment.targets import TARGETS, export
from cotenant.errors import CotenantError, InputError, UnsupportedError
from cotenant.readers.plan_document import read_plan
from tests.deployment.conftest import ENGINES, EXAMPLES, document, plan_of, trio


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("engine", ENGINES)
def test_exported_twice_the_difference_is_empty(target: str, engine: str) -> None:
    told = TARGETS[target]
    if told.engines is not None and engine not in told.engines:
        with pytest.raises(CotenantError, match=f"cannot start {engine}"):
            export(plan_of(engine), target)
        return
    if not told.shares:
        with pytest.raises(CotenantError, match="cards of its own"):
            export(plan_of(engine), target)
        return
    first, second = export(plan_of(engine), target), export(plan_of(engine), target)
    assert first == second
    assert first.files
    names = [file.name for file in first.files]
    assert len(names) == len(set(names))
    for file in first.files:
        assert file.text.endswith("\n")
        assert not file.name.startswith("/")
        if file.name.endswith(".yaml"):
            assert list(yaml.safe_load_all(file.text))


def test_order_and_waiting_follow_the_plan() -> None:
    found = launches(trio())
    assert [one.replica.id for one in found] == ["chat", "triage", "code"]
    assert [one.waits_for for one in found] == [(), ("chat",), ("triage",)]


def test_words_are_those_of_the_plan() -> None:
    for one in launches(trio()):
        assert one.argv == one.replica.command


def test_an_unknown_target_lists_the_known() -> None:
    with pytest.raises(InputError) as caught:
        export(trio(), "compos")
    assert "did you mean compose?" in caught.value.hint
    assert all(name in caught.value.hint for name in TARGETS)


def test_names_become_hosts_and_stay_apart() -> None:
    assert slugs(["Chat 70B", "chat-70b", "70b", "", "é"]) == ("chat-70b", "chat-70b-2", "m-70b", "m", "m-2")
    assert slugs(["m-2", "é"]) == ("m-2", "m")


def test_machines_get_folders() -> None:
    told = document()
    told["replicas"][1]["devices"][0]["node"] = 1
    names = {file.name for file in export(read_plan(told), "compose").files}
    assert names == {"node-0/compose.yaml", "node-1/compose.yaml"}


@pytest.mark.parametrize("target", TARGETS)
def test_no_secret_is_written(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_this_is_a_secret")
    try:
        found = export(trio(), target)
    except CotenantError:
        return
    assert not any("hf_this_is_a_secret" in file.text for file in found.files)


def test_the_command_writes_whole_files_and_says_so(tmp_path, monkeypatch) -> None:
    arguments = ["deploy", str(EXAMPLES / "a100-trio.yaml"), "--to", "commands", "--out", str(tmp_path / "out")]
    for _ in range(2):
        result = CliRunner().invoke(cli, arguments)
        assert result.exit_code == 0, result.output
        assert result.stdout == ""
    made = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert made == sorted(file.name for file in export(trio(), "commands").files)
    assert (tmp_path / "out" / "start.sh").stat().st_mode & 0o111
    assert not (tmp_path / "out" / "chat.env").stat().st_mode & 0o111


def test_a_plan_without_room_is_written_with_status_3(tmp_path) -> None:
    result = CliRunner().invoke(cli, ["deploy", str(EXAMPLES / "does-not-fit.yaml"), "--to", "compose"])
    assert result.exit_code in (1, 3)
    assert "no place" in result.stderr or "places no replica" in result.stderr


def test_the_same_from_a_plan_a_path_and_a_mapping(tmp_path) -> None:
    import json

    (tmp_path / "plan.json").write_text(json.dumps(document()))
    found = api.deploy(document(), to="compose")
    assert api.deploy(tmp_path / "plan.json", to="compose") == found
    assert api.deploy(plan_of(), to="compose") == found
    assert found.files[0].text == export(plan_of(), "compose").files[0].text


@pytest.mark.parametrize("fleet", ["a100-trio", "day-and-night", "shop-four-types", "raw-figures"])
def test_a_refusal_names_targets_that_take_the_plan_and_no_other(fleet: str) -> None:
    plan = api.plan(EXAMPLES / f"{fleet}.yaml")
    taken, refused = set(), {}
    for name in TARGETS:
        try:
            export(plan, name)
            taken.add(name)
        except UnsupportedError as error:
            refused[name] = error.hint
    assert refused
    for hint in refused.values():
        named = {name for name in TARGETS if re.search(rf"(?<![a-z-]){name}(?![a-z-])", hint)}
        assert named
        assert named <= taken
