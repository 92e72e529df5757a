"""Engines that are not here, or are of another version than the plan's: said before anything is started."""

from __future__ import annotations

import json
import sys
from importlib.metadata import version as version_of

import pytest
from click.testing import CliRunner

from cotenant.cli.root import cli
from cotenant.edge.engines import installed, programs
from cotenant.errors import InputError

pytest.importorskip("aiohttp")

from bench.live_case import MIB, plan_document

TRIO = "examples/a100-trio.json"


@pytest.fixture
def told(monkeypatch, tmp_path):
    """Programs where we say, and nowhere else."""
    monkeypatch.setattr(programs, "_told", {})
    monkeypatch.setenv("PATH", str(tmp_path))

    def tell(engine: str, text: str) -> None:
        path = tmp_path / f"{engine}-program"
        path.write_text(text)
        path.chmod(0o755)
        programs.tell({engine: str(path)})

    return tell


def test_where_no_engine_of_the_plan_is_here_serve_says_how_to_get_it_and_ends(told, tmp_path):
    done = CliRunner().invoke(cli, ["serve", TRIO, "--state", str(tmp_path / "state")])
    assert done.exit_code == 1
    assert "error: vllm is not installed here: no vllm\n" in done.stderr
    assert "pip install vllm; or say where it is: --engine-binary vllm=PATH" in done.stderr
    assert not (tmp_path / "state").exists()
    done = CliRunner().invoke(cli, ["serve", TRIO, "--json", "--state", str(tmp_path / "state")])
    (fault,) = json.loads(done.stdout)["errors"]
    assert (done.exit_code, fault["error"]) == (1, "vllm is not installed here: no vllm")


def test_verify_says_the_same_before_it_starts_anything(told, tmp_path):
    done = CliRunner().invoke(cli, ["verify", TRIO, "--quick", "--state", str(tmp_path / "state")])
    assert done.exit_code == 1
    assert "error: vllm is not installed here: no vllm\n" in done.stderr
    assert not (tmp_path / "state").exists()
    with pytest.raises(InputError, match="tgi is not installed here: no text-generation-launcher") as caught:
        installed.check_program("tgi")
    assert "cotenant deploy --to compose" in caught.value.hint


@pytest.mark.parametrize("engine", ["llama.cpp", "vllm", "tgi", "sglang", "ollama"])
def test_each_engine_that_is_missing_says_how_to_get_it(told, monkeypatch, engine):
    monkeypatch.setattr(programs, "find_spec", lambda name: None)  # the wheel may be installed
    with pytest.raises(InputError, match=f"{engine} is not installed here") as caught:
        installed.check_engine(engine)
    assert caught.value.hint.endswith(f"--engine-binary {engine}=PATH")


def test_an_interpreter_without_the_package_is_no_engine(told):
    programs.tell({"sglang": sys.executable})
    with pytest.raises(InputError, match="has no package sglang"):
        installed.check_engine("sglang")


def test_a_program_says_which_version_it_is(told, monkeypatch):
    monkeypatch.setattr(installed, "_PACKAGES", {"vllm": "pytest"})
    told("vllm", f"#!{sys.executable}\nraise SystemExit(1)\n")
    assert installed.version("vllm") == version_of("pytest")  # of the package, without running it
    monkeypatch.setattr(installed, "is_native", lambda engine: True)
    told("tgi", "#!/bin/sh\necho text-generation-launcher 3.3.4\n")
    assert installed.version("tgi") == "3.3.4"
    told("ollama", "#!/bin/sh\necho Warning: could not connect to a running Ollama instance >&2\n"
         "echo Warning: client version is 0.12.3 >&2\n")  # fmt: skip
    assert installed.version("ollama") == "0.12.3"
    told("llama.cpp", "#!/bin/sh\nprintf 'version: 11434 (8eb0b9e)\\nbuilt with cc 12.2\\n' >&2\n")
    assert installed.version("llama.cpp") == "11434"
    told("llama.cpp", "#!/bin/sh\necho 'version: 0 (unknown)'\n")
    assert installed.version("llama.cpp") is None


@pytest.mark.parametrize(
    "text", ["#!/bin/sh\nexit 1\n", "#!/bin/sh\n", "no script", "#!/bin/sh\necho 3.3.4; exit 2\n"]
)
def test_a_program_that_does_not_say_is_not_guessed(told, monkeypatch, text):
    monkeypatch.setattr(installed, "is_native", lambda engine: True)
    told("tgi", text)
    assert installed.version("tgi") is None


@pytest.mark.parametrize("engine", ["llama.cpp", "vllm", "sglang", "tgi", "ollama"])
def test_a_script_of_the_users_own_is_not_run_to_be_asked(told, tmp_path, engine):
    told(engine, f"#!/bin/sh\ntouch {tmp_path}/ran\ndocker run image 1.2.3\n")
    assert installed.version(engine) is None
    installed.check_engine(engine)
    assert not (tmp_path / "ran").exists()


def test_one_that_ends_as_it_starts_says_why_in_the_log_and_answers_at_once(own):
    one = own("--no-prestart", document=plan_document({"alpha": 100 * MIB}, 300 * MIB))
    (one.folder / "stub-engine").write_text(
        "#!/bin/sh\necho 'error: invalid argument: --ctx-checkpoints' >&2\nexit 1\n"
    )
    status, headers, found = one.chat("alpha")
    assert (status, found["error"]["code"]) == (503, "engine_failed")
    assert found["error"]["message"].startswith("alpha does not start: ")
    assert str(one.folder) not in found["error"]["message"]
    assert int(headers["retry-after"]) >= 1
    assert "exit status 1: error: invalid argument: --ctx-checkpoints" in one.logged()
    assert one.ask("/health")[0] == 200


def test_one_of_two_that_is_missing_is_said_and_the_other_is_served(own):
    document = plan_document({"alpha": 100 * MIB, "beta": 100 * MIB}, 300 * MIB)
    beta = document["replicas"][1]
    beta["engine"] = "vllm@0.21"
    for name in ("n_ctx", "n_parallel", "n_gpu_layers"):
        del beta[name]
    one = own(document=document, environment={"PATH": "/nowhere"})
    one.wait_for("alpha", "ready")
    assert one.chat("alpha")[0] == 200
    status, headers, found = one.chat("beta")
    assert (status, found["error"]["code"], found["error"]["type"]) == (503, "engine_failed", "server_error")
    assert found["error"]["message"] == "beta does not start: vllm is not installed here"
    assert int(headers["retry-after"]) >= 1
    (said,) = (json.loads(line) for line in one.logged().splitlines() if '"engine_missing"' in line)
    assert (said["engine"], said["replicas"]) == ("vllm", ["beta-1"])
    assert said["hint"].startswith("pip install vllm")
    assert one.chat("alpha")[0] == 200
