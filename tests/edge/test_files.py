"""Models on disk: the right figures from real files, and a plain refusal of everything else."""

from __future__ import annotations

import json
import os
import struct
from math import prod

import pytest

from cotenant.domain.model import AttentionKind
from cotenant.edge.files import MAX_CONFIG_BYTES, load_path
from cotenant.errors import FormatError, InputError, UnknownArchitectureError, UnknownModelError

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 2,
    "vocab_size": 320,
    "max_position_embeddings": 2048,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "rms_norm_eps": 1e-5,
}
LAYER = {
    "input_layernorm.weight": (64,),
    "post_attention_layernorm.weight": (64,),
    "self_attn.q_proj.weight": (64, 64),
    "self_attn.k_proj.weight": (32, 64),
    "self_attn.v_proj.weight": (32, 64),
    "self_attn.o_proj.weight": (64, 64),
    "mlp.gate_proj.weight": (128, 64),
    "mlp.up_proj.weight": (128, 64),
    "mlp.down_proj.weight": (64, 128),
}
TENSORS = {
    "model.embed_tokens.weight": (320, 64),
    "lm_head.weight": (320, 64),
    "model.norm.weight": (64,),
    **{f"model.layers.{i}.{name}": shape for i in range(2) for name, shape in LAYER.items()},
}
PARAMETERS = 2 * 320 * 64 + 64 + 2 * (2 * 64 + 2 * 64 * 64 + 2 * 32 * 64 + 3 * 128 * 64)


def safetensors_bytes(tensors) -> bytes:
    header, at = {}, 0
    for name, shape in tensors.items():
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [at, at + 2 * prod(shape)]}
        at += 2 * prod(shape)
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(at)


@pytest.fixture
def folder(tmp_path):
    """A small Llama in one safetensors file."""
    path = tmp_path / "tiny-llama"
    path.mkdir()
    (path / "config.json").write_text(json.dumps(CONFIG))
    (path / "model.safetensors").write_bytes(safetensors_bytes(TENSORS))
    return path


def shard(folder, *, index: bool = True) -> None:
    """Split the weights of `folder` into two shards."""
    (folder / "model.safetensors").unlink()
    names = sorted(TENSORS)
    where = {}
    for number, part in enumerate((names[:9], names[9:]), 1):
        file = f"model-{number:05d}-of-00002.safetensors"
        (folder / file).write_bytes(safetensors_bytes({name: TENSORS[name] for name in part}))
        where |= dict.fromkeys(part, file)
    if index:
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": where}))


def gguf_bytes(tensors=1, arch=b"llama", **keys) -> bytes:
    """A GGUF file by hand: version 3, whole-number keys, fp32 tensors of 32 elements."""

    def text(value: bytes) -> bytes:
        return struct.pack("<Q", len(value)) + value

    numbers = {"block_count": 1, "context_length": 99, "embedding_length": 32, "attention.head_count": 2} | keys
    names = [b"token_embd.weight", b"blk.0.attn_q.weight"][:tensors]
    body = text(b"general.architecture") + struct.pack("<I", 8) + text(arch)
    for key, value in numbers.items():
        full = key.encode() if key.startswith("split") else arch + b"." + key.encode()
        body += text(full) + struct.pack("<II", 4, value)
    for number, name in enumerate(names):
        body += text(name) + struct.pack("<IQQIQ", 2, 32, 1, 0, 128 * number)
    body = b"GGUF" + struct.pack("<IQQ", 3, len(names), 1 + len(numbers)) + body
    return body + bytes(-len(body) % 32) + bytes(128 * len(names))


def test_a_folder_gives_structure_and_exact_bytes(folder):
    found = load_path(folder)
    assert found.spec.name == "tiny-llama"
    assert found.spec.num_parameters == PARAMETERS
    assert found.spec.stored_bytes == 2 * PARAMETERS
    assert found.spec.notes == ()
    assert [group.kind for group in found.spec.layer_groups] == [AttentionKind.FULL]
    assert (found.model_id, found.task) == (str(folder), "chat")
    assert found.checkpoints == {"bf16": str(folder)}
    assert found.source == str(folder / "config.json")


@pytest.mark.parametrize("index", [True, False])
def test_shards_add_up(folder, index):
    shard(folder, index=index)
    assert load_path(folder).spec.stored_bytes == 2 * PARAMETERS
    assert load_path(folder / "model-00002-of-00002.safetensors").spec.stored_bytes == 2 * PARAMETERS


def test_missing_shards_are_said_and_the_size_is_left_open(folder):
    shard(folder)
    (folder / "model-00001-of-00002.safetensors").unlink()
    spec = load_path(folder).spec
    assert spec.stored_bytes is None
    assert "1 of its 2 shards are not in the folder" in spec.notes[0]
    (folder / "model.safetensors.index.json").unlink()
    with pytest.raises(FormatError, match="1 of 2 parts are missing"):
        load_path(folder)


def test_a_file_of_the_folder_can_be_named(folder):
    assert load_path(folder / "config.json").spec.stored_bytes is None
    assert load_path(str(folder / "model.safetensors"), name="mine").spec.name == "mine"
    assert load_path(folder / "model.safetensors").spec.stored_bytes == 2 * PARAMETERS


def test_the_second_copy_of_mistrals_weights_is_not_counted(folder):
    (folder / "consolidated.safetensors").write_bytes(safetensors_bytes(TENSORS))
    shard(folder, index=False)
    assert load_path(folder).spec.stored_bytes == 2 * PARAMETERS


def test_weights_that_differ_from_the_structure_are_said(folder):
    (folder / "model.safetensors").write_bytes(safetensors_bytes({**TENSORS, "extra": (10,)}))
    spec = load_path(folder).spec
    assert spec.stored_bytes == 2 * PARAMETERS + 20
    assert f"hold {PARAMETERS + 10:,} parameters" in spec.notes[0]


def test_pickled_weights_beside_a_config_are_not_opened(folder):
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(b"PK\x03\x04evil")
    spec = load_path(folder).spec
    assert spec.stored_bytes is None
    assert "pickles" in spec.notes[0]


def test_the_hubs_cache_of_symlinks_is_followed(folder, tmp_path):
    snapshot = tmp_path / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    for number, name in enumerate(("config.json", "model.safetensors")):
        (tmp_path / f"blob{number}").write_bytes((folder / name).read_bytes())
        (snapshot / name).symlink_to(tmp_path / f"blob{number}")
    assert load_path(snapshot).spec.stored_bytes == 2 * PARAMETERS
    assert load_path(snapshot / "model.safetensors").spec.stored_bytes == 2 * PARAMETERS


def test_gguf_files_alone_in_a_folder_and_without_their_ending(tmp_path):
    path = tmp_path / "tiny-Q8_0.gguf"
    path.write_bytes(gguf_bytes())
    found = load_path(path)
    assert (found.spec.name, found.spec.num_parameters, found.spec.stored_bytes) == ("tiny-Q8_0", 32, 128)
    assert found.model_id == str(path)
    assert load_path(tmp_path).spec.num_parameters == 32
    path.rename(tmp_path / "sha256-0123")
    assert load_path(tmp_path / "sha256-0123").spec.num_parameters == 32


def test_a_split_gguf_is_joined_from_any_part(tmp_path):
    (tmp_path / "m-00001-of-00002.gguf").write_bytes(gguf_bytes(1, **{"split.count": 2}))
    second = gguf_bytes(2).replace(b"token_embd.weight", b"output_nor.weight")
    (tmp_path / "m-00002-of-00002.gguf").write_bytes(second)
    for start in (tmp_path, tmp_path / "m-00002-of-00002.gguf"):
        found = load_path(start)
        assert (found.spec.num_parameters, found.spec.stored_bytes) == (96, 384)
        assert found.model_id == str(tmp_path / "m-00001-of-00002.gguf")
    (tmp_path / "m-00002-of-00002.gguf").unlink()
    with pytest.raises(InputError, match=r"m-00002-of-00002\.gguf"):
        load_path(tmp_path / "m-00001-of-00002.gguf")
    with pytest.raises(FormatError, match="1 of 2 parts are missing"):
        load_path(tmp_path)


def test_several_gguf_files_ask_for_a_name(tmp_path):
    for mix in ("Q4_K_M", "Q8_0"):
        (tmp_path / f"m-{mix}.gguf").write_bytes(gguf_bytes())
    (tmp_path / "mmproj-F16.gguf").write_bytes(b"")
    with pytest.raises(FormatError, match="2 GGUF files could be the model") as caught:
        load_path(tmp_path)
    assert caught.value.hint == "name one: Q4_K_M, Q8_0"


@pytest.mark.parametrize(
    ("name", "content", "says", "hint"),
    [
        ("pytorch_model.bin", b"anything", "a PyTorch pickle", "convert it to safetensors"),
        ("model.pt", b"PK\x03\x04", "a PyTorch pickle", "convert it to safetensors"),
        ("weights", b"PK\x03\x04", "a PyTorch pickle", "convert it to safetensors"),
        ("x.txt", b"hello", "no model file that is understood", "config.json"),
        ("x.gguf", b"<html>", "not a GGUF file but a web page", "raw file"),
        ("x.safetensors", b"12345678", "no config.json beside it", "put the model's config.json beside it"),
        ("config.json", b"<!DOCTYPE html><html></html>", "config.json is not JSON", "web page"),
        ("config.json", b"version https://git-lfs.github.com/spec/v1", "config.json is not JSON", "git lfs pull"),
        ("config.json", b"[]", "not a JSON object", ""),
        ("config.json", b'{"weight_map": {}}', "an index of shards", "name its folder"),
        ("config.json", b'{"model_type": "a", "model_type": "b"}', "stands there twice", ""),
        ("config.json", b'{"a":' * 80 + b"1" + b"}" * 80, "nested more than 64 levels", ""),
        ("config.json", b"\xff\xfe\x00", "not UTF-8", ""),
        ("config.json", b" " * (MAX_CONFIG_BYTES + 1), "above 8,388,608", ""),
        ("config.json", b"", "config.json is not JSON", ""),
    ],
)
def test_other_files_are_refused_with_what_to_do(tmp_path, name, content, says, hint):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(FormatError, match=says) as caught:
        load_path(path)
    assert hint in caught.value.hint
    assert caught.value.path.endswith(name)


def test_folders_without_a_model_are_refused(tmp_path):
    with pytest.raises(FormatError, match=r"neither config\.json nor"):
        load_path(tmp_path)
    (tmp_path / "adapter_config.json").write_text("{}")
    with pytest.raises(FormatError, match="LoRA adapter"):
        load_path(tmp_path)


def test_an_unknown_architecture_keeps_its_own_error(tmp_path):
    (tmp_path / "config.json").write_text('{"architectures": ["NeverHeardOfForCausalLM"], "model_type": "nope"}')
    with pytest.raises(UnknownArchitectureError, match="NeverHeardOf"):
        load_path(tmp_path)
    (tmp_path / "x.gguf").write_bytes(gguf_bytes(arch=b"neverheard"))
    with pytest.raises(UnknownArchitectureError, match="neverheard") as caught:
        load_path(tmp_path / "x.gguf")
    assert caught.value.path.endswith("x.gguf")


def test_paths_that_cannot_be_opened(tmp_path, folder):
    with pytest.raises(UnknownModelError, match="no file or folder"):
        load_path(tmp_path / "nothing")
    with pytest.raises(InputError, match="cannot open"):
        load_path("a\0b")
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    with pytest.raises(InputError, match="cannot open"):
        load_path(loop)
    (folder / "config.json").unlink()
    (folder / "config.json").symlink_to(folder / "config.json")
    with pytest.raises(InputError, match=r"cannot open config\.json"):
        load_path(folder)


def test_pipes_and_devices_are_never_read(tmp_path, folder):
    pipe = tmp_path / "pipe.gguf"
    os.mkfifo(pipe)
    with pytest.raises(FormatError, match="not a regular file"):
        load_path(pipe)
    (folder / "config.json").unlink()
    (folder / "config.json").symlink_to("/dev/zero")
    with pytest.raises(FormatError, match="not a regular file"):
        load_path(folder)


def test_an_index_cannot_lead_out_of_its_folder(folder):
    (folder / "model.safetensors.index.json").write_text('{"weight_map": {"a": "../secret.safetensors"}}')
    with pytest.raises(FormatError, match=r"not a \.safetensors file beside it"):
        load_path(folder)
