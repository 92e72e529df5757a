"""Bytes of an element, of a stored matrix, and of what a caching allocator takes for it."""

from __future__ import annotations

from dataclasses import replace
from math import ceil, prod

from cotenant.domain.storage import Storage
from cotenant.units import MIB

DTYPE_BYTES = {
    "fp32": 4.0, "float32": 4.0, "bf16": 2.0, "bfloat16": 2.0, "fp16": 2.0, "float16": 2.0, "half": 2.0,
    "fp8": 1.0, "fp8_e4m3": 1.0, "fp8_e5m2": 1.0, "int8": 1.0, "uint8": 1.0, "int32": 4.0, "int64": 8.0,
    "fp4": 0.5, "nvfp4": 0.5, "mxfp4": 0.5, "int4": 0.5,
}  # fmt: skip

# Cached heads with scales of their own (vLLM 0.33). TurboQuant: (bits of keys, of values); keys of 8 bits are FP8,
# others carry a norm of 2 B, values a scale and a zero point of 2 B each, and a head's both are rounded up to an
# even number (layers/quantization/turboquant/config.py).
_TURBO = {
    "turboquant_k8v4": (8, 4), "turboquant_4bit_nc": (4, 4),
    "turboquant_k3v4_nc": (3, 4), "turboquant_3bit_nc": (3, 3),
}  # fmt: skip
# Bytes of an element with its block's scales: 4 bits and a byte for 16 elements (vLLM, utils/torch_utils.py;
# SGLang, MHATokenToKVPoolFP4) or for 32.
_BLOCK_SCALED = {
    "nvfp4": 0.5625, "nvfp4_4over6": 0.5625, "fp4_e2m1": 0.5625, "ultraquant_4bit": 0.53125, "mxfp8": 1.03125,
}  # fmt: skip
# One scale of 4 B for each of key and value (vLLM, backends/triton_attn.py and mla_attention.py).
_HEAD_SCALED = {"int8_per_token_head": 1.0, "fp8_per_token_head": 1.0, "int4_per_token_head": 0.5}

CACHE_DTYPES = (
    "fp8_e4m3",
    "fp8_e5m2",
    "fp8_inc",
    "fp8_ds_mla",
    "nvfp4_ds_mla",
    *_TURBO,
    *_BLOCK_SCALED,
    *_HEAD_SCALED,
)
"""Types that a cache may be kept in beside the plain ones."""


def cached_bytes(dtype: str, key_width: int, value_width: int) -> float:
    """Bytes of one head's key and value of a token; `value_width` 0: a latent row."""
    if dtype in _TURBO:
        keys, values = _TURBO[dtype]
        size = key_width if keys == 8 else ceil(key_width * keys / 8) + 2
        size += ceil(value_width * values / 8) + 4
        return size + size % 2
    width = key_width + value_width
    if dtype in _HEAD_SCALED:
        return width * _HEAD_SCALED[dtype] + 8
    return width * _BLOCK_SCALED.get(dtype, element_bytes("fp8" if dtype.startswith("fp8") else dtype))


def keeps_ends_plain(dtype: str) -> bool:
    """Whether the first and last two layers of a model without states keep a plain cache (turboquant/config.py,
    get_boundary_skip_layers)."""
    return dtype in _TURBO


_LARGE, _SEGMENT, _ROUND = 10 * MIB, 20 * MIB, 2 * MIB


def element_bytes(dtype: str) -> float:
    """Bytes of one element; an unknown or empty name counts as two, what engines compute in."""
    return DTYPE_BYTES.get(dtype, 2.0)


def stored_bytes(shape: tuple[int, ...], storage: Storage | None, dtype: str) -> float:
    """Bytes of a tensor of `shape` (leading dimensions, outputs, inputs); vectors are never quantised."""
    if storage is None or len(shape) < 2:
        return prod(shape) * element_bytes(dtype)
    matrices, rows, columns = prod(shape[:-2]), shape[-2], shape[-1]
    return matrices * (
        rows * columns * storage.bits / 8
        + _groups(rows, columns, storage) * (storage.scale_bits + storage.zero_bits) / 8
        + columns * storage.input_bits / 8
        + storage.tensor_bits / 8
        + storage.tensor_bits / 8
    )


def scales_bytes(shape: tuple[int, ...], storage: Storage | None) -> float:
    """Of `stored_bytes`, what tensors beside the codes hold: scales, zero points, an order of the inputs."""
    return 0.0 if storage is None or len(shape) < 2 else stored_bytes(shape, replace(storage, bits=0), "")


def _groups(rows: int, columns: int, storage: Storage) -> int:
    """How many scales a matrix has."""
    if storage.block is not None:
        return ceil(rows / storage.block[0]) * ceil(columns / storage.block[1])
    if storage.group_size < 0:
        return 1
    return rows if storage.group_size == 0 else rows * ceil(columns / storage.group_size)


def allocated_bytes(size: float, *, unsplit: bool = False) -> float:
    """What PyTorch's caching allocator counts for a tensor of `size` bytes, on average over many alike.

    From 10 MiB on a request gets its own segment, rounded up to 2 MiB; below, tensors share segments of
    20 MiB. A rest of at most 1 MiB is not split off, so it counts as part of the tensor
    (c10/cuda/CUDACachingAllocator.cpp: kMinLargeAlloc, kRoundLarge, should_split). `unsplit`: the engine loads
    with max_split_size_mb 20, so that no rest is split off a tensor of 20 MiB or more.
    """
    if size <= MIB:
        return ceil(size / 512) * 512
    if size < _LARGE:
        many = int(_SEGMENT // size)
        rest = _SEGMENT - many * size
        return size + (rest / many if rest <= MIB else 0)
    rest = -size % _ROUND
    return size + (rest if rest <= MIB or (unsplit and size >= _SEGMENT) else 0)
