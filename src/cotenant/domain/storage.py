"""How a tensor lies in memory once a format has shrunk it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Storage:
    """How one tensor is stored: bits an element, and what each group of elements adds.

    A group is `group_size` consecutive inputs of one output (0: the whole row = per channel; -1: the whole
    tensor), or a `block` of rows x columns. `input_bits` are stored once per input column (GPTQ's g_idx),
    `tensor_bits` once per matrix (global scales, shapes).
    """

    bits: float
    group_size: int = -1
    scale_bits: int = 0
    zero_bits: int = 0
    input_bits: int = 0
    block: tuple[int, int] | None = None
    tensor_bits: int = 0
