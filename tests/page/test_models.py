"""A model comes onto the page: found in the catalogue, by its hub id, dropped or chosen as a file; and goes."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.page.conftest import fits_the_width, picture, served, state, until
from tests.page.doing import drop

Open = Callable[..., Any]
CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 2048, "num_hidden_layers": 16,
    "num_attention_heads": 16, "num_key_value_heads": 4, "intermediate_size": 5632, "vocab_size": 32000,
    "max_position_embeddings": 8192, "torch_dtype": "bfloat16", "tie_word_embeddings": False,
}  # fmt: skip


def test_a_search_finds_and_what_is_left_is_planned(open_page: Open, size: str) -> None:
    page = open_page(size)
    page.fill("#add-model", "qwen3 8b")
    page.wait_for_selector("[role=option]")
    picture(page, f"{size}-search")
    page.keyboard.press("Enter")
    assert "Qwen3-8B" in state(page, "fleet.models[3].model")
    for remove in reversed(page.locator(".model .x").all()):
        remove.click()
    page.click(".pool .x")
    page.wait_for_selector(".solve .main:disabled")
    fits_the_width(page)
    picture(page, f"{size}-empty")


def test_a_config_that_is_dropped_is_planned(open_page: Open, size: str) -> None:
    page = open_page(size)
    drop(page, ".models .drop", "my <b>own<b> model.json", json.dumps(CONFIG).encode())
    until(page, "now.fleet.models.length === 4")
    assert state(page, "fleet.models[3].model").startswith("upload-")
    page.click(".model .x >> nth=0")  # the largest: what is left is planned in a second
    page.click(".solve .main")
    until(page, "now.plan?.replicas.some((one) => one.model === now.fleet.models[2].name)")
    fits_the_width(page)
    picture(page, f"{size}-own-model")


def test_a_config_that_is_chosen_is_taken_as_well(open_page: Open, tmp_path: Path) -> None:
    page = open_page()
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    page.set_input_files(".file input", str(tmp_path / "config.json"))
    until(page, "now.fleet.models.length === 4")
    assert state(page, "fleet.models[3].model").startswith("upload-")


def gguf_of(path: Path) -> bytes:
    """A whole file of a small Llama."""
    numpy, gguf = pytest.importorskip("numpy"), pytest.importorskip("gguf")
    writer = gguf.GGUFWriter(path, "llama")
    for told, value in (
        (writer.add_block_count, 1), (writer.add_context_length, 4096), (writer.add_embedding_length, 256),
        (writer.add_feed_forward_length, 512), (writer.add_head_count, 4), (writer.add_head_count_kv, 2),
        (writer.add_token_list, [b"a", b"b"]), (writer.add_vocab_size, 2),
    ):  # fmt: skip
        told(value)
    layer = {"attn_q": (256, 256), "attn_k": (128, 256), "attn_v": (128, 256), "attn_output": (256, 256)}
    layer |= {"ffn_gate": (512, 256), "ffn_up": (512, 256), "ffn_down": (256, 512)}
    shapes: dict[str, tuple[int, ...]] = {f"blk.0.{name}.weight": shape for name, shape in layer.items()}
    norms = {f"{name}.weight": (256,) for name in ("blk.0.attn_norm", "blk.0.ffn_norm", "output_norm")}
    for name, shape in ({"token_embd.weight": (2, 256)} | shapes | norms).items():
        writer.add_tensor(name, numpy.zeros(shape, dtype=numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path.read_bytes()


def test_a_gguf_that_is_dropped_sends_its_head_alone(open_page: Open, size: str, tmp_path: Path) -> None:
    """At a desk 26 MiB, of which the server is sent the first 24; on a phone a small one, whole."""
    page = open_page(size)
    whole, padded_to = gguf_of(tmp_path / "tiny.gguf"), 26 * 2**20 if size == "desk" else 0
    with page.expect_request("**/api/models") as asked:
        drop(page, ".models .drop", "tiny.gguf", whole, padded_to=padded_to)
    until(page, "now.fleet.models.length === 4 || now.faults.length")
    assert state(page, "faults") == []
    assert state(page, "fleet.models[3].model").startswith("upload-")
    assert state(page, "fleet.models[3].name") == "tiny"
    head = min(max(len(whole), padded_to), 24 * 2**20)
    assert head * 4 / 3 < asked.value.sizes()["requestBodySize"] < head * 4 / 3 + 1024
    fits_the_width(page)


@pytest.fixture(scope="module")
def beside_a_hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A page whose hub is a server on this machine, with real repositories: one of a model of 8,192 positions."""
    from tests.edge.test_hub import REPOSITORIES, Hub, Server

    roomy = json.loads(REPOSITORIES["acme/tiny"]["config.json"]) | {"max_position_embeddings": 8192}
    REPOSITORIES["acme/roomy"] = REPOSITORIES["acme/tiny"] | {"config.json": json.dumps(roomy).encode()}
    hub = Server(("127.0.0.1", 0), Hub)
    hub.seen, hub.sent = [], 0
    thread = threading.Thread(target=hub.serve_forever, daemon=True)
    thread.start()
    own = tmp_path_factory.mktemp("hub")
    told = {
        "HF_ENDPOINT": f"http://127.0.0.1:{hub.server_address[1]}", "HF_HUB_OFFLINE": "0", "HF_HOME": str(own),
        "XDG_CACHE_HOME": str(own / "cache"), "NO_PROXY": "127.0.0.1,localhost", "HF_TOKEN": "",
    }  # fmt: skip
    with served(environment=told) as url:
        yield url
    hub.shutdown()
    hub.server_close()
    thread.join()


def test_a_hub_id_that_is_pasted_is_read_and_planned(open_page: Open, size: str, beside_a_hub: str) -> None:
    page = open_page(size, at=beside_a_hub)
    page.evaluate("navigator.clipboard.writeText('acme/roomy')")
    page.focus("#add-model")
    page.keyboard.press("Control+V")
    page.wait_for_selector("[role=option] >> text=Ask the hub for acme/roomy")
    picture(page, f"{size}-hub")
    page.keyboard.press("Enter")
    until(page, "now.fleet.models.length === 4 || now.faults.length")
    assert state(page, "fleet.models[3]")["model"] == "acme/roomy"
    page.click(".model .x >> nth=0")
    page.click(".solve .main")
    until(page, "now.work === null && now.stale === false")
    assert "roomy" in state(page, "plan.replicas.map((one) => one.model)")
    fits_the_width(page)


def test_a_hub_id_that_there_is_not_is_said(open_page: Open, beside_a_hub: str) -> None:
    page = open_page(at=beside_a_hub)
    page.fill("#add-model", "acme/nothing")
    page.wait_for_selector("[role=option] >> text=Ask the hub")
    page.keyboard.press("Enter")
    page.wait_for_selector(".faults >> text=acme/nothing")
    assert len(state(page, "fleet.models")) == 3
