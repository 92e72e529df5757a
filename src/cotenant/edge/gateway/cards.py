"""What the driver says of the cards, for the ledger: NVML where it is there, else nothing."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any

from cotenant.edge.verifying.devices import nvml
from cotenant.errors import EngineError


def driver() -> tuple[Any | None, str]:
    """(NVML's binding; None where it is missing or finds no driver, and then why)."""
    try:
        return nvml(), ""
    except EngineError as error:
        return None, f"{error.message}: {error.hint}" if error.hint else error.message


def sizes(binding: Any) -> dict[int, tuple[str, int]]:
    """card -> (name, bytes in all), of those that answer."""
    found: dict[int, tuple[str, int]] = {}
    for card in range(int(binding.nvmlDeviceGetCount())):
        try:
            handle = binding.nvmlDeviceGetHandleByIndex(card)
            name = binding.nvmlDeviceGetName(handle)
            told = name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name)
            found[card] = told, int(binding.nvmlDeviceGetMemoryInfo(handle).total)
        except binding.NVMLError:
            continue
    return found


def read(binding: Any, cards: Sequence[int]) -> dict[int, tuple[int, dict[int, int | None]]]:
    """card -> (bytes free, bytes by pid; None where the driver does not tell them apart, as in some containers).
    A card that does not answer is left out: nothing is concluded from silence."""
    found: dict[int, tuple[int, dict[int, int | None]]] = {}
    for card in cards:
        try:
            handle = binding.nvmlDeviceGetHandleByIndex(card)
            held: dict[int, int | None] = {}
            for process in binding.nvmlDeviceGetComputeRunningProcesses(handle):
                held[process.pid] = process.usedGpuMemory
            found[card] = int(binding.nvmlDeviceGetMemoryInfo(handle).free), held
        except binding.NVMLError:
            continue
    return found


def held_by(told: dict[int, int | None], pids: frozenset[int]) -> int | None:
    """What these processes hold of a card together; None where the driver lists none of them (in a container with
    pids of its own it lists others' numbers), or does not say it of one of them."""
    mine = pids & told.keys()
    if not mine:
        return None
    total = 0
    for pid in mine:
        size = told[pid]
        if size is None:
            return None
        total += size
    return total


def held_by_each(
    told: dict[int, int | None], pids: Mapping[int, frozenset[int]], loading: Container[int]
) -> dict[int, int | None]:
    """`held_by` for each replica. One of those that load, and is not listed, holds nothing yet, where the driver
    is seen to list processes of ours by our own numbers; else nobody knows."""
    lists_ours = any(not mine.isdisjoint(told) for mine in pids.values())
    return {
        place: 0 if lists_ours and place in loading and mine.isdisjoint(told) else held_by(told, mine)
        for place, mine in pids.items()
    }
