"""What a record's mix of GGUF types says of copies: bytes of an element of a layer, of experts, of the output."""

from __future__ import annotations

import re

from bench.accuracy_rows import Row
from cotenant.catalogue.quantization import largest_of_mix


def element_bytes(row: Row) -> float:
    """Bytes of an element by the name of the mix: its bits and the scales of its blocks."""
    bits = re.search(r"q(\d)", (row["model"].get("quant") or "").lower())
    return (int(bits.group(1)) + 0.5) / 8 if bits else 0.0


def expert_bytes(row: Row) -> float:
    """Those of an element of the experts' last matrix, which most mixes give more bits in some layers. Makers' own
    mixes (Q5_K_XL) give it at least what the one of their size (Q5_K_M) does."""
    mix = (row["model"].get("quant") or "").strip().upper().removeprefix("UD-")
    return largest_of_mix(re.sub(r"_XX?L$", "_M", mix), "ffn_down") or 0.0


def head_bytes(row: Row) -> int:
    """Bytes of the output layer; where its type is not told, what a mix of that name gives it (Q6_K in mixes below
    8 bits, src/llama-quant.cpp)."""
    bits = {"q6_k": 210 / 256, "q8_0": 34 / 32, "q4_k": 144 / 256, "f16": 2.0}
    mix = (row["model"].get("quant") or "").lower()
    usual = "q6_k" if re.match(r"(iq|q)[2-6]_", mix) else mix
    size = bits.get((row.get("output_weight_on_cpu_type") or usual).lower())
    return int((row["n_vocab"] or 0) * (row["n_embd"] or 0) * size) if size else 0
