"""The safetensors header: right on real layouts, and a bounded refusal of everything else."""

from __future__ import annotations

import contextlib
import json
import tracemalloc
from math import prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotenant.errors import FormatError
from cotenant.readers.safetensors import DTYPE_BITS, MAX_HEADER_BYTES, read_header, read_index


def build(tensors, metadata=None, data_bytes=None) -> bytes:
    """A whole file: {name: (dtype, shape)} in order, zeros as data."""
    header, at = {} if metadata is None else {"__metadata__": metadata}, 0
    for name, (dtype, shape) in tensors.items():
        size = prod(shape) * DTYPE_BITS[dtype] // 8
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    return raw(json.dumps(header).encode(), at if data_bytes is None else data_bytes)


def raw(header: bytes, data_bytes: int = 0) -> bytes:
    return len(header).to_bytes(8, "little") + header + bytes(data_bytes)


def parse(data: bytes, size: int | None = None):
    return read_header(lambda at, length: data[at : at + length], len(data) if size is None else size, path="m")


def test_tensors_come_in_the_order_of_their_data_with_exact_bytes():
    data = build({"b": ("BF16", (3, 5)), "a": ("F8_E4M3", (4,)), "scalar": ("F32", ())}, {"format": "pt"})
    found = parse(data)
    assert [(t.name, t.dtype, t.shape, t.bytes) for t in found] == [
        ("b", "BF16", (3, 5), 30),
        ("a", "F8_E4M3", (4,), 4),
        ("scalar", "F32", (), 4),
    ]


@pytest.mark.parametrize("dtype", sorted(DTYPE_BITS))
def test_every_type_has_its_size(dtype):
    (tensor,) = parse(build({"w": (dtype, (4, 8))}))
    assert tensor.bytes * 8 == 32 * DTYPE_BITS[dtype]


def test_only_the_header_is_read():
    data = build({"w": ("F16", (512, 512))})
    asked = []
    read_header(lambda at, length: (asked.append((at, length)), data[at : at + length])[1], len(data))
    assert sum(length for _, length in asked) < 200


def test_an_empty_tensor_and_an_empty_file_are_fine():
    assert parse(raw(b"{}"))[:] == ()
    assert parse(build({"none": ("F32", (0, 7)), "one": ("U8", (1,))}))[0].bytes == 0


GOOD = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


def entry(**changes) -> bytes:
    return json.dumps({"w": {**GOOD, **changes}}).encode()


@pytest.mark.parametrize(
    ("header", "data_bytes", "says"),
    [
        (b'{"w": 1}', 8, "exactly dtype, shape and data_offsets"),
        (entry(dtype="F17"), 8, "unknown dtype 'F17'"),
        (entry(dtype=["F32"]), 8, "unknown dtype"),
        (entry(shape=[True, 2]), 8, "whole numbers"),
        (entry(shape=[2.0]), 8, "whole numbers"),
        (entry(shape=[-2]), 8, "whole numbers"),
        (entry(shape=[2**63]), 8, "whole numbers"),
        (entry(shape=[1] * 40), 8, "short list"),
        (entry(shape=[2**62] * 30), 8, "does not fill"),
        (entry(data_offsets=[8, 0]), 8, "begin not after end"),
        (entry(data_offsets=[0, 4, 8]), 8, "begin, end"),
        (entry(data_offsets=[0, 2**60]), 8, "does not fill"),
        (entry(shape=[2**58], data_offsets=[0, 2**60]), 8, "in 8 bytes of data"),
        (entry(data_offsets=[4, 12]), 12, "leaves a hole"),
        (entry(), 9, "1 bytes after the last tensor"),
        (entry(), 7, "in 7 bytes of data"),
        (b'{"a": %s, "b": %s}' % (json.dumps(GOOD).encode(), json.dumps(GOOD).encode()), 8, "overlaps"),
        (b'{"w": {}, "w": {}}', 0, "'w' stands there twice"),
        (b'{"w": {"dtype": "F32", "dtype": "F32"}}', 0, "'dtype' stands there twice"),
        (b'{"__metadata__": {"a": 1}}', 0, "texts to texts"),
        (b'{"w": NaN}', 0, "NaN is not a number"),
        (b'{"w": -Infinity}', 0, "-Infinity is not a number"),
        (b"[1, 2]", 0, "not a JSON object"),
        (b'{"w": ', 0, "not JSON"),
        (b"\xff\xfe{}", 0, "not UTF-8"),
        (b'{"w": %s%s}' % (b"[" * 100, b"]" * 100), 0, "nested"),
        (b'{"w": %s' % (b"[" * 90_000), 0, "nested"),
        (b'{"w": %s}' % (b"1" * 9000), 0, "not JSON"),
    ],
)
def test_a_header_that_contradicts_itself_is_refused(header, data_bytes, says):
    with pytest.raises(FormatError, match=says.replace("[", r"\[")) as caught:
        parse(raw(header, data_bytes))
    assert caught.value.path == "m"
    assert len(caught.value.message) < 300


@pytest.mark.parametrize(
    ("data", "says", "hint"),
    [
        (b"", "cannot hold a header", "truncated"),
        (b"1234567", "cannot hold a header", "truncated"),
        (
            (2**60).to_bytes(8, "little") + b"{}" * 9,
            "a header of 1,152,921,504,606,846,976 bytes",
            "another format",
        ),
        ((MAX_HEADER_BYTES + 1).to_bytes(8, "little") + b"{}", "above 100,000,000", "another format"),
        ((5000).to_bytes(8, "little") + b'{"w":', "5,000 bytes in a file of 13", "truncated"),
        (b"PK\x03\x04\x14\x00\x00\x08\x08\x00archive/data.pkl", "a zip archive", "convert it to safetensors"),
        (b"\x80\x02}q\x00(X\x01\x00\x00\x00wq", "a pickle", "convert it to safetensors"),
        (b"<!DOCTYPE html><html><body>404</body>", "a web page", "raw file"),
        (b"\n\n  <html lang=en>  sign in", "a web page", "raw file"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0", "a Git LFS pointer", "git lfs pull"),
        (b"GGUF\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00", "a GGUF file", "name it .gguf"),
    ],
)
def test_other_files_are_recognised(data, says, hint):
    with pytest.raises(FormatError, match=says) as caught:
        parse(data)
    assert hint in caught.value.hint


def test_a_header_cut_short_by_the_reader_is_refused():
    data = build({"w": ("F32", (2,))})
    with pytest.raises(FormatError, match="header ends after"):
        parse(data[:40], size=len(data))


def test_a_pickle_length_that_looks_plausible_is_still_read_as_a_header():
    """0x80 0x02 are the first bytes of a pickle and of a header of 640 bytes."""
    header = json.dumps({"w": GOOD}).encode().ljust(640)
    assert parse(raw(header, 8))[0].name == "w"


def test_hostile_lengths_take_no_memory():
    claims = [(2**60).to_bytes(8, "little") + b"{}", raw(entry(shape=[2**58], data_offsets=[0, 2**60]), 8)]
    tracemalloc.start()
    try:
        for claim in claims:
            with pytest.raises(FormatError):
                parse(claim, size=2**61)
        assert tracemalloc.get_traced_memory()[1] < 200_000
    finally:
        tracemalloc.stop()


def test_millions_of_small_values_are_refused_before_they_are_built():
    header = b'{"w": [' + b"{}," * 1_500_000 + b"{}]}"
    tracemalloc.start()
    try:
        with pytest.raises(FormatError, match="more than 2,000,000 values"):
            parse(raw(header))
        assert tracemalloc.get_traced_memory()[1] < 4 * len(header)
    finally:
        tracemalloc.stop()


VALID = build({"a": ("BF16", (4, 4)), "b": ("I32", (3,)), "c": ("F8_E5M2", (2, 2, 2))}, {"format": "pt"})


@given(st.binary(max_size=400))
def test_random_bytes_are_refused_or_read(data):
    _refused_or_read(data)


@given(st.binary(max_size=300), st.integers(0, 2**64 - 1))
def test_random_headers_are_refused_or_read(header, length):
    _refused_or_read(length.to_bytes(8, "little") + header)
    _refused_or_read(raw(header))


@settings(max_examples=150)
@given(st.lists(st.tuples(st.integers(0, len(VALID) - 1), st.integers(0, 255)), max_size=4), st.integers(0, 60))
def test_mutated_files_are_refused_or_read(changes, cut):
    data = bytearray(VALID)
    for at, value in changes:
        data[at] = value
    _refused_or_read(bytes(data[: len(data) - cut]))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)
entries = st.fixed_dictionaries(
    {"dtype": st.sampled_from(["F32", "I4", ""]) | json_values, "shape": json_values, "data_offsets": json_values}
)


@given(st.dictionaries(st.text(max_size=5), entries | json_values, max_size=3), st.integers(0, 64))
def test_any_json_is_refused_or_read(header, data_bytes):
    _refused_or_read(raw(json.dumps(header).encode(), data_bytes))


@given(
    st.dictionaries(
        st.text(min_size=1, max_size=20).filter(lambda name: name != "__metadata__"),
        st.tuples(
            st.sampled_from(["F32", "BF16", "U8", "F8_E4M3", "I64"]), st.lists(st.integers(0, 6), max_size=4)
        ),
        max_size=8,
    )
)
def test_whatever_is_written_is_read_back(tensors):
    found = parse(build(tensors))
    assert {t.name: (t.dtype, list(t.shape)) for t in found} == tensors
    assert sum(t.bytes for t in found) == sum(prod(s) * DTYPE_BITS[d] // 8 for d, s in tensors.values())


def _refused_or_read(data: bytes) -> None:
    """Either a value whose bytes fit the file, or a FormatError: nothing else may escape."""
    try:
        tensors = parse(data)
    except FormatError:
        return
    assert sum(tensor.bytes for tensor in tensors) <= len(data)


def test_an_index_maps_tensors_to_shards():
    shards = read_index(
        b'{"metadata": {"total_size": 9}, "weight_map": {"a": "model-00001-of-00002.safetensors"}}'
    )
    assert dict(shards) == {"a": "model-00001-of-00002.safetensors"}


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "[]",
        '{"weight_map": {}}',
        '{"weight_map": {"a": 1}}',
        '{"weight_map": {"a": "../../etc/passwd.safetensors"}}',
        '{"weight_map": {"a": "/etc/x.safetensors"}}',
        '{"weight_map": {"a": "..\\\\x.safetensors"}}',
        '{"weight_map": {"a": ".hidden.safetensors"}}',
        '{"weight_map": {"a": "pytorch_model-00001.bin"}}',
        '{"weight_map": {"a": "x.safetensors", "a": "y.safetensors"}}',
        "<!DOCTYPE html>",
    ],
)
def test_a_wrong_index_is_refused(text):
    with pytest.raises(FormatError):
        read_index(text)


@given(st.text(max_size=80) | json_values.map(json.dumps))
def test_any_index_is_refused_or_read(text):
    with contextlib.suppress(FormatError):
        assert read_index(text)
