"""Where engines answer: this machine alone, unless another address is told."""

from __future__ import annotations

import pytest
import yaml
from click.testing import CliRunner

from cotenant import api
from cotenant.cli.root import cli
from cotenant.deployment.launch import launches
from cotenant.deployment.targets import TARGETS
from cotenant.domain.engine import EngineSettings, Version
from cotenant.domain.llama_cpp import LlamaCppOptions
from cotenant.engines.hosting import slots_of
from cotenant.errors import InputError
from tests.deployment.conftest import ENGINES, document, plan_of

OPEN = "engines answer on every interface, and none asks for a key: let nobody reach them but the gateway"


def texts(engine: str, target: str, **told: str) -> dict[str, str]:
    return {file.name: file.text for file in api.deploy(plan_of(engine), to=target, **told).files}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("target", ["commands", "systemd", "llama-swap"])
def test_a_process_of_a_machine_answers_on_loopback_alone(engine, target):
    if engine not in (TARGETS[target].engines or ENGINES):
        return
    text = "\n".join(texts(engine, target).values())
    assert "0.0.0.0" not in text
    assert text.count("127.0.0.1") >= 2
    if engine != "ollama":  # which is told by a variable
        flag = "--hostname" if engine == "tgi" else "--host"
        assert " ".join(text.split()).count(f"{flag} 127.0.0.1") == 2


@pytest.mark.parametrize(
    ("address", "health"), [("0.0.0.0", "127.0.0.1"), ("10.0.0.5", "10.0.0.5"), ("::1", "[::1]")]
)
def test_another_address_is_told_and_asked_for_its_health(address, health):
    for target in ("commands", "systemd"):
        for engine, said in (("vllm", f"--host {address}"), ("tgi", f"--hostname {address}")):
            text = "\n".join(texts(engine, target, listen=address).values())
            assert text.count(said) == 2
            assert f"http://{health}:8000/health" in text
    assert "OLLAMA_HOST=10.0.0.5:8000" in "\n".join(texts("ollama", "systemd", listen="10.0.0.5").values())


def test_containers_publish_where_they_are_told(tmp_path):
    services = yaml.safe_load(texts("vllm", "compose", listen="::")["compose.yaml"])["services"]
    assert sorted(one["ports"] for one in services.values()) == [["[::]:8000:8000"], ["[::]:8001:8001"]]
    for one in services.values():  # inside of its own network
        assert "http://127.0.0.1" in one["healthcheck"]["test"][-1]


@pytest.mark.parametrize("target", ["commands", "systemd", "compose"])
def test_that_others_can_reach_them_is_said(target):
    assert OPEN in api.deploy(plan_of(), to=target, listen="0.0.0.0").notes
    assert OPEN not in api.deploy(plan_of(), to=target).notes
    assert any(
        "on 10.0.0.5, and none" in note for note in api.deploy(plan_of(), to=target, listen="10.0.0.5").notes
    )


def test_what_is_no_address_is_refused():
    with pytest.raises(InputError, match="no address to listen on"):
        api.deploy(plan_of(), to="compose", listen="localhost; rm")
    with pytest.raises(InputError, match="--listen is for commands, systemd, compose"):
        api.deploy(plan_of(), to="kubernetes", listen="0.0.0.0")
    done = CliRunner().invoke(
        cli, ["deploy", "examples/a100-trio.json", "--to", "llama-swap", "--listen", "0.0.0.0"]
    )
    assert (done.exit_code, "llama-swap itself decides where engines answer" in done.stderr) == (1, True)


@pytest.mark.parametrize(
    ("engine", "version", "slots"),
    [
        ("vllm", "0.21", 256), ("vllm", "0.8.2", 1024), ("vllm", "0.7.3", 256), ("sglang", "0.5", 2048),
        ("tgi", "3.3", 128), ("tensorrt-llm", "1.0", 2048), ("tensorrt-llm", "0.12", 256),
        ("llama.cpp", "11549", 4), ("llama.cpp", "6000", 1), ("ollama", "0.5", 4), ("ollama", "0.12", 1),
    ],
)  # fmt: skip
def test_what_an_engine_takes_at_once_by_itself(engine, version, slots):
    assert slots_of(engine, Version.parse(version), EngineSettings()) == slots
    assert slots_of(engine, Version.parse(version), EngineSettings(max_num_seqs=7)) == 7


def test_llama_servers_own_word_for_slots_counts_too():
    settings = EngineSettings(llama_cpp=LlamaCppOptions(n_parallel=3))
    assert slots_of("llama.cpp", Version.parse("11549"), settings) == 3


def test_llama_swap_lets_wait_what_engines_would_queue():
    found = document("llama.cpp")
    slots = [replica["n_parallel"] for replica in found["replicas"]]
    assert sorted(one.slots for one in launches(plan_of("llama.cpp"))) == sorted(slots)
    models = yaml.safe_load(texts("llama.cpp", "llama-swap")["llama-swap.yaml"])["models"]
    assert sorted(one["concurrencyLimit"] for one in models.values()) == sorted(1000 + many for many in slots)
