"""What is written is what is read: every target parsed back with names that nobody should use."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from cotenant.deployment.launch import Launch, launches, on_a_machine, with_own_ports
from cotenant.deployment.quoting import to_yaml, unit
from cotenant.deployment.targets import export
from cotenant.domain.plan import Plan
from cotenant.engines.ollama import modelfile
from cotenant.errors import UnsupportedError
from tests.deployment.conftest import NAMES, NASTY, hostile, plan_of, trio

names = st.one_of(NAMES, st.sampled_from(NASTY))
some = settings(max_examples=30, deadline=None)


def texts(plan: Plan, target: str) -> dict[str, str]:
    return {file.name: file.text for file in export(plan, target).files}


def changed(plan: Plan) -> Launch:
    """The replica that `hostile` named."""
    (found,) = [one for one in launches(plan) if one.replica.id == "code"]
    return found


@given(st.dictionaries(names, st.one_of(names, st.lists(names, max_size=3)), max_size=4))
@some
def test_yaml_is_read_back(value: dict[str, object]) -> None:
    assert yaml.safe_load(to_yaml(value)) == value


@pytest.mark.parametrize(
    "word", ["yes", "1e3", "0o7", "0x1f", "12", "1_000", "~", "2026-01-01", ".5", "1:30", "=", "<<"]
)
def test_words_that_some_yaml_takes_for_a_number_or_a_date_are_quoted(word: str) -> None:
    assert to_yaml({"a": word}) == f'a: "{word}"\n'


@given(names, names)
@some
def test_shell(model: str, checkpoint: str) -> None:
    plan = hostile("vllm", model, checkpoint)
    first = changed(plan)
    script = texts(plan, "commands")[f"{first.name}.sh"]
    words = shlex.split(script[script.index("\nexec ") + 1 :])
    assert words == ["exec", *on_a_machine(first).argv]
    assert checkpoint in words


@given(names, names)
@some
def test_compose(model: str, checkpoint: str) -> None:
    plan = hostile("vllm", model, checkpoint)
    try:
        found = texts(plan, "compose")
    except UnsupportedError:
        assert checkpoint.startswith("~") or ".." in checkpoint.split("/")
        return
    first = changed(plan)
    service = yaml.safe_load(found["compose.yaml"])["services"][first.name]
    words = [*service["entrypoint"], *service["command"]]
    assert not re.search(r"(?<!\$)(\$\$)*\$(?!\$)", " ".join(words))  # nothing that Compose would replace
    assert [word.replace("$$", "$") for word in words][: len(first.argv)] == [*first.argv]


def expanded(word: str) -> str:
    """A word as Kubernetes reads it, with no variables set (third_party/forked/golang/expansion)."""
    out, at = [], 0
    while at < len(word):
        if word[at] == "$" and at + 1 < len(word) and word[at + 1] in "$(":
            if word[at + 1] == "$":
                out.append("$")
                at += 2
                continue
            raise AssertionError(f"a reference is left in {word!r}")
        out.append(word[at])
        at += 1
    return "".join(out)


@given(names, names)
@some
def test_kubernetes(model: str, checkpoint: str) -> None:
    plan = hostile("vllm", model, checkpoint)
    try:
        found = texts(plan, "kubernetes")
    except UnsupportedError:
        return
    first = changed(plan)
    documents = [each for text in found.values() for each in yaml.safe_load_all(text)]
    pods = [each["spec"]["template"]["spec"] for each in documents if each["kind"] == "Deployment"]
    containers = [each for pod in pods for each in (*pod.get("initContainers", []), *pod["containers"])]
    (container,) = [each for each in containers if each["name"] == first.name]
    words = [expanded(word) for word in (*container["command"], *container["args"])]
    assert words[: len(first.argv)] == [*first.argv]
    for each in documents:
        assert re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", each["metadata"]["name"])
        assert len(each["metadata"]["name"]) <= 63


def unit_words(line: str) -> list[str]:
    """A line of a unit as systemd.syntax(7) reads it: C escapes in double quotes, %% and $$ as one."""
    words = []
    for quoted, bare in re.findall(r'"((?:[^"\\]|\\.)*)"|(\S+)', line):
        text = re.sub(
            r"\\(x[0-9a-f]{2}|.)",
            lambda match: chr(int(match.group(1)[1:], 16)) if len(match.group(1)) == 3 else match.group(1),
            quoted or bare,
        )
        words.append(text.replace("%%", "%"))
    return words


@given(names, names)
@some
def test_systemd(model: str, checkpoint: str) -> None:
    plan = hostile("vllm", model, checkpoint)
    first = changed(plan)
    text = texts(plan, "systemd")[f"cotenant-{first.name}.service"]
    (line,) = [line for line in text.split("\n") if line.startswith("ExecStart=")]
    words = [word.replace("$$", "$") for word in unit_words(line.removeprefix("ExecStart="))]
    assert words == ["/usr/bin/env", *on_a_machine(first).argv]


@given(names)
@some
def test_a_unit_word_never_leaves_its_line(text: str) -> None:
    assert "\n" not in unit(text)
    assert unit_words(unit(text, expands=False)) == [text]


@given(names, names)
@some
def test_llama_swap(model: str, checkpoint: str) -> None:
    plan = hostile("vllm", model, checkpoint)
    first = changed(plan)
    try:
        found = texts(plan, "llama-swap")
    except UnsupportedError:
        assert any("${" in text or not text.isprintable() for text in (model, checkpoint))
        return
    models = yaml.safe_load(found["llama-swap.yaml"])["models"]
    entry = models[first.replica.id if model == "triage" else model]  # the plan's other model is called that
    assert shlex.split(entry["cmd"]) == [*on_a_machine(first).argv]


def modelfile_values(text: str) -> dict[str, str]:
    """The commands of a Modelfile as ollama's parser/parser.go reads them: quotes taken off, nothing escaped."""
    found = {}
    for line in text.split("\n"):
        name, _, value = line.partition(" ")
        value = value.strip(" ")
        if value.startswith('"""') and value.endswith('"""') and len(value) >= 6:
            value = value[3:-3]
        elif value.startswith('"'):
            assert value.endswith('"')
            value = value[1:-1]
        found[name] = value
    return found


@given(names)
@some
def test_modelfile(checkpoint: str) -> None:
    told = plan_of("ollama").replicas[0].settings
    try:
        text = modelfile(told, checkpoint)
    except UnsupportedError:
        assert not checkpoint.isprintable()
        return
    assert modelfile_values(text)["FROM"] in (checkpoint, f"hf.co/{checkpoint}")


@pytest.mark.parametrize("plain", [True, False])
def test_scripts_parse(plain: bool, tmp_path: Path) -> None:
    plan = trio() if plain else hostile("vllm", "a'b\"$(x)`y` %i", "z;rm -rf $HOME/x")
    if not shutil.which("bash"):
        pytest.skip("no bash here")
    for name, text in texts(plan, "commands").items():
        path = tmp_path / name
        path.write_text(text)
        done = subprocess.run(["bash", "-n", str(path)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("plain", [True, False])
def test_units_verify(plain: bool, tmp_path: Path) -> None:
    plan = trio() if plain else hostile("vllm", "a'b\"$(x)`y` %i", "z;rm -rf $HOME/x")
    tool = shutil.which("systemd-analyze")
    if not tool:
        pytest.skip("no systemd-analyze here")
    paths = []
    for name, text in texts(plan, "systemd").items():
        (tmp_path / name).write_text(text)
        paths.append(str(tmp_path / name))
    done = subprocess.run([tool, "verify", "--man=no", *paths], capture_output=True, text=True, check=False)
    said = done.stderr + done.stdout
    if "Failed to initialize" in said or "Failed to setup" in said:
        pytest.skip(f"systemd-analyze cannot run here: {said.splitlines()[0]}")
    assert done.returncode == 0, said
    assert not [line for line in said.splitlines() if str(tmp_path) in line and "not found" not in line], said


def test_scripts_start_in_order_and_stop_together(tmp_path: Path) -> None:
    """With a stand-in `vllm` that answers on its port: the order of the answers is the plan's."""
    if not shutil.which("curl"):
        pytest.skip("no curl here")
    for file in export(trio(), "commands").files:
        path = tmp_path / file.name
        path.write_text(file.text)
        path.chmod(0o755 if file.executable else 0o644)
    stand_in = tmp_path / "bin" / "vllm"
    stand_in.parent.mkdir()
    stand_in.write_text(_STAND_IN)
    stand_in.chmod(0o755)
    environment = {"PATH": f"{stand_in.parent}:/usr/local/bin:/usr/bin:/bin", "ORDER": str(tmp_path / "order")}
    command = ["sh", str(tmp_path / "start.sh")]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as started:
        try:
            assert started.stdout is not None
            lines = [started.stdout.readline() for _ in range(3)]
        finally:
            started.terminate()
            rest = started.wait(timeout=20)
    assert [line.split()[0] for line in lines] == ["chat", "triage", "code"]
    assert (tmp_path / "order").read_text().split() == ["chat:0", "triage:0", "code:0"]
    assert rest != 0


_STAND_IN = f"""#!{shutil.which("python3")}
import http.server, os, sys
words = sys.argv
name, port = words[words.index("--served-model-name") + 1], int(words[words.index("--port") + 1])
with open(os.environ["ORDER"], "a") as file:
    file.write(f"{{name}}:{{os.environ['CUDA_VISIBLE_DEVICES']}}\\n")
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
http.server.HTTPServer(("127.0.0.1", port), Answer).serve_forever()
"""


def test_two_servers_of_tgi_on_one_machine_meet_on_no_socket() -> None:
    found = [with_own_ports(one).argv for one in launches(plan_of("tgi"))]
    for flag in ("--port", "--master-port", "--shard-uds-path", "--prometheus-port"):
        values = [argv[argv.index(flag) + 1] for argv in found]
        assert len(set(values)) == len(values)


def compose_tool() -> list[str]:
    """Docker Compose, as a plugin of docker or as a program of its own; empty where there is none."""
    docker, alone = shutil.which("docker"), shutil.which("docker-compose")
    if docker and not subprocess.run([docker, "compose", "version"], capture_output=True, check=False).returncode:
        return [docker, "compose"]
    return [alone] if alone else []


@pytest.mark.parametrize("plain", [True, False])
def test_compose_reads_it(plain: bool, tmp_path: Path) -> None:
    plan = trio() if plain else hostile("vllm", "a'b\"$(x)`y` %i", "z;rm -rf $HOME/x")
    tool = compose_tool()
    if not tool:
        pytest.skip("no docker compose here")
    for name, text in texts(plan, "compose").items():
        (tmp_path / name).write_text(text)
    command = [*tool, "-f", str(tmp_path / "compose.yaml"), "config", "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    services = json.loads(done.stdout)["services"]
    assert services.keys() == {one.name for one in launches(plan)}
    for one in launches(plan):
        assert one.replica.model in [word.replace("$$", "$") for word in services[one.name]["command"]]
