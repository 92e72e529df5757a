"""Plans and beginnings that are refused, and words of a plan that stay words."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from bench.live_case import MIB, plan_document
from cotenant.cli.root import cli
from cotenant.edge.gateway.hardware import check_hardware
from cotenant.edge.gateway.log import Log
from cotenant.errors import InputErrors
from cotenant.readers.plan_document import read_plan
from cotenant.serving.from_plan import fleet_of

pytest.importorskip("aiohttp")


def refused(*words: str) -> str:
    done = CliRunner().invoke(cli, ["serve", *words])
    assert done.exit_code == 1, done.output
    return done.stderr


def test_hostile_plans_and_wrong_beginnings_are_refused(tmp_path):
    plan = tmp_path / "plan.json"
    document = plan_document({"alpha": 100 * MIB}, 150 * MIB)
    plan.write_text(json.dumps(document))
    keys = tmp_path / "keys"
    keys.write_text("alice alice-secret-key\n")
    keys.chmod(0o644)
    assert "can be read by others" in refused(str(plan), "--api-keys", str(keys))
    assert "no keys are given" in refused(str(plan), "--host", "0.0.0.0", "--state", str(tmp_path / "s"))
    own_port = str(document["replicas"][0]["port"])
    assert "gives port" in refused(str(plan), "--port", own_port, "--state", str(tmp_path / "s"))
    assert "no program" in refused(str(plan), "--engine-binary", "llama.cpp=/nowhere")
    assert "not NAME=VALUE" in refused(str(plan), "--url", "alpha")
    assert "no replica or model" in refused(str(plan), "--url", "gamma=http://127.0.0.1:1")
    document["replicas"][0]["engine"] = "abacus@1"
    plan.write_text(json.dumps(document))
    assert "abacus" in refused(str(plan))
    document["feasible"], document["replicas"] = False, []
    document["gpus"] = []
    plan.write_text(json.dumps(document))
    assert "not feasible" in refused(str(plan))
    plan.write_text('{"schema": "cotenant/plan/1"')
    assert "error" in refused(str(plan))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"checkpoint": "--trust-remote-code"}, "read as a flag"),
        ({"model": "-x"}, "read as a flag"),
        ({"quantization_flag": "--trust-remote-code"}, "read as a flag"),
        ({"type_k": "--api-key"}, "read as a flag"),
        ({"adapters": [{"name": "--x", "rank": 8, "source": "y"}]}, "read as a flag"),
        ({"adapters": [{"name": "a=b", "rank": 8, "source": "y"}]}, "read as a flag"),
        ({"checkpoint": "a\0b"}, "NUL"),
        ({"n_ctx": 10**50}, "no number"),
        ({"n_parallel": 0}, "no number"),
        ({"n_ctx": -5}, "no number"),
        ({"devices": [{"type": "CPU", "node": 0, "index": 0}] * 2}, "twice"),
    ],
)
def test_a_plans_words_never_become_flags(changes, words):
    document = plan_document({"alpha": MIB, "beta": MIB}, 10 * MIB)
    assert read_plan(document).replicas[0].model == "alpha"
    document["replicas"][0] |= changes
    with pytest.raises(InputErrors) as caught:
        read_plan(document)
    assert any(words in fault.message for fault in caught.value.errors)


def test_two_engines_on_one_port_are_refused():
    document = plan_document({"alpha": MIB, "beta": MIB}, 10 * MIB)
    document["replicas"][1]["port"] = document["replicas"][0]["port"]
    with pytest.raises(InputErrors, match="listens on port"):
        read_plan(document)


def test_a_plan_for_a_larger_machine_is_refused():
    document = plan_document({"alpha": MIB}, 2**50)
    with pytest.raises(InputErrors, match=r"1\.00 PiB|1,024|1048576|of host memory; here there are"):
        check_hardware(fleet_of(read_plan(document)), Log())
