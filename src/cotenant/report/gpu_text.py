"""The catalogue of cards as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cotenant.domain.gpu import GpuSpec
from cotenant.domain.interval import Interval
from cotenant.report.grid import print_table, table
from cotenant.report.tables import print_paragraph
from cotenant.units import format_gib, format_price

if TYPE_CHECKING:
    from rich.console import Console

_WIDE = 150  # columns from which the price's source stands there too
_NARROW = 90  # below it sizes have one digit


def print_gpus(gpus: Sequence[GpuSpec], console: Console) -> None:
    """One row a card: both capacities, bandwidth, dense peaks, compute capability, price."""
    wide, digits = console.width >= _WIDE, 1 if console.width < _NARROW else 2
    source = ["price from"] if wide else []
    rows = table(
        "card", "driver", "CUDA GiB", "TB/s", "BF16", "FP8", "FP4", "compute", "price", *source,
        left=("compute",), wrap=source[0] if wide else None, spare=("FP4", "FP8", "BF16", "price"),
    )  # fmt: skip
    for gpu in gpus:
        rows.add_row(
            gpu.name, _about(gpu.driver_bytes, digits), _cuda(gpu, digits), f"{gpu.memory_bandwidth / 1e12:.2f}",
            *(_tera(gpu, name) for name in ("bf16", "fp8", "fp4")), _capability(gpu),
            format_price(gpu.price_per_hour) if gpu.price_per_hour is not None else "-",
            *([gpu.price_source or "-"] if wide else []),
        )  # fmt: skip
    print_table(rows, console)
    console.print()
    note = (
        "driver: the GiB that NVML reports; CUDA: what an engine's fraction multiplies, as low-high; ~ marks "
        "what is estimated, not measured; peaks in dense TFLOP/s, * where 16 bits mean FP16."
    )
    print_paragraph(console, note, style="dim", indent=0)


def _about(size: Interval, digits: int) -> str:
    return ("" if size.is_exact else "~") + _gib(size.value, digits)


def _cuda(gpu: GpuSpec, digits: int) -> str:
    low, high = (_gib(end, digits) for end in (gpu.cuda_bytes.low, gpu.cuda_bytes.high))
    return ("" if gpu.cuda_measured else "~") + (low if low == high else f"{low}-{high}")


def _gib(size: int, digits: int) -> str:
    return format_gib(size, digits=digits).removesuffix(" GiB")


def _tera(gpu: GpuSpec, precision: str) -> str:
    """Dense TFLOP/s; cards without BF16 show FP16 with a star."""
    peak = gpu.peak_flops.get(precision)
    star = ""
    if peak is None and precision == "bf16":
        peak, star = gpu.peak_flops.get("fp16"), "*"
    if peak is None:
        return "-"
    return f"{peak / 1e12:,.{0 if peak >= 1e13 else 1}f}{star}"


def _capability(gpu: GpuSpec) -> str:
    if gpu.compute_capability is not None:
        return f"{gpu.compute_capability[0]}.{gpu.compute_capability[1]}"
    return gpu.gfx or "-"
