"""Every name of the fleet reaches an engine that knows it: folded models, adapters, replicas over machines."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest
import yaml

from cotenant.deployment.launch import launches
from cotenant.deployment.ray_serve import keywords
from cotenant.deployment.targets import export
from cotenant.domain.plan import Plan
from cotenant.errors import UnsupportedError
from cotenant.readers.plan_document import read_plan
from tests.deployment.conftest import document
from tests.deployment.flag_lists import known_to
from tests.deployment.test_schemas import check_kubernetes, documents, validator

ADAPTERS = [{"name": "legal", "rank": 16, "source": "./legal"}, {"name": "medical", "rank": 16}]


def twins(engine: str = "vllm", nodes: tuple[int, ...] = (0, 0), **changes: Any) -> Plan:
    """Replicas of one model, `code-0`, `code-1`, each on a card of its own, on those machines."""
    told = document(engine)
    first, card = told["replicas"][0] | changes, told["gpus"][0]
    share = card["replicas"][0]
    told["replicas"], told["gpus"] = [], []
    for number, node in enumerate(nodes):
        name, place = (f"code-{number}" if len(nodes) > 1 else "code"), {"node": node, "index": number}
        device = first["devices"][0] | place
        own = {"id": name, "port": 8000 + number, "start_order": number, "devices": [device]}
        told["replicas"].append(first | own)
        told["gpus"].append(card | place | {"replicas": [share | {"id": name}]})
    return read_plan(told)


class LlamaSwap:
    """What llama-swap makes of a file (internal/config/load.go, selectors.go, internal/server/filters.go)."""

    def __init__(self, told: dict[str, Any]) -> None:
        validator("llama-swap.schema.json").validate(told)
        self.models, self.selectors = told["models"], told.get("selectors", {})
        self.aliases: dict[str, str] = {}
        for key, model in self.models.items():
            for alias in model.get("aliases", []):
                assert alias not in self.aliases
                self.aliases[alias] = key
            for name in model.get("filters", {}).get("setParamsByID", {}):
                assert name == key or name not in self.models
                assert self.aliases.setdefault(name, key) == key or name == key
        matrix = told["routing"]["router"]["settings"]["matrix"]
        sets = [{matrix["vars"][one] for one in text.split(" & ")} for text in matrix["sets"].values()]
        for name, chosen in self.selectors.items():
            assert name not in self.models
            assert name not in self.aliases
            keys = {self.key(target) for target in chosen["targets"]}
            assert len(keys) == len(chosen["targets"])
            assert chosen["strategy"] == "warm" or any(keys <= group for group in sets)

    def key(self, name: str) -> str:
        return name if name in self.models else self.aliases[name]

    def requests(self, asked: str) -> list[tuple[list[str], dict[str, Any]]]:
        """(the words of the engine that is asked, the request that it gets) for each that may be chosen."""
        targets = self.selectors[asked]["targets"] if asked in self.selectors else [asked]
        found = []
        for name in targets:
            model = self.models[self.key(name)]
            fields = model.get("filters", {}).get("setParamsByID", {}).get(name, {})
            request = {"model": model.get("useModelName") or name, **fields}
            found.append((shlex.split(model["cmd"]), request))
        return found


def after(words: list[str], flag: str) -> list[str]:
    """The values of a flag."""
    rest = words[words.index(flag) + 1 :]
    return rest[: next((at for at, word in enumerate(rest) if word.startswith("--")), len(rest))]


def swaps(plan: Plan) -> list[LlamaSwap]:
    return [LlamaSwap(found) for found in documents(plan, "llama-swap")]


@pytest.mark.parametrize("nodes", [(0,), (0, 0), (0, 1), (0, 0, 1)])
def test_llama_swap_hands_every_name_to_who_knows_it(nodes: tuple[int, ...]) -> None:
    """vLLM refuses a name that it was not started with: served names and adapters' names alone."""
    plan = twins(nodes=nodes, also_serves=["twin"], adapters=ADAPTERS, max_loras=2, max_lora_rank=16)
    found = swaps(plan)
    assert len(found) == len(set(nodes))
    for node, one in enumerate(found):
        for asked in ("code", "twin", "legal", "medical"):
            answers = one.requests(asked)
            assert len(answers) == nodes.count(node)
            for words, request in answers:
                served = after(words, "--served-model-name")
                paths = dict(word.split("=") for word in after(words, "--lora-modules"))
                if asked in ("code", "twin"):
                    assert request["model"] in served
                else:
                    assert paths[request["model"]] in (asked, f"./{asked}")


@pytest.mark.parametrize("nodes", [(0,), (0, 0)])
@pytest.mark.parametrize(
    ("engine", "base", "legal"),
    [
        ("sglang", {}, {"lora_path": "legal"}),
        (
            "llama.cpp",
            {"lora": [{"id": 0, "scale": 0.0}, {"id": 1, "scale": 0.0}]},
            {"lora": [{"id": 0, "scale": 1.0}, {"id": 1, "scale": 0.0}]},
        ),
    ],
)
def test_llama_swap_says_which_adapter_where_no_name_does(
    engine: str, base: dict[str, Any], legal: dict[str, Any], nodes: tuple[int, ...]
) -> None:
    (found,) = swaps(twins(engine, nodes, adapters=ADAPTERS, max_loras=2, max_lora_rank=16))
    assert [request for _, request in found.requests("code")] == [{"model": "code", **base}] * len(nodes)
    assert [request for _, request in found.requests("legal")] == [{"model": "code", **legal}] * len(nodes)


def test_llama_swap_spills_only_between_replicas_that_fit_together() -> None:
    told = json.loads(json.dumps(document()))
    replica, gpu = told["replicas"][0], told["gpus"][0]
    told["replicas"] = [replica | {"id": f"code-{n}", "port": 8000 + n, "start_order": n} for n in (0, 1)]
    share = gpu["replicas"][0]
    half = gpu["capacity_bytes"] // 2 + 2**30
    told["gpus"] = [gpu | {"replicas": [share | {"id": f"code-{n}", "budget_bytes": half} for n in (0, 1)]}]
    (found,) = swaps(read_plan(told))
    assert found.selectors["code"] == {"strategy": "warm", "targets": ["code-0", "code-1"]}
    (apart,) = swaps(twins())
    assert apart.selectors["code"]["strategy"] == "spillover"


def test_llama_swap_refuses_one_name_for_two_models() -> None:
    told = document()
    told["replicas"][0].update(adapters=ADAPTERS[:1], max_loras=1, max_lora_rank=16)
    told["replicas"][1].update(adapters=ADAPTERS[:1], max_loras=1, max_lora_rank=16)
    with pytest.raises(UnsupportedError, match="code and triage would answer to 'legal'"):
        export(read_plan(told), "llama-swap")


def test_kubernetes_has_a_service_for_each_folded_model() -> None:
    found = documents(twins(also_serves=["twin"]), "kubernetes")
    services = {one["metadata"]["name"]: one["spec"] for one in found if one["kind"] == "Service"}
    for each in found:
        check_kubernetes(each)
    assert set(services) == {"code", "twin"}
    assert services["code"] == services["twin"]


def test_kserve_says_where_folded_models_are_asked_for() -> None:
    notes = export(twins(also_serves=["twin"]), "kserve").notes
    assert "twin: asked for at code, by that name" in notes


def test_kserve_says_where_adapters_are_asked_for() -> None:
    notes = export(twins(adapters=ADAPTERS), "kserve").notes
    assert "legal and medical: asked for at code, by that name" in notes


def test_ray_refuses_what_it_knows_by_one_name() -> None:
    with pytest.raises(UnsupportedError, match="serves twin too"):
        export(twins(also_serves=["twin"]), "ray-serve")


@pytest.mark.parametrize("target", ["commands", "systemd", "compose", "kubernetes", "kserve", "llama-swap"])
def test_every_target_starts_the_engine_under_all_names(target: str) -> None:
    plan = twins(also_serves=["twin"], adapters=ADAPTERS, max_loras=2, max_lora_rank=16)
    text = "".join(file.text for file in export(plan, target).files)
    assert "twin" in text
    assert "legal=./legal" in text
    assert "medical=" in text


def test_ray_gets_a_flag_that_is_off_as_false() -> None:
    plan = twins(
        enable_prefix_caching=False,
        enforce_eager=True,
        enable_sleep_mode=True,
    )
    first = launches(plan)[0]
    found, flags = keywords(first), known_to("vllm", first.version)
    assert found["enable_prefix_caching"] is False
    assert found["enforce_eager"] is True
    assert not {"enable_sleep_mode", "port", "served_model_name", "model", "no_enable_prefix_caching"} & set(found)
    assert {f"--{name.replace('_', '-')}" for name in found} <= flags
    assert yaml.safe_load(export(plan, "ray-serve").files[0].text)


def test_one_process_over_machines_is_refused() -> None:
    told = document()
    first = told["replicas"][0]
    first["devices"].append(first["devices"][0] | {"node": 1})
    with pytest.raises(UnsupportedError, match="over several machines"):
        launches(read_plan(told))


def test_further_names_where_an_engine_has_one_are_refused() -> None:
    for engine in ("sglang", "llama.cpp"):
        told = document(engine)
        told["replicas"][0]["also_serves"] = ["twin"]
        with pytest.raises(UnsupportedError, match="answers to one name"):
            launches(read_plan(told))
