"""Logs from files, compressed files and standard input; measurements that are kept."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import random
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import cotenant
from cotenant.edge.logs import known_model, log_chunks
from cotenant.edge.measurements import measurements_dir, save_measurement
from cotenant.errors import FormatError, InputError

TEXT = "INFO Model loading took 14.9889 GiB and 3.0 seconds\nINFO Available KV cache memory: 5.12 GiB\n"


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(variable, str(tmp_path / variable))


def test_a_file_a_compressed_file_and_text(tmp_path: Path) -> None:
    plain, packed = tmp_path / "a.log", tmp_path / "a.log.gz"
    plain.write_text(TEXT)
    packed.write_bytes(gzip.compress(TEXT.encode()))
    found = [cotenant.explain(source) for source in (plain, str(packed), TEXT)]
    assert [explanation.measurement for explanation in found] == [found[0].measurement] * 3
    assert len({explanation.input_hash for explanation in found}) == 1


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TEXT.encode())))
    assert cotenant.explain("-").measurement.value("available_kv_gib") == 5.12


def test_what_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a folder"):
        log_chunks(tmp_path)
    with pytest.raises(InputError, match="cannot read"):
        log_chunks("no\0name")
    broken = tmp_path / "broken.gz"
    packed = bytearray(gzip.compress(TEXT.encode() * 100))
    packed[20:24] = b"\xff\xff\xff\xff"
    broken.write_bytes(packed)
    with pytest.raises(FormatError, match="damaged compressed file"):
        cotenant.explain(broken)
    archive = tmp_path / "logs.zip"
    archive.write_bytes(b"PK\x03\x04" + b"x" * 40)
    with pytest.raises(FormatError, match=r"is a \.zip file") as refused:
        cotenant.explain(archive)
    assert "unzip -p" in refused.value.hint


@pytest.mark.parametrize("packed", [gzip.compress, bz2.compress, lzma.compress])
def test_other_packings_and_a_copy_that_was_cut_off(packed: Callable[[bytes], bytes], tmp_path: Path) -> None:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    noise = random.Random(1).randbytes(3_000_000)  # more than a block of any of them
    data = packed(TEXT.encode() + noise)
    whole.write_bytes(data)
    cut.write_bytes(data[:-400_000])
    assert cotenant.explain(whole).measurement.value("available_kv_gib") == 5.12
    assert cotenant.explain(cut).measurement.value("available_kv_gib") == 5.12


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("Qwen/Qwen3-8B", "Qwen/Qwen3-8B"),
        ("/root/.cache/huggingface/hub/models--Qwen--Qwen3-8B/snapshots/abc", "Qwen/Qwen3-8B"),
        ("/models/Qwen3-8B", "Qwen/Qwen3-8B"),
        ("/models/Qwen3-8B-Q4_K_M.gguf", "Qwen/Qwen3-8B"),
        (r"C:\models\Qwen3-8B-UD-Q4_K_XL-00001-of-00002.gguf", "Qwen/Qwen3-8B"),
        ("Qwen3 8B", "Qwen/Qwen3-8B"),
    ],
)
def test_names_that_logs_use(name: str, model: str) -> None:
    found = known_model(name)
    assert found is not None
    assert found.model_id == model


@pytest.mark.parametrize("name", [None, "", "/", "no/such-model", "../../etc/passwd", "x" * 5000])
def test_names_that_mean_nothing_here(name: str | None) -> None:
    assert known_model(name) is None


def test_a_measurement_is_kept_once() -> None:
    measurement = cotenant.explain(TEXT).measurement
    path = save_measurement(measurement)
    assert save_measurement(measurement) == path
    assert [found.name for found in measurements_dir().glob("*.json")] == [path.name]
    kept = json.loads(path.read_text("utf-8"))
    assert kept["schema"] == "cotenant/measurement/1"
    assert kept["measured"]["available_kv_gib"] == 5.12
    assert path.name.startswith("vllm-model-")
