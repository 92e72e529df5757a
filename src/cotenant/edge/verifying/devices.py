"""What processes hold on cards: NVML through its own binding, `nvidia-smi`, or a Prometheus text by URL or file.

A plan's bytes are of one rank, so a replica over several cards is told by the one of which it holds most.

auto        NVML where it is installed and finds a driver, else nothing
nvml        NVML, or a refusal
nvidia-smi  its CSV
URL, FILE   Prometheus text with DCGM's gauges (whole cards: a process is not told apart)
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from cotenant.domain.plan import Plan, ReplicaPlan
from cotenant.edge.engines.processes import descendants
from cotenant.errors import EngineError, InputError
from cotenant.readers.device_metrics import dcgm_used_bytes, smi_processes

SMI = ("nvidia-smi", "--query-compute-apps=pid,used_gpu_memory,gpu_uuid", "--format=csv,noheader,nounits")


def nvml() -> Any:
    """The binding, initialised. Raises EngineError where it is missing, with a hint, or finds no driver."""
    try:
        import pynvml
    except ImportError:
        raise EngineError("nvidia-ml-py is not installed", hint="pip install '.[verify]' in the clone") from None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise EngineError(f"NVML finds no driver: {error}") from None
    return pynvml


def nvml_cards(binding: Any) -> list[tuple[str, int, int]]:
    """(name, total bytes, used bytes) of each card. Raises EngineError."""
    found = []
    try:
        for number in range(binding.nvmlDeviceGetCount()):
            handle = binding.nvmlDeviceGetHandleByIndex(number)
            name = binding.nvmlDeviceGetName(handle)
            memory = binding.nvmlDeviceGetMemoryInfo(handle)
            found.append((name.decode() if isinstance(name, bytes) else str(name), memory.total, memory.used))
    except binding.NVMLError as error:
        raise EngineError(f"NVML: {error}") from None
    return found


def fullest_bytes(told: Iterable[tuple[object, int, int | None]], pids: frozenset[int]) -> int | None:
    """What these processes hold of the card of which they hold most, from (card, pid, bytes). None where none of
    them is listed, or one without its bytes: in some containers a driver does not tell them apart."""
    held: dict[object, int] = {}
    for card, pid, size in told:
        if pid in pids:
            if size is None:
                return None
            held[card] = held.get(card, 0) + size
    return max(held.values(), default=None)


def nvml_process_bytes(binding: Any, pids: frozenset[int]) -> int | None:
    """The same from NVML. Raises EngineError."""
    told: list[tuple[int, int, int | None]] = []
    try:
        for card in range(binding.nvmlDeviceGetCount()):
            handle = binding.nvmlDeviceGetHandleByIndex(card)
            running = binding.nvmlDeviceGetComputeRunningProcesses(handle)
            told += [(card, process.pid, process.usedGpuMemory) for process in running]
    except binding.NVMLError as error:
        raise EngineError(f"NVML: {error}") from None
    return fullest_bytes(told, pids)


def smi_process_bytes(pids: frozenset[int], text: str | None = None) -> int | None:
    """The same from `nvidia-smi`, or from its CSV. Raises EngineError where it is not there."""
    if text is None:
        try:
            text = subprocess.run(SMI, capture_output=True, text=True, timeout=10, check=True).stdout
        except (OSError, subprocess.SubprocessError) as error:
            raise EngineError(f"nvidia-smi: {error}") from None
    return fullest_bytes(smi_processes(text), pids)


class DeviceSource:
    """Where figures of cards come from, as the user says; `silent`: why nothing does, where that is so."""

    def __init__(self, told: str) -> None:
        """Raises InputError for a source that is none, EngineError where NVML was asked for and is not there."""
        self.told, self.binding, self.silent = told, None, ""
        if told == "nvml":
            self.binding = nvml()
        elif told == "auto":
            try:
                self.binding = nvml()
            except EngineError as error:
                self.silent = f"what processes hold on cards is not known: {error.message}"
                self.silent += f" ({error.hint})" if error.hint else ""
        elif told != "nvidia-smi" and "://" not in told and not Path(told).is_file():
            raise InputError(
                f"{told[:120]!r} is no source of figures of cards",
                hint="auto, nvml, nvidia-smi, a URL, or a file of Prometheus text", path="--metrics",
            )  # fmt: skip

    def of(self, replica: ReplicaPlan) -> Callable[[int], int | None]:
        """Bytes on the fullest of the replica's cards by pid."""
        if replica.settings.works_on_host:
            return lambda pid: None
        indices = frozenset(device.index for device in replica.devices)

        def held(pid: int) -> int | None:
            pids = frozenset((pid, *descendants(pid)))
            with suppress(EngineError):
                if self.binding is not None:
                    return nvml_process_bytes(self.binding, pids)
                if self.told == "nvidia-smi":
                    return smi_process_bytes(pids)
                if self.told != "auto":
                    used = dcgm_used_bytes(_text(self.told))
                    return max((size for card, size in used.items() if card in indices), default=None)
            return None

        return held


def _text(source: str) -> str:
    from cotenant.edge.engines.calls import call

    if "://" not in source:
        try:
            return Path(source).read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            raise EngineError(f"cannot read {source}: {error.strerror}") from None
    status, body = call(source, "", timeout_s=5.0)
    if status != 200:
        raise EngineError(f"{source} answered {status}")
    return body.decode("utf-8", "replace")


def check_hardware(plan: Plan, ours: list[ReplicaPlan]) -> None:
    """Whether what we would start can stand here. Raises InputError for a plan that is for other hardware."""
    wanted = {device for replica in ours if not replica.settings.works_on_host for device in replica.devices}
    if not wanted:
        return
    hint = "on the machine of the plan, or with --url NAME=http://... where its engines run"
    kinds = ", ".join(sorted({device.type for device in wanted}))
    try:
        cards = nvml_cards(nvml())
    except EngineError as error:
        if error.hint:  # nobody has looked
            words = f"this plan is for {kinds}, and nothing here can read cards: {error.message}"
            raise InputError(words, hint=f"{error.hint}; or {hint}") from None
        raise InputError(
            f"this plan is for {kinds}, and this machine has none: {error.message}", hint=hint
        ) from None
    if len({device.node for device in wanted}) > 1:
        raise InputError("this plan spans machines: engines are started on one only", hint=hint)
    from cotenant.catalogue.gpus import find_gpu

    for device in sorted(wanted, key=lambda one: one.index):
        if device.index >= len(cards):
            raise InputError(
                f"this plan is for {device.index + 1} cards, this machine has {len(cards)}", hint=hint
            )
        name, total, _ = cards[device.index]
        size = find_gpu(device.type).driver_bytes
        if not size.low * 0.97 <= total <= size.high * 1.03:
            raise InputError(
                f"this plan is for {device.type}, and card {device.index} is a {name} of {total / 2**30:.1f} GiB",
                hint=hint,
            )
