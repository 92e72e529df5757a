"""The GGUF header: files of the real writer, and a bounded refusal of everything else."""

from __future__ import annotations

import contextlib
import struct
import tracemalloc

import gguf
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotenant.errors import FormatError
from cotenant.readers.ggml_types import FILE_TYPES, GGML_TYPES
from cotenant.readers.gguf import MAX_TENSORS, Omitted, join_headers, read_header


def parse(data: bytes, size: int | None = None):
    return read_header(
        lambda at, length: data[at : at + length], len(data) if size is None else size, path="m.gguf"
    )


@pytest.fixture(scope="module")
def real(tmp_path_factory) -> bytes:
    """A whole small file by the project's own writer: three types, every kind of value, a vocabulary."""
    path = tmp_path_factory.mktemp("gguf") / "small.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0)
    writer.add_block_count(1)
    writer.add_head_count_kv([4, 0, 4])
    writer.add_float32("llama.rope.freq_base", 500000.0)
    writer.add_bool("llama.attention.causal", True)
    writer.add_uint64("big", 2**50)
    writer.add_int8("small", -3)
    writer.add_array("flags", [True, False])
    writer.add_array("tokenizer.ggml.tokens", [f"<token {i}>" for i in range(3000)])
    writer.add_array("tokenizer.ggml.token_type", list(range(5000)))
    writer.add_string("tokenizer.chat_template", "{% raw %}" * 4000)
    writer.add_string("general.name", "Größe")
    writer.add_tensor("token_embd.weight", np.zeros((10, 64), dtype=np.float32))
    writer.add_tensor(
        "blk.0.ffn_up.weight", np.zeros((6, 68), dtype=np.uint8), raw_dtype=gguf.GGMLQuantizationType.Q8_0
    )
    writer.add_tensor("output_norm.weight", np.zeros(7, dtype=np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path.read_bytes()


def test_a_real_file_is_read_whole(real):
    header = parse(real)
    assert (header.architecture, header.file_type, header.split_count) == ("llama", "Q8_0", 1)
    assert [(t.name, t.dtype, t.shape, t.bytes) for t in header.tensors] == [
        ("token_embd.weight", "F32", (10, 64), 2560),
        ("blk.0.ffn_up.weight", "Q8_0", (6, 64), 6 * 68),
        ("output_norm.weight", "F16", (7,), 14),
    ]
    assert header.total_bytes == 2560 + 408 + 14
    metadata = header.metadata
    assert metadata["llama.attention.head_count_kv"] == (4, 0, 4)
    assert metadata["llama.rope.freq_base"] == 500000.0
    assert metadata["llama.attention.causal"] is True
    assert (metadata["big"], metadata["small"], metadata["flags"]) == (2**50, -3, (True, False))
    assert metadata["general.name"] == "Größe"
    assert metadata["tokenizer.ggml.tokens"] == Omitted(3000)
    assert metadata["tokenizer.ggml.token_type"] == Omitted(5000)
    assert metadata["tokenizer.chat_template"] == Omitted(36000)


def test_what_its_own_reader_says_agrees(real, tmp_path):
    (tmp_path / "again.gguf").write_bytes(real)
    theirs = gguf.GGUFReader(tmp_path / "again.gguf")
    assert {t.name: t.n_bytes for t in theirs.tensors} == {t.name: t.bytes for t in parse(real).tensors}


def test_both_tables_agree_with_the_projects_own():
    for kind, (elements, size) in gguf.GGML_QUANT_SIZES.items():
        ours = GGML_TYPES[int(kind)]
        assert (ours.name, ours.block_elements, ours.block_bytes) == (kind.name, elements, size)
    for kind in gguf.LlamaFileType:
        if kind.name != "GUESSED":
            assert FILE_TYPES[int(kind)] == kind.name.removeprefix("ALL_").removeprefix("MOSTLY_")


def text(value: bytes) -> bytes:
    return struct.pack("<Q", len(value)) + value


def head(tensors: int = 0, keys: int = 0, version: int = 3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, tensors, keys)


def info(name: bytes = b"w", dims=(32,), kind: int = 0, offset: int = 0) -> bytes:
    return text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, offset)


def with_tensors(*infos: bytes, data: int = 4096) -> bytes:
    return head(tensors=len(infos)) + b"".join(infos) + bytes(data)


NESTED = text(b"k") + struct.pack("<IIQ", 9, 9, 1) + struct.pack("<IQ", 9, 1)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "begins with b''"),
        (b"PK\x03\x04", "zip archive"),
        (b"<html>", "a web page"),
        (b"GGUF", "truncated"),
        (head(version=1), "GGUF version 1"),
        (head(version=4), "GGUF version 4"),
        (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "big-endian"),
        (head(tensors=2**60), "claims 1,152,921,504,606,846,976 tensors"),
        (head(keys=2**60), "metadata keys"),
        (head(keys=1) + struct.pack("<Q", 2**60), "bytes in a metadata key"),
        (head(keys=1) + text(b"\xff\xff"), "not UTF-8"),
        (head(keys=1) + text(b"k") + struct.pack("<I", 99), "unknown value type 99"),
        (head(keys=1) + text(b"k") + struct.pack("<IQ", 8, 2**60), "truncated"),
        (
            head(keys=1) + text(b"k") + struct.pack("<IIQ", 9, 4, 2**60),
            "an array of 1,152,921,504,606,846,976 items",
        ),
        (head(keys=1) + text(b"k") + struct.pack("<IIQ", 9, 8, 2**40), "items in"),
        (head(keys=1) + NESTED, "array of values of type 9"),
        (head(keys=2) + (text(b"k") + struct.pack("<IB", 0, 1)) * 2, "'k' stands there twice"),
        (head(keys=1) + text(b"general.architecture") + struct.pack("<IB", 0, 1), "not a text"),
        (head(keys=1) + text(b"general.alignment") + struct.pack("<II", 4, 0), "power of two"),
        (head(keys=1) + text(b"general.alignment") + struct.pack("<II", 4, 33), "power of two"),
        (with_tensors(info(dims=(1,) * 5)), "claims 5 dimensions"),
        (with_tensors(info(kind=4)), "unknown type 4"),
        (with_tensors(info(dims=(33,), kind=8)), "cannot be Q8_0"),
        (with_tensors(info(dims=(2**60,))), "cannot be F32"),
        (with_tensors(info(dims=(2**40, 2**40))), "truncated"),
        (with_tensors(info(offset=64)), "at 64 instead of 0"),
        (with_tensors(info(), info(b"v", offset=32)), "at 32 instead of 128"),
        (with_tensors(info(), info(offset=128)), "same name"),
        (with_tensors(info(), data=10), "truncated"),
    ],
)
def test_a_header_that_contradicts_itself_is_refused(data, says):
    with pytest.raises(FormatError, match=says) as caught:
        parse(data)
    assert caught.value.path == "m.gguf"
    assert len(caught.value.message) < 300


def test_hostile_lengths_take_no_memory():
    claims = [
        head(tensors=MAX_TENSORS),
        head(keys=1) + text(b"k") + struct.pack("<IQ", 8, 2**50),
        head(keys=1) + text(b"k") + struct.pack("<IIQ", 9, 0, 2**50),
        head(keys=1) + text(b"k") + struct.pack("<IIQ", 9, 8, 2**50),
        head(keys=2000),
    ]
    tracemalloc.start()
    try:
        for claim in claims:
            with pytest.raises(FormatError):
                parse(claim, size=2**60)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_a_vocabulary_without_end_stops_at_the_limit():
    """A source that answers for ever: an array of 2^22 texts of 1,016 bytes each."""
    start = head(keys=1) + text(b"k") + struct.pack("<IIQ", 9, 8, 2**22)
    period = struct.pack("<Q", 1016) + bytes(1016)

    def read(at: int, length: int) -> bytes:
        if at < len(start):
            return (start[at:] + period * (length // 1024 + 1))[:length]
        skew = (at - len(start)) % 1024
        return (period * (length // 1024 + 2))[skew : skew + length]

    tracemalloc.start()
    try:
        with pytest.raises(FormatError, match="longer than 67,108,864 bytes"):
            read_header(read, 2**60)
        assert tracemalloc.get_traced_memory()[1] < 30 * 2**20
    finally:
        tracemalloc.stop()


def test_few_reads_of_growing_size_reach_the_end(real):
    calls = []
    read_header(lambda at, length: (calls.append(length), real[at : at + length])[1], len(real))
    assert len(calls) <= 3
    assert max(calls) <= 2**18


def test_parts_join_into_one_header():
    first = head(tensors=1, keys=1) + text(b"split.count") + struct.pack("<IH", 2, 2) + info() + bytes(256)
    second = with_tensors(info(b"v", dims=(32, 2), kind=1))
    joined = join_headers([parse(first), parse(second)])
    assert [tensor.name for tensor in joined.tensors] == ["w", "v"]
    assert (joined.total_bytes, joined.split_count) == (128 + 128, 1)
    with pytest.raises(FormatError, match="in 2 parts, 1 of them found"):
        join_headers([parse(first)])
    with pytest.raises(FormatError, match="same tensor twice"):
        join_headers([parse(first), parse(first)])


@given(st.binary(max_size=300))
def test_random_bytes_are_refused_or_read(data):
    _refused_or_read(data)
    _refused_or_read(b"GGUF\x03\x00\x00\x00" + data)
    _refused_or_read(head(tensors=1, keys=1) + data)


@settings(max_examples=150)
@given(st.data())
def test_mutated_files_are_refused_or_read(real, data):
    """Changes are drawn over the interesting front and back; the vocabulary between is long and dull."""
    mutated = bytearray(real)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, 700) | st.integers(len(real) - 3600, len(real) - 1))
        mutated[at] = data.draw(st.sampled_from([0, 1, 8, 9, 127, 255]) | st.integers(0, 255))
    _refused_or_read(bytes(mutated[: len(real) - data.draw(st.sampled_from([0, 0, 0, 1, 3000]))]))


values = st.one_of(
    st.tuples(st.just(0), st.binary(min_size=1, max_size=1)),
    st.tuples(st.just(4), st.binary(min_size=4, max_size=4)),
    st.tuples(st.just(8), st.binary(max_size=20).map(text)),
    st.tuples(st.just(9), st.binary(max_size=40)),
    st.tuples(st.integers(0, 14), st.binary(max_size=12)),
)


@given(st.lists(st.tuples(st.binary(max_size=12), values), max_size=5), st.binary(max_size=60))
def test_any_metadata_is_refused_or_read(pairs, rest):
    body = b"".join(text(key) + struct.pack("<I", kind) + value for key, (kind, value) in pairs)
    _refused_or_read(head(keys=len(pairs)) + body + rest)


def _refused_or_read(data: bytes) -> None:
    """Either a value whose bytes fit the file, or a FormatError: nothing else may escape."""
    with contextlib.suppress(FormatError):
        assert parse(data).total_bytes <= len(data)
