"""Fleet files: what the contract says they mean, every fault at once with its path, and hostile text."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cotenant.catalogue.gpus import gpus_from
from cotenant.domain.fleet import Fleet
from cotenant.domain.loaded import LoadedModel
from cotenant.domain.model import ModelSpec
from cotenant.domain.workload import Lengths
from cotenant.edge.traces import open_trace
from cotenant.errors import CotenantError, FormatError, InputErrors, UnknownModelError
from cotenant.readers.fleet import fleet_from, fleet_json_schema, input_hash, read_fleet

EXAMPLES = Path(__file__).parents[2] / "examples"
LENGTHS = "input_tokens: {p50: 600, p95: 1600}, output_tokens: {p50: 150, p95: 400}"


def load(value: object) -> LoadedModel:
    """A model of any name, except those that are called unknown."""
    name = value if isinstance(value, str) else "raw"
    if "unknown" in name:
        raise UnknownModelError(f"no model {name!r}", hint="try another")
    encoder = name.startswith("encoder")
    spec = ModelSpec(name, "X", "x", (), (), 32, 4096, 14336, 128256, 131072, encoder_only=encoder)
    return LoadedModel(spec, name, {"awq-int4": "known/awq"}, "embed" if encoder else "", "a test")


def one(**changes: Any) -> dict[str, Any]:
    """A fleet of one card and one model, with `changes` to the model."""
    model = {"name": "chat", "model": "a/b", "traffic": {"concurrent": 8, "context_tokens": {"p95": 2048}}}
    return {"gpus": [{"type": "A100-80GB-SXM", "count": 1}], "models": [{**model, **changes}]}


def read(value: object) -> Fleet:
    return read_fleet(json.dumps(value), load_model=load, load_trace=open_trace)


def faults(value: object) -> dict[str, CotenantError]:
    with pytest.raises(CotenantError) as caught:
        read(value) if not isinstance(value, str) else read_fleet(value, load_model=load, load_trace=open_trace)
    found = caught.value.faults()
    assert len({(fault.path, fault.message) for fault in found}) == len(found)
    return {fault.path: fault for fault in found}


def test_the_trio_means_what_it_says() -> None:
    fleet = read_fleet((EXAMPLES / "a100-trio.yaml").read_text(), load_model=load, load_trace=open_trace)
    (offer,) = fleet.gpus
    assert (offer.gpu.name, offer.count, offer.maximum, offer.price_per_hour) == ("A100-80GB-SXM", 1, None, None)
    assert (offer.node_size, offer.used_bytes, offer.is_shop) == (8, 0, False)
    assert (fleet.headroom, fleet.kv_overflow) == (0.12, 0.01)
    assert fleet.objective == ("cost", "headroom", "quality")
    chat, code, triage = fleet.models
    assert chat.model.name == chat.model_id == "meta-llama/Llama-3.1-70B-Instruct"
    assert chat.formats == ("fp8", "awq-int4")
    assert chat.checkpoints == {"awq-int4": "known/awq"}
    assert chat.traffic.requests_per_second == 0.3
    assert chat.traffic.input_tokens == Lengths(600, 1600)
    assert chat.slo is not None
    assert (chat.slo.ttft_s, chat.slo.tpot_s, chat.slo.percentile) == (5.0, 0.1, 95)
    assert (code.task, code.traffic.concurrent, code.traffic.output_tokens) == ("code", None, Lengths(120, 350))
    assert (chat.task, triage.task, chat.max_loss_percent) == ("chat", "chat", 1.0)
    assert [(adapter.name, adapter.rank) for adapter in triage.adapters] == [("legal", 16)]


def test_the_json_twin_is_the_same_fleet() -> None:
    yaml, twin = ((EXAMPLES / name).read_text() for name in ("a100-trio.yaml", "a100-trio.json"))
    assert read_fleet(yaml, load_model=load, load_trace=open_trace) == read_fleet(
        twin, load_model=load, load_trace=open_trace, path="a100-trio.json"
    )
    assert fleet_from(json.loads(twin), load_model=load, load_trace=open_trace) == read_fleet(
        twin, load_model=load, load_trace=open_trace
    )


def test_every_key_of_the_contract() -> None:
    fleet = read_fleet(
        f"""
engine: vllm@0.21
headroom: 10%
kv_overflow: 0.5%
objective: [quality, cost]
gpus:
  - {{type: A100-80GB-SXM, count: 4, node: {{size: 4, host_memory: 512GiB}}, used: 2GiB, price: $1.29/h}}
  - {{type: l4, max: 3, price: $0.80/h}}
models:
  - name: chat
    model: {{parameters: 7B, layers: 32, kv_heads: 8, head_dim: 128}}
    engine: vllm
    task: code
    quality: {{max_loss: 2%}}
    quantization: [fp8, {{awq: my/awq}}]
    kv_cache_dtype: [auto, fp8]
    traffic: {{requests_per_second: 2, {LENGTHS}, by_hour: [{", ".join(["1"] * 24)}], timezone: Europe/Paris}}
    slo: {{tpot: 50ms}}
    priority: 10
    adapters: [{{name: legal, rank: 16, source: x/y, share: 20%, target_modules: [q_proj, v_proj]}}]
    replicas: {{min: 2, max: 4}}
    sharing: [sleep]
    pin: {{gpus: [0, 3]}}
    apart_from: [other]
  - {{name: other, model: encoder-x, traffic: {{requests_per_second: 5, input_tokens: {{p50: 100, max: 512}}}}}}
""",
        load_model=load,
        load_trace=open_trace,
    )
    owned, shop = fleet.gpus
    assert (owned.node_size, owned.host_memory_bytes, owned.used_bytes) == (4, 512 * 2**30, 2 * 2**30)
    assert (owned.price_per_hour, shop.maximum, shop.is_shop, shop.gpu.name) == (1.29, 3, True, "L4")
    chat, other = fleet.models
    assert chat.engine == "vllm"
    assert other.engine == "vllm@0.21"
    assert chat.formats == ("fp8", "awq-int4")
    assert chat.checkpoints["awq-int4"] == "my/awq"
    assert (chat.max_loss_percent, chat.priority, chat.min_replicas, chat.max_replicas) == (2.0, 10, 2, 4)
    assert (chat.sharing, chat.pin_gpus, chat.apart_from) == (("sleep",), (0, 3), ("other",))
    assert chat.adapters[0].share == 0.2
    assert (len(chat.traffic.by_hour), chat.traffic.timezone) == (24, "Europe/Paris")
    assert (other.task, other.traffic.output_tokens, other.traffic.input_tokens) == (
        "embed",
        None,
        Lengths(100, None, 512),
    )
    assert fleet.objective == ("quality", "cost")


def test_defaults() -> None:
    fleet = read(one())
    assert (fleet.headroom, fleet.kv_overflow, fleet.objective) == (0.12, 0.01, ("cost", "headroom", "quality"))
    (model,) = fleet.models
    assert (model.engine, model.formats, model.sharing) == ("vllm", (), ("co-resident", "alone"))
    assert (model.min_replicas, model.max_replicas, model.kv_cache_dtypes) == (1, None, ("auto",))


def test_the_users_own_cards_stand_first() -> None:
    mine = gpus_from([{"name": "A100-80GB-SXM", "price": "$0.10/h"}])
    fleet = read_fleet(json.dumps(one()), load_model=load, load_trace=open_trace, extra=mine)
    assert fleet.gpus[0].gpu.price_per_hour == 0.1


def test_the_hash_is_of_the_canonical_json() -> None:
    assert read(one()).input_hash == input_hash(one())
    assert input_hash({"a": 1, "b": 2}) == input_hash({"b": 2, "a": 1})
    assert input_hash({"a": 1}) != input_hash({"a": 2})
    assert len(input_hash({})) == 64


def test_all_faults_at_once_in_the_order_of_the_file() -> None:
    text = """
engine: vlm
headrom: 12%
headroom: 0.12
kv_overflow: 0%
objective: [cost, cost, spend]
gpus:
  - {type: A100, count: 1}
  - {type: L40S, count: 2, max: 3, mig: true, used: 99GiB, node: {size: 0, host_memry: 1GiB}}
  - {type: L4}
  - {type: L4, count: 1, count: 2}
models:
  - name: chat
    model: a/b
    traffic: {requests_per_second: 0.4, concurrent: 3.5}
    slo: {ttft: 3}
  - name: chat
    model: unknown/model
    task: cod
    engine: olama
    traffic: {concurrent: 8, context_tokens: {p50: 9000, p95: 2048}, input_tokens: {p50: 1}}
    quantization: [fp8, fp8, {int5: y}]
    adapters: [{name: a, rank: 16, share: 60%}, {name: a, rank: 16, share: 70%}, {name: chat, rank: 8}]
    replicas: {min: 3, max: 2}
    apart_from: [chat, nobody]
    slo: {}
  - {name: t, model: x, traffic: {trace: x.csv}}
  - 5
"""
    with pytest.raises(InputErrors) as caught:
        read_fleet(text, load_model=load, load_trace=open_trace)
    paths = [fault.path for fault in caught.value.faults()]
    assert paths == [
        "$.engine",
        "$.headrom",
        "$.headroom",
        "$.kv_overflow",
        "$.objective[1]",
        "$.objective[2]",
        "$.gpus[0].type",
        "$.gpus[1].max",
        "$.gpus[1].mig",
        "$.gpus[1].node.host_memry",
        "$.gpus[1].node.size",
        "$.gpus[1].used",
        "$.gpus[2]",
        "$.gpus[3].count",
        "$.models[0].slo.ttft",
        "$.models[0].traffic.concurrent",
        "$.models[1].adapters",
        "$.models[1].adapters[1].name",
        "$.models[1].adapters[2].name",
        "$.models[1].apart_from[0]",
        "$.models[1].apart_from[1]",
        "$.models[1].engine",
        "$.models[1].model",
        "$.models[1].name",
        "$.models[1].quantization[1]",
        "$.models[1].quantization[2]",
        "$.models[1].replicas.max",
        "$.models[1].slo",
        "$.models[1].task",
        "$.models[1].traffic.context_tokens.p95",
        "$.models[1].traffic.input_tokens",
        "$.models[2].traffic.trace",
        "$.models[3]",
    ]


@pytest.mark.parametrize(
    ("changes", "path", "words"),
    [
        ({"traffic": {}}, "$.models[0].traffic", "how much traffic"),
        (
            {"traffic": {"concurrent": 1, "requests_per_second": 1}},
            "$.models[0].traffic",
            "contradict",
        ),
        ({"traffic": {"concurrent": 1}}, "$.models[0].traffic", "needs context_tokens"),
        (
            {"traffic": {"requests_per_second": 1, "input_tokens": {"p50": 1}}},
            "$.models[0].traffic",
            "output_tokens",
        ),
        (
            {"traffic": {"concurrent": 0, "context_tokens": {"p50": 1}}},
            "$.models[0].traffic.concurrent",
            "at least 1",
        ),
        (
            {"traffic": {"concurrent": 1, "context_tokens": {"max": 10}}},
            "$.models[0].traffic.context_tokens",
            "needs p50",
        ),
        (
            {"traffic": {"concurrent": 1, "context_tokens": {"p95": 200_000}}},
            "$.models[0].traffic.context_tokens.p95",
            "at most 131,072",
        ),
        ({"traffic": {"trace": "a.csv"}}, "$.models[0].traffic.trace", "no trace at"),
        ({"slo": {"ttft": "0s"}}, "$.models[0].slo.ttft", "above zero"),
        ({"slo": {"ttft": 3}}, "$.models[0].slo.ttft", "no unit"),
        ({"quality": {"max_loss": 0.01}}, "$.models[0].quality.max_loss", "not a percentage"),
        ({"pin": {"gpus": [1]}}, "$.models[0].pin.gpus[0]", "there is no card 1"),
        ({"quantization": []}, "$.models[0].quantization", "at least 1"),
        ({"quantization": "fp8"}, "$.models[0].quantization", "must be a list"),
        ({"name": "a b"}, "$.models[0].name", "not a name"),
        ({"model": 7}, "$.models[0].model", "a name, a path or raw figures"),
        ({"engine": "tgi@x"}, "$.models[0].engine", ""),
        ({"priority": "high"}, "$.models[0].priority", "whole number"),
        ({"priority": True}, "$.models[0].priority", "whole number"),
        (
            {"traffic": {"requests_per_second": 5e-324, "input_tokens": {"p95": 9}, "output_tokens": {"p95": 9}}},
            "$.models[0].traffic.requests_per_second",
            "at least",
        ),
        ({"adapters": [{"name": "a", "rank": 8, "source": "x\ny"}]}, "$.models[0].adapters[0].source", "printed"),
        ({"quantization": [{"awq-int4": "--evil"}]}, "$.models[0].quantization[0]", "not a checkpoint"),
        ({"quantization": [{"awq-int4": "a/\x1b[31m"}]}, "$.models[0].quantization[0]", "printed"),
        ({"modell": 1}, "$.models[0].modell", "unknown key"),
    ],
)
def test_a_fault_names_its_place(changes: dict[str, Any], path: str, words: str) -> None:
    found = faults(one(**changes))
    assert list(found) == [path]
    assert words in found[path].message


def test_an_unknown_key_hints_at_the_nearest_of_its_place() -> None:
    assert "'model'" in faults(one(modell=1))["$.models[0].modell"].hint
    lengths = {"concurrent": 1, "context_tokens": {"p95": 5, "p55": 1}}
    assert "'p" in faults(one(traffic=lengths))["$.models[0].traffic.context_tokens.p55"].hint


def test_missing_parts_are_named() -> None:
    assert set(faults({})) == {"$.gpus", "$.models"}
    assert set(faults({"gpus": [], "models": []})) == {"$.gpus", "$.models"}
    assert set(faults({"gpus": [{}], "models": [{}]})) == {
        "$.gpus[0].type", "$.models[0].name", "$.models[0].model", "$.models[0].traffic",
    }  # fmt: skip


def test_pins_that_nobody_can_hold() -> None:
    two = {"replicas": {"min": 2}}
    assert "no card takes two" in faults(one(pin={"gpus": [0]}, **two))["$.models[0].pin.gpus"].message
    value = one(pin={"gpus": [0]}, sharing=["alone"])
    value["models"].append({**value["models"][0], "name": "b"})
    found = faults(value)
    assert "cannot share with 'b' on card 0" in found["$.models[0].pin.gpus"].message
    assert "$.models[1].pin.gpus" in found
    hired = one(pin={"gpus": [0]})
    hired["gpus"] = [{"type": "L4", "price": "$0.4/h"}]
    assert "owns 0" in faults(hired)["$.models[0].pin.gpus[0]"].message


def test_a_price_of_nothing_is_refused() -> None:
    free = one()
    free["gpus"] = [{"type": "L4", "price": "$0/h"}]
    assert "$0/h" in faults(free)["$.gpus[0].price"].message


def test_two_models_apart_on_one_pinned_card_contradict() -> None:
    value = one(pin={"gpus": [0]}, apart_from=["b"])
    value["models"].append({**value["models"][0], "name": "b", "apart_from": []})
    assert "pinned to one card" in faults(value)["$.models[0].apart_from[0]"].message


def test_bad_models_share_one_report_each_at_its_own_place() -> None:
    value = one(model="unknown/x")
    value["models"].append({**value["models"][0], "name": "b"})
    assert list(faults(value)) == ["$.models[0].model", "$.models[1].model"]


def test_the_page_on_fleet_files_has_every_key() -> None:
    page = (EXAMPLES.parent / "docs" / "fleet-file.md").read_text()
    schema = fleet_json_schema()
    for part in (schema, *schema["$defs"].values()):
        for key in part["properties"]:
            assert f"`{key}`" in page or f".{key}`" in page, key


def test_the_published_schema_is_ours() -> None:
    """Regenerate with: python -c "import json; from cotenant.readers.fleet import fleet_json_schema as s;
    print(json.dumps(s(), indent=2))" > docs/fleet.schema.json"""
    published = json.loads((EXAMPLES.parent / "docs" / "fleet.schema.json").read_text())
    assert published == fleet_json_schema()


BOMBS = {
    "aliases": "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n",
    "merge": "a: &a {b: c}\nd:\n  <<: *a\n",
    "deep flow": "[" * 100_000,
    "deep block": "- " * 100_000,
    "deep json": '{"a":' * 100_000,
    "tags": "a: !!python/object/apply:os.system [ls]\n",
    "binary": "a: !!binary aGVsbG8=\n",
    "long": "#" * 1_000_001,
    "many": "a: [" + "x, " * 200_000 + "x]\n",
    "documents": "a: 1\n---\nb: 2\n",
    "key": "? [a, b]\n: c\n",
    "zero": "a: \x00\n",
    "surrogate": "a: \ud800\n",
    "tab": "a:\n\t- b\n",
}


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_are_refused_quickly(name: str) -> None:
    start = time.perf_counter()
    with pytest.raises(FormatError):
        read_fleet(BOMBS[name], load_model=load, load_trace=open_trace)
    assert time.perf_counter() - start < 5


@pytest.mark.parametrize("text", ["", "hello", "<!DOCTYPE html><html></html>", "[1, 2]", "null", "{", "7"])
def test_what_is_no_fleet_at_all(text: str) -> None:
    for path in ("", "fleet.json"):
        with pytest.raises(CotenantError):
            read_fleet(text, load_model=load, load_trace=open_trace, path=path)


def test_yaml_means_what_people_see() -> None:
    """`no` is a name, not false; 1:30 is no number of seconds; 012 is twelve."""
    value = read_fleet(json.dumps(one()).replace('"chat"', "no"), load_model=load, load_trace=open_trace)
    assert value.models[0].name == "no"


def test_thousands_of_faults_are_cut_short() -> None:
    value = one()
    value["models"] = [5] * 5000
    found = faults(value)
    assert len(found) == 201
    assert "more faults" in found["$"].message


def test_a_fleet_of_a_thousand_models_is_read() -> None:
    value = one()
    value["models"] = [{**value["models"][0], "name": f"m{i}"} for i in range(1000)]
    assert len(read(value).models) == 1000


@pytest.mark.parametrize("name", ["a100-trio.yaml", "a100-trio.json"])
def test_examples_have_the_published_shape(name: str) -> None:
    from cotenant.readers.yaml_text import read_document

    schema = fleet_json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    document = read_document((EXAMPLES / name).read_text(), path=name)
    jsonschema.validate(document.value, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**document.value, "headrom": "12%"}, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**document.value, "headroom": 0.12}, schema)


_KEYS = (
    "engine", "headroom", "gpus", "models", "name", "model", "traffic", "type", "count", "max", "price", "slo",
    "quantization", "adapters", "pin", "concurrent", "context_tokens", "p50", "p95", "task", "node",
)  # fmt: skip
_words = st.sampled_from(["12%", "fp8", "L4", "vllm", "3s", "$1/h", "1GiB", "a/b"])
_keys = st.sampled_from(_KEYS) | st.text(max_size=3)
_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6) | _words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_keys, inner),
    max_leaves=20,
)


@given(_values)
@settings(max_examples=150)
def test_no_value_breaks_the_reader(value: object) -> None:
    with suppress(CotenantError):
        fleet_from(value, load_model=load, load_trace=open_trace)  # type: ignore[arg-type]


@given(st.text(alphabet="abc:{}[]-,&*!?|>'\"#%@ \n\t0123.~", max_size=80))
@settings(max_examples=300)
def test_no_text_breaks_the_reader(text: str) -> None:
    for path in ("", "x.json"):
        with suppress(CotenantError):
            read_fleet(text, load_model=load, load_trace=open_trace, path=path)


_LEAVES = st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=4) | st.just([]) | st.just({})


@given(st.data())
@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow])
def test_one_broken_value_is_reported_at_or_above_its_place(data: st.DataObject) -> None:
    """Replace any one value of the trio: it is read, or every fault stands at, above or below that place."""
    value = json.loads((EXAMPLES / "a100-trio.json").read_text())
    node, path = value, "$"
    while isinstance(node, (dict, list)) and node:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        key = data.draw(st.sampled_from(keys))
        path += f".{key}" if isinstance(node, dict) else f"[{key}]"
        if not isinstance(node[key], (dict, list)) or data.draw(st.booleans()):
            node[key] = data.draw(_LEAVES)
            break
        node = node[key]
    try:
        read(value)
    except CotenantError as error:
        for fault in error.faults():
            related = fault.path.startswith(path) or path.startswith(fault.path)
            cross = fault.path.endswith((".name", ".pin.gpus", ".p95", "_tokens", ".traffic")) or "count" in path
            assert related or cross, (path, fault.path, fault.message)


def test_speculative_decoding_is_read_with_its_draft() -> None:
    entry = {"model": "meta-llama/Llama-3.2-1B-Instruct", "num_speculative_tokens": 4}
    value = one()
    value["models"][0]["speculative_config"] = entry
    drafted = read(value).models[0].speculation
    assert drafted is not None
    assert (drafted.method, drafted.tokens) == ("draft_model", 4)
    assert drafted.draft is not None


@pytest.mark.parametrize(
    ("engine", "config"),
    [("vllm", {"method": "magic"}), ("tgi", {"method": "ngram", "num_speculative_tokens": 2})],
)
def test_speculative_decoding_that_cannot_be_is_named_by_its_path(engine: str, config: dict[str, object]) -> None:
    value = {**one(speculative_config=config), "engine": engine}
    assert "$.models[0].speculative_config" in faults(value)
