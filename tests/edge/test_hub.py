"""The hub over real HTTP: a server on this machine that answers as the hub does, and as it does on a bad day."""

from __future__ import annotations

import json
import struct
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from math import prod
from urllib.parse import unquote, urlsplit

import huggingface_hub.constants
import pytest

from cotenant.edge import store
from cotenant.edge.hub import load_hub
from cotenant.errors import FormatError, HubError, UnknownArchitectureError

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 1,
    "vocab_size": 320,
    "max_position_embeddings": 2048,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
    "rms_norm_eps": 1e-5,
}
SHAPES = {
    "model.embed_tokens.weight": (320, 64),
    "model.norm.weight": (64,),
    "model.layers.0.input_layernorm.weight": (64,),
    "model.layers.0.post_attention_layernorm.weight": (64,),
    "model.layers.0.self_attn.q_proj.weight": (64, 64),
    "model.layers.0.self_attn.k_proj.weight": (32, 64),
    "model.layers.0.self_attn.v_proj.weight": (32, 64),
    "model.layers.0.self_attn.o_proj.weight": (64, 64),
    "model.layers.0.mlp.gate_proj.weight": (128, 64),
    "model.layers.0.mlp.up_proj.weight": (128, 64),
    "model.layers.0.mlp.down_proj.weight": (64, 128),
}
PARAMETERS = sum(map(prod, SHAPES.values()))
COMMIT = "0123456789abcdef0123456789abcdef01234567"
JSON = json.dumps(CONFIG).encode()


def weights(shapes=SHAPES) -> bytes:
    header, at = {}, 0
    for name, shape in shapes.items():
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [at, at + 2 * prod(shape)]}
        at += 2 * prod(shape)
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(at)


def gguf_bytes() -> bytes:
    def text(value: bytes) -> bytes:
        return struct.pack("<Q", len(value)) + value

    numbers = {"block_count": 1, "context_length": 99, "embedding_length": 32, "attention.head_count": 2}
    body = text(b"general.architecture") + struct.pack("<I", 8) + text(b"llama")
    for key, value in numbers.items():
        body += text(b"llama." + key.encode()) + struct.pack("<II", 4, value)
    body += text(b"filler") + struct.pack("<IQ", 8, 600_000) + bytes(600_000)  # past the first quarter MiB
    body += text(b"token_embd.weight") + struct.pack("<IQQIQ", 2, 32, 1, 0, 0)
    body = b"GGUF" + struct.pack("<IQQ", 3, 1, 6) + body
    return body + bytes(-len(body) % 32) + bytes(128)


NAMES = list(SHAPES)
SHARDS = {
    "model-00001-of-00002.safetensors": weights({name: SHAPES[name] for name in NAMES[:5]}),
    "model-00002-of-00002.safetensors": weights({name: SHAPES[name] for name in NAMES[5:]}),
}
INDEX = {"weight_map": {name: list(SHARDS)[at >= 5] for at, name in enumerate(NAMES)}}
REPOSITORIES = {
    "acme/tiny": {"config.json": JSON, "model.safetensors": weights(), "README.md": b"# hello"},
    "acme/sharded": {"config.json": JSON, "model.safetensors.index.json": json.dumps(INDEX).encode(), **SHARDS},
    "acme/lacking": {"config.json": JSON, "model.safetensors.index.json": json.dumps(INDEX).encode()},
    "acme/pickled": {"config.json": JSON, "pytorch_model.bin": b"PK\x03\x04"},
    "acme/tiny-GGUF": {"tiny-Q8_0.gguf": gguf_bytes(), "tiny-F16.gguf": gguf_bytes(), "mmproj-F16.gguf": b""},
    "acme/dataset": {"data.csv": b"1,2"},
    "acme/strange": {"config.json": b'{"architectures": ["StrangeForCausalLM"], "model_type": "strange"}'},
    "acme/page": {"config.json": b"<!DOCTYPE html><html>sign in</html>"},
    "acme/truncated": {"config.json": JSON, "model.safetensors": weights()[:200]},
    "acme/gated": {"config.json": JSON},
    "acme/endless": {"config.json": JSON, "model.safetensors": weights()},
    "acme/mirrored": {"config.json": JSON, "model.safetensors": weights()},
}


class Server(ThreadingHTTPServer):
    daemon_threads = True
    seen: list
    sent: int

    def handle_error(self, request, client_address):
        """A client that went away is what some of these tests are about."""


class Hub(BaseHTTPRequestHandler):
    """The endpoints that are asked: the listing of a repository, and files with ranges, large ones by redirect."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        path = unquote(urlsplit(self.path).path)
        self.server.seen.append((path, dict(self.headers)))
        parts = path.strip("/").split("/")
        if parts[:2] == ["api", "models"]:
            self.listing("/".join(parts[2:4]), parts[4:])
        elif parts[0] == "cdn":
            self.ranged(REPOSITORIES["/".join(parts[1:3])]["/".join(parts[3:])])
        else:
            self.file("/".join(parts[:2]), "/".join(parts[4:]))

    def listing(self, repo, rest):
        if self.trouble(repo):
            return
        if rest and rest[-1] not in ("main", COMMIT):
            self.answer(404, headers={"X-Error-Code": "RevisionNotFound"})
            return
        sizes = {name: None if repo == "acme/mirrored" else len(data) for name, data in REPOSITORIES[repo].items()}
        siblings = [{"rfilename": name, "size": size} for name, size in sizes.items()]
        self.answer(200, json.dumps({"id": repo, "sha": COMMIT, "siblings": siblings}).encode())

    def trouble(self, repo) -> bool:
        match repo:
            case "acme/old":
                self.answer(307, headers={"Location": "/api/models/acme/tiny?blobs=True"})
            case "acme/limited":
                self.answer(429, headers={"ratelimit": '"api";r=0;t=57'})
            case "acme/limited-plain":
                self.answer(429, headers={"Retry-After": "12"})
            case "acme/broken":
                self.answer(503)
            case "acme/login":
                self.answer(200, b"<html>please log in to the network</html>", {"Content-Type": "text/html"})
            case "acme/list":
                self.answer(200, b"[1, 2]")
            case "acme/badtoken":
                self.answer(401, headers={"X-Error-Message": "Invalid credentials in Authorization header"})
            case "acme/slow":
                time.sleep(1.5)
                self.answer(200, b"{}")
            case "acme/cut":
                self.send_response(200)
                self.send_header("Content-Length", "5000")
                self.end_headers()
                self.wfile.write(b"{")
                self.close_connection = True
            case _ if repo not in REPOSITORIES:
                self.answer(
                    401, headers={"X-Error-Code": "RepoNotFound", "X-Error-Message": "Repository not found"}
                )
            case _:
                return False
        return True

    def file(self, repo, name):
        if repo == "acme/gated":
            message = "Access to model acme/gated is restricted"
            self.answer(403, headers={"X-Error-Code": "GatedRepo", "X-Error-Message": message})
        elif name not in REPOSITORIES[repo]:
            self.answer(404, headers={"X-Error-Code": "EntryNotFound"})
        elif repo == "acme/endless" and name.endswith(".safetensors"):
            self.endless(REPOSITORIES[repo][name])
        elif name.endswith((".safetensors", ".gguf")):
            elsewhere = f"http://localhost:{self.server.server_address[1]}/cdn/{repo}/{name}"
            self.answer(302, headers={"Location": elsewhere})
        else:
            self.ranged(REPOSITORIES[repo][name])

    def ranged(self, data):
        first, last = self.headers["Range"].removeprefix("bytes=").split("-")
        part = data[int(first) : int(last) + 1]
        self.server.sent += len(part)
        end = int(first) + len(part) - 1
        self.answer(206, part, {"Content-Range": f"bytes {first}-{end}/{len(data)}"})

    def endless(self, data):
        """Ignores the range, and sends for ever."""
        self.send_response(200)
        self.end_headers()
        self.close_connection = True
        try:
            self.wfile.write(data)
            while True:
                self.wfile.write(bytes(2**16))
                self.server.sent += 2**16
        except OSError:
            pass

    def answer(self, status, body=b"", headers=None):
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


@pytest.fixture(scope="module")
def server():
    server = Server(("127.0.0.1", 0), Hub)
    server.seen, server.sent = [], 0
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def hub(server, monkeypatch, tmp_path):
    """The server as the hub, with empty caches and no token."""
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_address[1]}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.delenv("HUGGING_FACE_HUB_TOKEN", raising=False)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hf"))
    monkeypatch.setattr(huggingface_hub.constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    server.seen.clear()
    server.sent = 0
    return server


def asked(hub) -> list[str]:
    return [path for path, _ in hub.seen]


def test_a_repository_gives_structure_and_exact_bytes_without_its_weights(hub):
    found = load_hub("acme/tiny")
    assert found.spec.num_parameters == PARAMETERS
    assert found.spec.stored_bytes == 2 * PARAMETERS
    assert (found.spec.name, found.model_id, found.task) == ("acme/tiny", "acme/tiny", "chat")
    assert found.checkpoints == {"bf16": "acme/tiny"}
    assert found.source == f"acme/tiny@{COMMIT[:12]}/config.json"
    assert asked(hub) == [
        "/api/models/acme/tiny",
        f"/acme/tiny/resolve/{COMMIT}/config.json",
        f"/acme/tiny/resolve/{COMMIT}/model.safetensors",
        "/cdn/acme/tiny/model.safetensors",
    ]


def test_shards_are_asked_each_for_its_header(hub):
    assert load_hub("acme/sharded").spec.stored_bytes == 2 * PARAMETERS
    assert sum(path.startswith("/cdn/") for path in asked(hub)) == 2


def test_a_second_look_costs_one_request_and_an_offline_one_none(hub, monkeypatch):
    first = load_hub("acme/sharded")
    hub.seen.clear()
    assert load_hub("acme/sharded") == first
    assert asked(hub) == ["/api/models/acme/sharded"]
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    hub.seen.clear()
    offline = load_hub("acme/sharded")
    assert hub.seen == []
    assert offline.spec.stored_bytes == 2 * PARAMETERS
    assert "the hub was not asked" in offline.spec.notes[-1]
    assert offline.model_id == "acme/sharded"


def test_what_the_hubs_own_cache_holds_is_used(hub, monkeypatch, tmp_path):
    folder = tmp_path / "hf" / "models--acme--tiny"
    snapshot = folder / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text(COMMIT)
    for name, data in REPOSITORIES["acme/tiny"].items():
        (snapshot / name).write_bytes(data)
    load_hub("acme/tiny")
    assert not any(path.endswith("config.json") for path in asked(hub))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    found = load_hub("acme/tiny")
    assert found.spec.stored_bytes == 2 * PARAMETERS
    assert found.model_id == "acme/tiny"


def test_a_damaged_cache_is_set_aside_and_asked_again(hub):
    load_hub("acme/tiny")
    (kept,) = (store.cache_dir() / "hub").rglob("weights.json")
    kept.write_bytes(b'{"total_by')
    assert load_hub("acme/tiny").spec.stored_bytes == 2 * PARAMETERS
    assert kept.with_name("weights.json.corrupt").exists()
    kept.write_bytes(b'{"total_bytes": "many"}')
    assert load_hub("acme/tiny").spec.stored_bytes == 2 * PARAMETERS


def test_a_cache_that_cannot_be_written_costs_nothing_but_time(hub, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert load_hub("acme/tiny").spec.stored_bytes == 2 * PARAMETERS


def test_one_gguf_file_is_named_by_its_mix(hub):
    found = load_hub("acme/tiny-GGUF:Q8_0")
    assert (found.spec.num_parameters, found.spec.stored_bytes) == (32, 128)
    assert found.model_id == "acme/tiny-GGUF:Q8_0"
    assert not any("F16" in path for path in asked(hub))
    with pytest.raises(FormatError, match="2 GGUF files could be the model") as caught:
        load_hub("acme/tiny-GGUF")
    assert caught.value.hint == "name one: F16, Q8_0"


def test_a_renamed_model_is_followed_and_said(hub):
    found = load_hub("acme/old")
    assert found.model_id == "acme/tiny"
    assert "acme/old is now called acme/tiny" in found.spec.notes


def test_a_mirror_that_hides_sizes_is_asked_for_them(hub):
    assert load_hub("acme/mirrored").spec.stored_bytes == 2 * PARAMETERS


def test_the_token_goes_to_the_hub_and_to_nobody_that_it_sends_us_to(hub, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    load_hub("acme/tiny@main")
    tokens = {path: {key.lower(): value for key, value in headers.items()} for path, headers in hub.seen}
    for path, headers in tokens.items():
        assert headers.get("authorization") == (None if path.startswith("/cdn/") else "Bearer hf_secret")
    assert len(tokens) == 4


def test_pickled_weights_are_said_and_not_fetched(hub):
    spec = load_hub("acme/pickled").spec
    assert spec.stored_bytes is None
    assert "pickles" in spec.notes[-1]
    assert not any("bin" in path for path in asked(hub))


@pytest.mark.parametrize(
    ("model_id", "says", "hint"),
    [
        ("acme/missing", "no model 'acme/missing' on the hub that you may see", "may have been renamed"),
        (
            "acme/gated",
            "acme/gated is gated",
            "accept its terms at https://huggingface.co/acme/gated, then log in",
        ),
        ("acme/tiny@nowhere", "no such revision", "a branch, a tag or a commit"),
        ("acme/limited", r"limits your requests \(429\)", "try again in 57 s; with a token the limit is higher"),
        ("acme/limited-plain", r"limits your requests \(429\)", "try again in 12 s"),
        ("acme/broken", r"out of order \(503\)", "try again in a while"),
        ("acme/badtoken", "refuses to show acme/badtoken", "hf auth login"),
        ("acme/login", "is not the hub's", "login page or a proxy"),
        ("acme/list", "is not the hub's", "HF_ENDPOINT"),
        ("acme/slow", "cannot be reached for acme/slow", "nothing else needs the net"),
        ("acme/cut", "cannot be reached for acme/cut", "nothing else needs the net"),
        ("acme/../tiny", "cannot be a model's name", "owner/name"),
        ("a/b/c", "cannot be a model's name", "owner/name"),
        ("acme/x--y", "cannot be a model's name", "owner/name"),
        ("", "cannot be a model's name", "owner/name"),
    ],
)
def test_each_failure_has_its_own_message(hub, model_id, says, hint):
    began = time.perf_counter()
    with pytest.raises(HubError, match=says) as caught:
        load_hub(model_id, timeout_s=0.5)
    assert hint in caught.value.hint
    assert "\n" not in caught.value.message
    assert time.perf_counter() - began < 5


def test_with_a_token_the_hint_is_another(hub, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    with pytest.raises(HubError) as gated:
        load_hub("acme/gated")
    assert gated.value.hint == "accept its terms at https://huggingface.co/acme/gated"
    with pytest.raises(HubError) as limited:
        load_hub("acme/limited")
    assert limited.value.hint == "try again in 57 s"


@pytest.mark.parametrize(
    ("model_id", "says"),
    [
        ("acme/page", r"config\.json is not JSON"),
        ("acme/truncated", "in a file of 200"),
        ("acme/lacking", "lacks 2 of its 2 shards"),
        ("acme/dataset", "neither config.json nor a GGUF file"),
        ("acme/tiny:Q4_K_M", "holds no GGUF file"),
    ],
)  # fmt: skip
def test_files_that_are_no_model_are_refused(hub, model_id, says):
    with pytest.raises(FormatError, match=says) as caught:
        load_hub(model_id)
    assert "acme/" in caught.value.path + caught.value.message


def test_an_unknown_architecture_is_refused_by_name(hub):
    with pytest.raises(UnknownArchitectureError, match="StrangeForCausalLM"):
        load_hub("acme/strange")


def test_a_server_that_ignores_ranges_is_cut_off(hub):
    """The header lies in the first bytes that it sends; the rest, without end, is never awaited."""
    assert load_hub("acme/endless").spec.stored_bytes == 2 * PARAMETERS
    assert hub.sent < 2**24


def test_without_any_server_the_hub_is_offline(hub, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(HubError, match="cannot be reached for acme/tiny") as caught:
        load_hub("acme/tiny")
    assert "a catalogue name" in caught.value.hint
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(HubError, match="switched off") as caught:
        load_hub("acme/tiny")
    assert "unset HF_HUB_OFFLINE" in caught.value.hint
